"""What pods and nodes mean, from their JSON."""

from __future__ import annotations

import pytest

from kube.objects import a_pod
from pilotage.kube.cache import ClusterCache
from pilotage.kube.pod_rules import NO_RULES, ports_conflict, read_rules
from pilotage.kube.podview import device_mask, gpu_index, read_pod
from pilotage.kube.undecided import undecided
from pilotage.model.constraints import ANYWHERE


def test_a_plain_pod() -> None:
    pod = read_pod(a_pod("a", requests={"cpu": "1500m", "memory": "2Gi"}, priority=7, labels={"app": "x"}))
    assert pod.key == "default/a"
    assert (pod.shape.cpu_milli, pod.shape.memory_bytes, pod.shape.priority) == (1500, 2 * 2**30, 7)
    assert pod.waits
    assert pod.scheduler == "pilotage"
    assert pod.labels == {"app": "x"}
    assert not pod.problem


@pytest.mark.parametrize(
    "more",
    [
        {"node": "n"},
        {"phase": "Succeeded"},
        {"schedulingGates": [{"name": "later"}]},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
)
def test_pods_that_nobody_decides_about(more: dict[str, object]) -> None:
    assert not read_pod(a_pod("a", **more)).waits


def test_a_share_of_a_gpu_and_where_it_is() -> None:
    annotations = {"alibabacloud.com/gpu-milli": "300", "alibabacloud.com/gpu-count": "1"}
    pod = read_pod(a_pod("a", annotations={**annotations, "alibabacloud.com/gpu-index": "2"}, node="n"))
    assert (pod.shape.gpu_milli, pod.shape.gpu_count, pod.devices) == (300, 1, 0b100)


@pytest.mark.parametrize("devices", [0, 1, 0b101, 1 << 61, (1 << 62) - 1])
def test_gpu_index_goes_back_and_forth(devices: int) -> None:
    assert device_mask(gpu_index(devices)) == devices


@pytest.mark.parametrize("text", ["x", "1-x", "-1", "", "70"])
def test_what_is_no_gpu_index(text: str) -> None:
    assert device_mask(text) == 0


def test_constraints_count_until_a_pod_is_bound() -> None:
    wanted = {"nodeSelector": {"pool": "a"}}
    assert read_pod(a_pod("a", **wanted)).shape.constraints.terms
    assert read_pod(a_pod("a", node="n", **wanted)).shape.constraints == ANYWHERE


def test_a_pod_that_cannot_be_read_says_why_and_still_counts() -> None:
    pod = read_pod(a_pod("a", annotations={"alibabacloud.com/gpu-milli": "2000"}))
    assert "2000 milli of one device" in pod.problem
    assert pod.shape.cpu_milli == 1000
    assert pod.shape.gpu_count == 0


def test_while_a_pod_is_resized_the_larger_amount_counts() -> None:
    found = a_pod("a", node="n", requests={"cpu": "1", "memory": "4Gi"})
    found["status"]["containerStatuses"] = [
        {
            "name": "main",
            "allocatedResources": {"cpu": "2"},
            "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}},
        }
    ]
    shape = read_pod(found).shape
    assert (shape.cpu_milli, shape.memory_bytes) == (2000, 4 * 2**30)


def test_while_a_sidecar_is_resized_the_larger_amount_counts() -> None:
    sidecar = {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    found = a_pod("a", node="n", requests={"cpu": "1"}, initContainers=[sidecar])
    found["status"]["initContainerStatuses"] = [{"name": "side", "allocatedResources": {"cpu": "3"}}]
    assert read_pod(found).shape.cpu_milli == 4000


@pytest.mark.parametrize(
    ("more", "group"),
    [
        ({}, ""),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, "g"),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, "g"),
        ({"schedulingGroup": {"podGroupName": "g"}}, "g"),
    ],
)
def test_gangs(more: dict[str, object], group: str) -> None:
    assert read_pod(a_pod("a", **more)).group == group


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"resourceClaims": [{"name": "x"}]}, "claims devices"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "claims the volume 'c'"),
        ({"volumes": [{"name": "v", "holographic": {}}]}, "uses a holographic volume"),
        ({"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}}, "of the device class 'gpu' (DRA)"),
    ],
)
def test_what_is_not_decided_here_names_the_way(more: dict[str, object], said: str) -> None:
    pod = read_pod(a_pod("a", **more))
    why = undecided(pod, ClusterCache())
    assert not pod.problem  # it can be read, and somebody else can place it
    assert said in why
    assert why.endswith("let kube-scheduler place the pod, with the extender")


@pytest.mark.parametrize("kind", ["emptyDir", "projected", "configMap", "secret", "hostPath", "csi", "nfs", "cephfs"])
def test_volumes_that_are_everywhere_do_not_matter(kind: str) -> None:
    assert read_pod(a_pod("a", volumes=[{"name": "a", kind: {}}])).rules is NO_RULES


@pytest.mark.parametrize(
    ("more", "features"),
    [
        ({"hostNetwork": True, "hostUsers": False}, ("UserNamespacesHostNetworkSupport",)),
        ({"hostNetwork": True}, ()),
        ({"hostNetwork": True, "hostUsers": True}, ()),
        ({"hostUsers": False}, ()),
        (
            {"initContainers": [{"name": "i", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            ("RestartAllContainersOnContainerExits",),
        ),
        ({"initContainers": [{"name": "i", "restartPolicyRules": [{"action": "Restart"}]}]}, ()),
    ],
)
def test_features_that_a_pod_needs(more: dict[str, object], features: tuple[str, ...]) -> None:
    assert read_pod(a_pod("a", **more)).rules.features == features


def test_names_of_extended_resources_are_kept_also_those_of_gpus() -> None:
    asked = {"cpu": "1", "nvidia.com/gpu": "2", "example.com/nic": "1", "example.com/none": "0"}
    assert read_pod(a_pod("a", requests=asked)).extended == ("example.com/nic", "nvidia.com/gpu")


def test_ports_conflict_by_address_protocol_and_number() -> None:
    tcp, other = ("0.0.0.0", "TCP", 80), ("127.0.0.1", "TCP", 80)  # noqa: S104
    assert ports_conflict(tcp, other)
    assert ports_conflict(other, tcp)
    assert not ports_conflict(other, ("127.0.0.2", "TCP", 80))
    assert not ports_conflict(tcp, ("0.0.0.0", "UDP", 80))  # noqa: S104


def test_host_ports_of_sidecars_count() -> None:
    port = [{"hostPort": 80}]
    spec = {
        "containers": [{"ports": [{"containerPort": 1}]}],
        "initContainers": [{"ports": port}, {"ports": port, "restartPolicy": "Always"}],
    }
    assert len(read_rules(spec, {"namespace": "x"}).ports) == 1
