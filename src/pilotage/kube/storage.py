"""Claims and volumes as the API server has them, as far as placements depend on them."""

from __future__ import annotations

from dataclasses import dataclass

from pilotage.kube.client import Json
from pilotage.kube.pod_rules import read_expressions
from pilotage.kube.pod_volumes import MIGRATED, VolumeId, migrated
from pilotage.model.constraints import ANYWHERE, Constraints, Requirement
from pilotage.workloads.affinity import NAME_FIELD, NOWHERE

ClaimKey = tuple[str, str]  # namespace, name
Topology = tuple[tuple[str, frozenset[str]], ...]  # a label of nodes, and which of its values will do

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
# The labels that tell where a volume is, old ones first, with the name that nodes have them under today.
PLACES = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    ZONE: ZONE,
    REGION: REGION,
}
SEPARATOR = "__"  # between several zones in one label


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim."""

    volume: str = ""  # the name of its PersistentVolume, also when the two are not fully bound yet
    bound: bool = False
    one_pod: bool = False  # ReadWriteOncePod
    lost: bool = False  # its volume is gone
    deleting: bool = False
    owner: str = ""  # uid of what it was made for


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume."""

    claim: ClaimKey | None = None  # that it is kept for
    attached_as: VolumeId | None = None  # None: of a kind that no CSI driver attaches
    migrated: bool = False  # of a kind older than CSI
    where: Constraints = ANYWHERE  # node affinity
    topology: Topology = ()


def read_claim(found: Json) -> VolumeClaim:
    metadata, spec = found["metadata"], found.get("spec") or {}
    volume = spec.get("volumeName") or ""
    owners = (owner["uid"] for owner in metadata.get("ownerReferences") or () if owner.get("controller"))
    return VolumeClaim(
        volume=volume,
        bound=bool(volume) and BIND_COMPLETED in (metadata.get("annotations") or {}),
        one_pod="ReadWriteOncePod" in (spec.get("accessModes") or ()),
        lost=(found.get("status") or {}).get("phase") == "Lost",
        deleting="deletionTimestamp" in metadata,
        owner=next(owners, ""),
    )


def read_volume(found: Json) -> Volume:
    metadata, spec = found["metadata"], found.get("spec") or {}
    reference = spec.get("claimRef") or {}
    older = next((kind for kind in MIGRATED if kind in spec), "")
    return Volume(
        claim=(reference.get("namespace") or "", reference["name"]) if reference.get("name") else None,
        attached_as=migrated(older, spec[older]) if older else _csi(spec.get("csi") or {}),
        migrated=bool(older),
        where=_where((spec.get("nodeAffinity") or {}).get("required")),
        topology=_topology(metadata.get("labels") or {}),
    )


def _csi(source: Json) -> VolumeId | None:
    driver, handle = source.get("driver") or "", source.get("volumeHandle") or ""
    return (driver, handle) if driver and handle else None


def _where(required: Json | None) -> Constraints:
    if required is None:
        return ANYWHERE
    terms = [_term(entry) for entry in required.get("nodeSelectorTerms") or ()]
    return Constraints(terms=tuple(term for term in terms if term) or (NOWHERE,))


def _term(entry: Json) -> tuple[Requirement, ...]:
    """Fields are compared with those of a node without a name, as kube-scheduler does for volumes."""
    fields = read_expressions(entry, "matchFields")
    if not all(one.matches({NAME_FIELD: ""}) for one in fields):
        return NOWHERE
    expressions = read_expressions(entry)
    return expressions if expressions or not fields else (Requirement("", "DoesNotExist"),)  # which holds everywhere


def _topology(labels: dict[str, str]) -> Topology:
    """A label with an empty zone in it says nothing."""
    found = []
    for key in PLACES:
        if key in labels:
            zones = [zone.strip() for zone in labels[key].split(SEPARATOR)]
            if all(zones):
                found.append((key, frozenset(zones)))
    return tuple(found)
