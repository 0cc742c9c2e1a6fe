"""A real kube-scheduler with the extender puts a recorded stream where the simulator does: same node, same devices."""

from __future__ import annotations

import asyncio

import numpy as np

from lab.labs import eventually
from pilotage.kube.podview import device_mask
from pilotage.lab.controlplane import Lab
from pilotage.model.cluster import Node
from pilotage.model.workload import Pod, PodShape, Workload
from pilotage.policies.api import WorkloadMix
from pilotage.policies.registry import find_policy
from pilotage.sim.run import Run, RunSettings
from pilotage.workloads.manifest_writing import pod_manifests
from pilotage.workloads.topology import natural_order
from serving.schedulers import a_kube_scheduler, bound, following, own_nodes
from serving.services import a_service

POLICY = "best-fit"
PODS = 30


def machines() -> list[Node]:
    """No two alike, so that no two nodes ever have the same score."""
    sizes = [(8, 0), (17, 2), (26, 2), (37, 4), (49, 1), (61, 4)]
    return [
        Node(f"extender-{n}", cpu * 1000 + 7 * n, (40 + 9 * n) * 2**30, gpu_count=gpus, labels=(("test", "extender"),))
        for n, (cpu, gpus) in enumerate(sizes)
    ]


def stream() -> Workload:
    shapes = [
        PodShape(1130, 2**30),
        PodShape(2210, 2**30, gpu_milli=400, gpu_count=1),
        PodShape(730, 2**31, gpu_milli=1000, gpu_count=1),
        PodShape(510, 2**30, gpu_milli=250, gpu_count=1),
        PodShape(3170, 2**32),
    ]
    return Workload.of(Pod(f"stream-{i:02d}", shapes[(i * 7) % len(shapes)]) for i in range(PODS))


def simulated(nodes: list[Node], workload: Workload) -> list[tuple[str, int]]:
    order = sorted(range(len(nodes)), key=lambda n: natural_order(nodes[n].name))
    run = Run(
        tuple(nodes),
        workload,
        find_policy(POLICY),
        RunSettings(),
        rank_N=np.argsort(order),
        mix=WorkloadMix.of(workload),
    )
    assert run.advance() == -1
    progress = run.scene.progress
    placed = zip(progress.node_P.tolist(), progress.devices_P.tolist(), strict=True)
    return [(run.state.nodes[n].name, devices) if n >= 0 else ("", 0) for n, devices in placed]


def test_same_node_and_device(lab: Lab) -> None:
    nodes, workload = machines(), stream()
    expected = simulated(nodes, workload)
    assert "" not in {name for name, _ in expected}
    assert len({name for name, _ in expected}) >= 3  # it is no stream for one node alone

    async def place() -> list[tuple[str, int]]:
        found = []
        async with own_nodes(lab, nodes) as (client, namespace):
            settings = following(lab, POLICY, mix=WorkloadMix.of(workload))
            with (
                a_service(settings) as serving,
                a_kube_scheduler(lab, "extender-gpu.yaml", f"http://127.0.0.1:{serving.port}"),
            ):
                for manifest in pod_manifests(workload):
                    spec = {
                        **manifest["spec"],
                        "schedulerName": "pilotage-gpu",
                        "nodeSelector": {"test": "extender"},
                    }
                    name = manifest["metadata"]["name"]
                    metadata = {**manifest["metadata"], "namespace": namespace}
                    await client.create(
                        f"/api/v1/namespaces/{namespace}/pods", {**manifest, "metadata": metadata, "spec": spec}
                    )
                    pod = await bound(client, namespace, name)
                    index = (pod["metadata"].get("annotations") or {}).get("alibabacloud.com/gpu-index")
                    found.append((pod["spec"]["nodeName"], device_mask(index)))
                    uid = pod["metadata"]["uid"]

                    async def seen(uid: str = uid) -> bool | None:
                        state = serving.own.scoring.cache.state if serving.own is not None else None
                        known = state is not None and state.placement(uid) is not None and not state.assumed(uid)
                        return True if known else None

                    await eventually(seen, "the binding is in the service's view")
        return found

    assert asyncio.run(place()) == expected
