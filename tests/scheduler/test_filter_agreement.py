"""Nodes that we call feasible are those that kube-scheduler calls feasible, on generated clusters and pods.

kube-scheduler tells by asking a filter extender, after its own filters, about the nodes that are left. The extender
writes them down and refuses all, so that no candidate is ever bound and every one sees the same cluster.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kube.objects import a_claim, a_csi_node, a_volume, an_attachment, claiming
from lab.labs import a_lab, eventually, make_namespace
from pilotage.kube.cache import ClusterCache, NamespaceFollower, NodeFollower, PodFollower
from pilotage.kube.client import Client, Json
from pilotage.kube.filters import FEATURES, by_rules
from pilotage.kube.podview import read_pod
from pilotage.kube.storage_following import storage_followers
from pilotage.kube.volume_filters import IN_USE, TOO_MANY_VOLUMES, VOLUME_AFFINITY, VOLUME_ZONE
from pilotage.kube.watch import Follower
from pilotage.lab.components import KUBELET_ALIVE, KUBELET_LABEL, LabSettings
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.policies.registry import find_policy
from pilotage.scheduler.cycle import Cycle

CLUSTERS, NODES, PLACED, CANDIDATES = 10, 10, 14, 32
DISKS = 12  # bound claims in the namespace of the candidates
DRIVERS = ("one.csi.example.com", "two.csi.example.com")
ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
RESTARTS_ALL = {
    "restartPolicy": "Never",
    "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}],
}
ZONES = ("a", "b", "c")
APPS = ("web", "db", "cache")
RUNTIMES = {"light": {"cpu": "250m"}, "heavy": {"cpu": "1500m", "memory": "2Gi"}}  # and their overhead


@dataclass
class Recorder:
    """A filter extender that remembers what it was asked."""

    asked: dict[str, set[str]] = field(default_factory=dict)  # uid -> nodes
    port: int = 0

    def serve(self) -> ThreadingHTTPServer:
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                recorder.asked[asked["Pod"]["metadata"]["uid"]] = set(asked["NodeNames"] or ())
                refused = dict.fromkeys(asked["NodeNames"] or (), "only asking")
                answer = json.dumps({"NodeNames": [], "FailedAndUnresolvableNodes": refused}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_address[1]
        return server


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Recorder]]:
    recorder = Recorder()
    server = recorder.serve()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    extra = (
        "percentageOfNodesToScore: 100\n"
        f"extenders: [{{urlPrefix: 'http://127.0.0.1:{recorder.port}', filterVerb: filter, nodeCacheCapable: true}}]\n"
    )
    directory: Path = tmp_path_factory.mktemp("labs")
    with a_lab(directory, LabSettings(scheduler_extra=extra), "agreement") as lab:
        in_lab(lab, make_runtimes)
        yield lab, recorder
    server.shutdown()
    server.server_close()
    thread.join()


async def make_runtimes(client: Client) -> None:
    for name, overhead in RUNTIMES.items():
        body = {"metadata": {"name": name}, "handler": name, "overhead": {"podFixed": overhead}}
        await client.create("/apis/node.k8s.io/v1/runtimeclasses", body)


def chance(source: random.Random, share: float) -> bool:
    return source.random() < share


def a_node(source: random.Random, name: str) -> Json:
    labels = {"kubernetes.io/hostname": name, KUBELET_LABEL: KUBELET_ALIVE, "cluster": name.split("-", maxsplit=1)[0]}
    if chance(source, 0.85):
        labels["topology.kubernetes.io/zone"] = source.choice(ZONES)
    if chance(source, 0.5):
        labels["disk"] = source.choice(["ssd", "hdd"])
    if chance(source, 0.4):
        labels["size"] = str(source.randint(1, 9))
    taints = []
    if chance(source, 0.25):
        taints.append({"key": "keep", "value": source.choice(["x", "y"]), "effect": "NoSchedule"})
    if chance(source, 0.15):
        taints.append({"key": "soft", "value": "x", "effect": "PreferNoSchedule"})
    offered = {"cpu": source.choice(["4", "8", "7500m"]), "memory": "16Gi", "pods": source.choice(["4", "6", "110"])}
    if chance(source, 0.4):
        offered["example.com/nic"] = source.choice(["1", "3"])
    if chance(source, 0.4):
        offered["ephemeral-storage"] = "10Gi"
    spec: Json = {"taints": taints}
    if chance(source, 0.1):
        spec["unschedulable"] = True
    if chance(source, 0.15):
        labels[OLD_ZONE] = source.choice(ZONES)
    metadata = {"name": name, "labels": labels}
    status: Json = {"allocatable": offered, "capacity": offered}
    if chance(source, 0.5):
        status["declaredFeatures"] = ["RestartAllContainersOnContainerExits"]
    return {"metadata": metadata, "spec": spec, "status": status}


def decisive(nodes: list[str]) -> list[Json]:
    """Disks that each give another filter something to say, in every cluster."""
    first = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": nodes[:4]}]}]
    kinds: list[Json] = [{"modes": ["ReadWriteOncePod"]}, {"terms": first}, {"labels": {ZONE: "a"}}, {}]
    return [{"driver": DRIVERS[0], **one} for one in kinds]


def any_disk(source: random.Random, namespace: str, nodes: list[str]) -> Json:
    kind = source.randint(0, 5)
    more: Json = {"hostPath": {"path": "/nowhere"}} if kind == 0 else {"driver": source.choice(DRIVERS)}
    if chance(source, 0.3):
        more["labels"] = {source.choice([ZONE, ZONE, OLD_ZONE]): source.choice(["a", "b", "a__b", "b__c", "c"])}
    if chance(source, 0.3):
        key, values = source.choice(
            [("kubernetes.io/hostname", source.sample(nodes, 4)), ("disk", ["ssd"]), (ZONE, source.sample(ZONES, 2))]
        )
        more["terms"] = [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]
        if chance(source, 0.3):
            more["terms"].append({"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["5"]}]})
    if chance(source, 0.15):
        more["handle"] = f"{namespace}-shared"
    if chance(source, 0.25):
        more["modes"] = ["ReadWriteOncePod"]
    return more


def volumes_of(source: random.Random) -> list[Json]:
    """Bound claims for the most part; one that is not bound, and one that is not there."""
    names = [f"disk-{number}" for number in source.sample(range(DISKS), source.randint(1, 3))]
    if chance(source, 0.07):
        names.append(source.choice(["pending", "missing"]))
    return [*claiming(*names), {"name": "scratch", "emptyDir": {}}]


def label_selector(source: random.Random) -> Json:
    kind = source.randint(0, 4)
    if kind == 0:
        return {"matchExpressions": [{"key": "app", "operator": "In", "values": source.sample(APPS, 2)}]}
    if kind == 1:
        return {"matchExpressions": [{"key": "tier", "operator": source.choice(["Exists", "DoesNotExist"])}]}
    if kind == 2:
        return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [source.choice(APPS)]}]}
    return {"matchLabels": {"app": source.choice(APPS)}}


def topology(source: random.Random) -> str:
    return source.choice(
        ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/zone", "disk"]
    )


def pod_term(source: random.Random) -> Json:
    term: Json = {"topologyKey": topology(source), "labelSelector": label_selector(source)}
    if chance(source, 0.2):
        term["namespaceSelector"] = source.choice([{}, {"matchLabels": {"team": "other"}}])
    return term


def requests(source: random.Random) -> Json:
    asked = {"cpu": source.choice(["100m", "1", "2", "3500m"]), "memory": source.choice(["128Mi", "1Gi", "6G"])}
    if chance(source, 0.15):
        asked["example.com/nic"] = source.choice(["1", "2"])
    if chance(source, 0.1):
        asked["ephemeral-storage"] = "4Gi"
    return {"requests": asked, "limits": {key: asked[key] for key in asked if "/" in key}}


def node_terms(source: random.Random) -> Json:
    def expression() -> Json:
        operator = source.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
        if operator in ("Gt", "Lt"):
            return {"key": "size", "operator": operator, "values": [str(source.randint(1, 9))]}
        if operator in ("Exists", "DoesNotExist"):
            return {"key": source.choice(["disk", "size"]), "operator": operator}
        return {"key": "disk", "operator": operator, "values": source.sample(["ssd", "hdd"], source.randint(1, 2))}

    terms = [
        {"matchExpressions": [expression() for _ in range(source.randint(1, 2))]} for _ in range(source.randint(1, 2))
    ]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def a_pod(source: random.Random, name: str, node: str | None = None) -> Json:
    container: Json = {"name": "main", "image": "none", "resources": requests(source)}
    if chance(source, 0.15):
        container["ports"] = [
            {
                "containerPort": 80,
                "hostPort": source.choice([80, 81]),
                "protocol": source.choice(["TCP", "UDP"]),
                **({"hostIP": "127.0.0.1"} if chance(source, 0.4) else {}),
            }
        ]
    if chance(source, 0.1):
        container |= RESTARTS_ALL
    spec: Json = {"containers": [container], "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
    if chance(source, 0.35):
        spec["volumes"] = volumes_of(source)
    if chance(source, 0.2):
        spec["initContainers"] = [
            {
                "name": "first",
                "image": "none",
                "resources": {"requests": {"cpu": source.choice(["2", "5"])}},
                **({"restartPolicy": "Always"} if chance(source, 0.5) else {}),
            }
        ]
    if chance(source, 0.2):  # what its RuntimeClass says: the API server writes it into the pod
        spec["runtimeClassName"] = source.choice(list(RUNTIMES))
    affinity: Json = {}
    if chance(source, 0.15):
        affinity["podAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [pod_term(source) for _ in range(source.randint(1, 2))]
        }
    if chance(source, 0.2 if node is None else 0.07):
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [pod_term(source)]}
    if node is not None:
        spec["nodeName"] = node
    else:
        if chance(source, 0.2):
            affinity["nodeAffinity"] = node_terms(source)
        if chance(source, 0.15):
            spec["nodeSelector"] = {"disk": "ssd"}
        if chance(source, 0.35):
            spec["tolerations"] = [
                source.choice(
                    [
                        {"operator": "Exists"},
                        {"key": "keep", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
                        {"key": "keep", "operator": "Exists"},
                        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
                    ]
                )
            ]
        if chance(source, 0.3):
            spec["topologySpreadConstraints"] = spread(source)
    if affinity:
        spec["affinity"] = affinity
    labels = {"app": source.choice(APPS), **({"tier": "front"} if chance(source, 0.3) else {})}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def spread(source: random.Random) -> list[Json]:
    keys = source.sample(["kubernetes.io/hostname", "topology.kubernetes.io/zone"], source.randint(1, 2))
    found = []
    for key in keys:
        entry: Json = {
            "maxSkew": source.randint(1, 3),
            "topologyKey": key,
            "whenUnsatisfiable": source.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": label_selector(source),
        }
        if entry["whenUnsatisfiable"] == "DoNotSchedule" and chance(source, 0.3):
            entry["minDomains"] = source.randint(1, 4)
        if chance(source, 0.3):
            entry["nodeAffinityPolicy"] = "Ignore"
        if chance(source, 0.3):
            entry["nodeTaintsPolicy"] = "Honor"
        if chance(source, 0.2) and "tier" not in str(entry["labelSelector"]):
            entry["matchLabelKeys"] = ["tier"]
        found.append(entry)
    return found


async def nodes_are_ready(client: Client, names: list[str]) -> bool | None:
    found, _ = await client.list_all("/api/v1/nodes")
    ready = [
        node["metadata"]["name"]
        for node in found
        if not any("not-ready" in taint["key"] for taint in node["spec"].get("taints") or ())
        and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or ())
    ]
    return set(names) <= set(ready) or None


async def all_run(client: Client, namespaces: list[str]) -> bool | None:
    """By then everybody else has seen them too."""
    for namespace in namespaces:
        found, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
        if any(one["status"].get("phase") != "Running" for one in found):
            return None
    return True


async def make_disks(client: Client, source: random.Random, namespaces: list[str], nodes: list[str]) -> None:
    """What pods of both namespaces claim, and how much of it nodes can attach."""
    for namespace in namespaces:
        claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        kinds = decisive(nodes)
        kinds += [any_disk(source, namespace, nodes) for _ in range(DISKS - len(kinds))]
        for number, more in enumerate(kinds):  # bound as the controller would: it does not run in the lab
            name, modes = f"disk-{number}", more.pop("modes", ["ReadWriteMany"])
            volume = a_volume(f"{namespace}-{name}", name, namespace=namespace, accessModes=modes, **more)
            await client.create("/api/v1/persistentvolumes", volume)
            claim = a_claim(name, volume["metadata"]["name"], namespace=namespace, modes=modes)
            await client.create(claims, claim)
        await client.create(claims, a_claim("pending", namespace=namespace))
    for node in nodes:
        if node == nodes[0] or chance(source, 0.8):
            most = [0] if node == nodes[0] else [None, 1, 2, 3]
            limits = {driver: source.choice(most) for driver in DRIVERS}
            await client.create("/apis/storage.k8s.io/v1/csinodes", a_csi_node(node, **limits))
        if chance(source, 0.3):
            left = f"{namespaces[0]}-disk-{source.randrange(DISKS)}"
            attachment = an_attachment(f"{node}-left", node, source.choice(DRIVERS), left)
            await client.create("/apis/storage.k8s.io/v1/volumeattachments", attachment)


async def scenario(
    client: Client, recorder: Recorder, number: int
) -> tuple[list[tuple[Json, set[str], set[str]]], set[str]]:
    """One cluster: each candidate with kube-scheduler's nodes and ours; and which filters had something to say."""
    source = random.Random(number)  # noqa: S311
    names = [f"c{number}-{i}" for i in range(NODES)]
    namespaces = [await make_namespace(client) for _ in range(2)]
    await client.patch(f"/api/v1/namespaces/{namespaces[1]}", {"metadata": {"labels": {"team": "other"}}})
    for name in names:
        await client.create("/api/v1/nodes", a_node(source, name))
    await eventually(lambda: nodes_are_ready(client, names), "nodes are ready")
    await make_disks(client, source, namespaces, names)
    for i in range(PLACED):
        body = a_pod(source, f"placed-{i}", source.choice(names))
        if i == 0:
            body["spec"]["volumes"] = claiming("disk-0")
        await client.create(f"/api/v1/namespaces/{source.choice(namespaces) if i else namespaces[0]}/pods", body)
    await eventually(lambda: all_run(client, namespaces), "placed pods run")
    candidates = []
    for i in range(CANDIDATES):
        body = a_pod(source, f"candidate-{i}")
        if i < len(decisive(names)):
            body["spec"]["volumes"] = claiming(f"disk-{i}")
        elif i == len(decisive(names)):
            body["spec"]["containers"][0] |= RESTARTS_ALL
        candidates.append(await client.create(f"/api/v1/namespaces/{namespaces[0]}/pods", body))

    async def looked_at() -> bool | None:
        found, _ = await client.list_all(f"/api/v1/namespaces/{namespaces[0]}/pods")
        open_ = [
            one
            for one in found
            if one["metadata"]["name"].startswith("candidate")
            and not any(c["type"] == "PodScheduled" for c in one["status"].get("conditions") or ())
        ]
        return None if open_ else True

    await eventually(looked_at, "kube-scheduler has looked at every candidate")
    cache = ClusterCache()
    followers: list[tuple[str, Follower]] = [
        ("/api/v1/namespaces", NamespaceFollower(cache)),
        ("/api/v1/nodes", NodeFollower(cache)),
        *await storage_followers(client, cache, pytest.fail),
        ("/api/v1/pods", PodFollower(cache)),
    ]
    for path, follower in followers:
        objects, _ = await client.list_all(path)
        follower.listed(objects)
    cycle = Cycle(cache, {"default-scheduler": find_policy("first-fit")})
    found, reasons = [], set()
    for candidate in candidates:
        theirs, pod = recorder.asked.get(candidate["metadata"]["uid"], set()), read_pod(candidate)
        found.append((candidate, theirs, set(cycle.candidates(pod))))
        reasons |= {reason for reason, _ in by_rules(pod, cache)}
    for namespace in namespaces:
        await client.delete(f"/api/v1/namespaces/{namespace}")
    for name in names:
        await client.delete(f"/api/v1/nodes/{name}")
    return found, reasons


@pytest.mark.parametrize("number", range(CLUSTERS))
def test_the_same_nodes_are_feasible(recorded: tuple[Lab, Recorder], number: int) -> None:
    lab, recorder = recorded
    found, reasons = in_lab(lab, lambda client: scenario(client, recorder, number))
    wrong = [
        (candidate["metadata"]["name"], candidate["spec"], sorted(theirs), sorted(ours))
        for candidate, theirs, ours in found
        if theirs != ours
    ]
    assert wrong == []
    assert any("overhead" in candidate["spec"] for candidate, _, _ in found)
    assert any("volumes" in candidate["spec"] and 0 < len(theirs) < NODES for candidate, theirs, _ in found)
    assert reasons >= {IN_USE, TOO_MANY_VOLUMES, VOLUME_AFFINITY, VOLUME_ZONE, FEATURES}
    sizes = {len(theirs) for _, theirs, _ in found}
    assert 0 in sizes  # some fit nowhere,
    assert len(sizes) > 3  # and the others differ


def test_there_are_enough_scenarios() -> None:
    assert CLUSTERS * CANDIDATES >= 300
