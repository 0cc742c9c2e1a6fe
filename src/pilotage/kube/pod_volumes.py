"""What the volumes of a pod are: claims in its namespace, disks that it names itself, and those on every node."""

from __future__ import annotations

from dataclasses import dataclass

from pilotage.kube.client import Json

VolumeId = tuple[str, str]  # CSI driver, and its name for the volume

# Volumes that are on every node or come with the pod, and those of which kube-scheduler asks nothing either.
EVERYWHERE = frozenset(
    (
        "azureFile",
        "cephfs",
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "fc",
        "flexVolume",
        "flocker",
        "gitRepo",
        "glusterfs",
        "hostPath",
        "image",
        "nfs",
        "photonPersistentDisk",
        "projected",
        "quobyte",
        "scaleIO",
        "secret",
        "storageos",
        "vsphereVolume",
    )
)
_NOTHING = EVERYWHERE | {"name"}  # keys of a volume that ask for nothing
# Kinds older than CSI whose disks a CSI driver attaches now: that driver, and the field that tells disks apart.
MIGRATED = {
    "awsElasticBlockStore": ("ebs.csi.aws.com", "volumeID"),
    "azureDisk": ("disk.csi.azure.com", "diskURI"),
    "cinder": ("cinder.csi.openstack.org", "volumeID"),
    "gcePersistentDisk": ("pd.csi.storage.gke.io", "pdName"),
    "portworxVolume": ("pxd.portworx.com", "volumeID"),
}
# Kinds of which two pods on one node may not use the same disk; most may if both only read.
EXCLUSIVE = ("awsElasticBlockStore", "gcePersistentDisk", "iscsi", "rbd")
NEVER_SHARED = "awsElasticBlockStore"


@dataclass(frozen=True, slots=True)
class Disk:
    """One that the pod itself names, of a kind older than CSI."""

    kind: str
    name: str
    read_only: bool = False
    monitors: frozenset[str] = frozenset()  # of Ceph: the same image elsewhere is another one

    @property
    def attached_as(self) -> VolumeId | None:
        return (MIGRATED[self.kind][0], self.name) if self.kind in MIGRATED else None

    def conflicts(self, other: Disk) -> bool:
        if (self.kind, self.name) != (other.kind, other.name) or self.kind not in EXCLUSIVE:
            return False
        if self.read_only and other.read_only and self.kind != NEVER_SHARED:
            return False
        return self.kind != "rbd" or not self.monitors.isdisjoint(other.monitors)


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """Those that matter for a placement."""

    claims: tuple[str, ...] = ()  # names of PersistentVolumeClaims
    own: tuple[str, ...] = ()  # of claims that are made for this pod alone (generic ephemeral volumes)
    disks: tuple[Disk, ...] = ()

    @property
    def all_claims(self) -> tuple[str, ...]:
        return self.claims + self.own


NO_VOLUMES = PodVolumes()


def read_volumes(spec: Json, pod: str) -> tuple[PodVolumes, str]:
    """With a kind of volume that nobody here knows, "" where there is none."""
    claims, own, disks, unknown = [], [], [], ""
    for volume in spec.get("volumes") or ():
        kind = next((key for key in volume if key not in _NOTHING), "")
        if kind == "persistentVolumeClaim":
            claims.append(volume[kind]["claimName"])
        elif kind == "ephemeral":
            own.append(f"{pod}-{volume['name']}")
        elif kind in MIGRATED or kind in EXCLUSIVE:
            disks.append(_disk(kind, volume[kind]))
        else:
            unknown = unknown or kind
    if not (claims or own or disks):
        return NO_VOLUMES, unknown
    return PodVolumes(tuple(dict.fromkeys(claims)), tuple(own), tuple(disks)), unknown


def _disk(kind: str, source: Json) -> Disk:
    read_only = bool(source.get("readOnly"))
    if kind == "iscsi":
        return Disk(kind, str(source.get("iqn")), read_only)
    if kind == "rbd":
        name = f"{source.get('pool') or 'rbd'}/{source.get('image')}"
        return Disk(kind, name, read_only, frozenset(source.get("monitors") or ()))
    return Disk(kind, migrated(kind, source)[1], read_only)


def migrated(kind: str, source: Json) -> VolumeId:
    """As its CSI driver knows it."""
    driver, key = MIGRATED[kind]
    name = str(source.get(key) or "")
    return driver, name.rpartition("/")[2] if kind == "awsElasticBlockStore" else name  # aws://zone/vol-1 is vol-1
