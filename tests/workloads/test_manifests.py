"""Manifests: kinds, request semantics, constraints, hostile files, error messages and the round trip."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from textwrap import dedent, indent

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilotage.model.cluster import Node
from pilotage.model.constraints import Constraints, Requirement, Taint, Toleration
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.resources import MAX_INT64
from pilotage.model.workload import FOREVER, Gang, Pod, PodShape, Workload
from pilotage.workloads import manifests, yaml_documents
from pilotage.workloads.affinity import ALREADY_BOUND, NOWHERE
from pilotage.workloads.manifest_writing import node_manifests, pod_manifests, write_manifests
from pilotage.workloads.manifests import DAEMON_TOLERATIONS, Manifests, read_manifests
from pilotage.workloads.yaml_documents import LocatedMap, parse_documents, plain_scalar

GIB = 2**30


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


class Reader:
    """Writes text to a file and reads it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, text: str, name: str = "some.yaml") -> Manifests:
        path = self.directory / name
        path.write_text(dedent(text))
        return read_manifests(path)

    def pod(self, spec: str, metadata: str = "") -> Pod:
        return self(pod_text(spec, metadata)).workload.pod(0)

    def error(self, text: str, name: str = "some.yaml") -> InputError:
        with pytest.raises(InputError) as caught:
            self(text, name)
        return caught.value

    def pod_error(self, spec: str, metadata: str = "") -> InputError:
        return self.error(pod_text(spec, metadata))


def pod_text(spec: str, metadata: str = "") -> str:
    head = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n" + indent(dedent(metadata).strip("\n"), "  ")
    return head.rstrip() + "\nspec:\n" + indent(dedent(spec).strip("\n"), "  ") + "\n"


def template(requests: str = "cpu: 1") -> str:
    return f"template: {{spec: {{containers: [{{resources: {{requests: {{{requests}}}}}}}]}}}}"


def deployment(replicas: str) -> str:
    return f"{{kind: Deployment, metadata: {{name: a}}, spec: {{replicas: {replicas}, {template()}}}}}"


ONE = "containers: [{resources: {requests: {cpu: 1}}}]"


def node_text(name: str, extra: str = "", offered: str = "cpu: 4, memory: 8Gi") -> str:
    return f"kind: Node\nmetadata: {{name: {name}}}\nstatus: {{allocatable: {{{offered}}}}}\n{extra}\n---\n"


# What a pod asks for


def test_containers_add_up_and_limits_stand_in_for_missing_requests(read: Reader) -> None:
    pod = read.pod("""
        containers:
        - resources: {requests: {cpu: 250m}, limits: {cpu: 2, memory: 1Gi}}
        - resources: {requests: {cpu: 0.1, memory: 1.5Gi, ephemeral-storage: 1G}}
        - name: asks for nothing
    """)
    assert pod.shape == PodShape(cpu_milli=350, memory_bytes=5 * GIB // 2, extended=(("ephemeral-storage", 10**9),))


def test_init_containers_count_by_the_largest(read: Reader) -> None:
    pod = read.pod("""
        initContainers:
        - resources: {requests: {cpu: 3, memory: 1Gi}}
        - resources: {requests: {cpu: 1, memory: 4Gi}}
        containers: [{resources: {requests: {cpu: 2, memory: 2Gi}}}]
    """)
    assert (pod.shape.cpu_milli, pod.shape.memory_bytes) == (3000, 4 * GIB)


def test_sidecars_add_to_what_starts_after_them(read: Reader) -> None:
    pod = read.pod("""
        initContainers:
        - resources: {requests: {cpu: 5, memory: 1Gi}}                         # before the sidecars: alone
        - {restartPolicy: Always, resources: {requests: {cpu: 1, memory: 1Gi}}}
        - resources: {requests: {cpu: 4, memory: 5Gi}}                         # beside one sidecar: 5, 6Gi
        - {restartPolicy: Always, resources: {requests: {cpu: 1, memory: 1Gi}}}
        containers: [{resources: {requests: {cpu: 4, memory: 2Gi}}}]             # beside two: 6, 4Gi
    """)
    assert (pod.shape.cpu_milli, pod.shape.memory_bytes) == (6000, 6 * GIB)


def test_pod_level_resources_replace_and_overhead_is_added(read: Reader) -> None:
    pod = read.pod("""
        resources: {requests: {cpu: 3}, limits: {memory: 9Gi}}
        overhead: {cpu: 250m, memory: 120Mi}
        containers: [{resources: {requests: {cpu: 1, memory: 1Gi}}}]
    """)
    assert (pod.shape.cpu_milli, pod.shape.memory_bytes) == (3250, GIB + 120 * 2**20)


def test_amounts_are_rounded_up_to_milli_for_each_container(read: Reader) -> None:
    pod = read.pod("containers: [{resources: {requests: {cpu: 100u}}}, {resources: {requests: {cpu: 100u}}}]")
    assert pod.shape.cpu_milli == 2
    halves = read.pod("containers: [{resources: {requests: {memory: 500m}}}, {resources: {requests: {memory: 500m}}}]")
    assert halves.shape.memory_bytes == 1


def test_extended_resources_are_sorted_and_zeros_left_out(read: Reader) -> None:
    pod = read.pod("containers: [{resources: {limits: {x.io/b: 2, hugepages-2Mi: 4Mi, x.io/a: '1', x.io/c: 0}}}]")
    assert pod.shape.extended == (("hugepages-2Mi", 4 * 2**20), ("x.io/a", 1), ("x.io/b", 2))


@pytest.mark.parametrize(
    ("annotations", "resources", "expected"),
    [
        ("gpu-milli: '500', gpu-count: '1'", "", (500, 1)),
        ("gpu-milli: '300'", "", (300, 1)),
        ("gpu-count: '4'", "", (1000, 4)),
        ("gpu-milli: 250, gpu-count: 2", "", (250, 2)),
        ("gpu-milli: '1k', gpu-count: '2'", "", (1000, 2)),
        ("gpu-milli: '0', gpu-count: '0'", "", (0, 0)),
        ("", "nvidia.com/gpu: 2", (1000, 2)),
        ("", "amd.com/gpu: '1'", (1000, 1)),
        ("", "alibabacloud.com/gpu-milli: 400, alibabacloud.com/gpu-count: 2", (400, 2)),
        ("gpu-milli: '1000', gpu-count: '2'", "nvidia.com/gpu: 2", (1000, 2)),
        ("", "", (0, 0)),
    ],
)
def test_gpus(read: Reader, annotations: str, resources: str, expected: tuple[int, int]) -> None:
    annotations = annotations.replace("gpu-", "alibabacloud.com/gpu-")
    pod = read.pod(f"containers: [{{resources: {{limits: {{{resources}}}}}}}]", f"annotations: {{{annotations}}}")
    assert (pod.shape.gpu_milli, pod.shape.gpu_count) == expected
    assert pod.shape.extended == ()


def test_gpu_models_are_kept_as_written(read: Reader) -> None:
    models = "annotations: {alibabacloud.com/gpu-milli: '500', alibabacloud.com/gpu-card-model: V100M16|V100M32}"
    assert read.pod(ONE, models).shape.gpu_models == "V100M16|V100M32"


@pytest.mark.parametrize(
    ("annotations", "resources", "message"),
    [
        ("gpu-milli: '1001'", "", "gpu-milli'], 1001 milli of one device; expected 1 to 1000, for each device"),
        ("gpu-milli: '0.5'", "", "0.5 is not whole"),
        ("gpu-milli: half", "", "'half' is not a quantity; expected a quantity such as"),
        ("gpu-count: '9999'", "", "9999 devices; expected at most 62"),
        ("gpu-count: '-1'", "", "-1 is negative; expected zero or more"),
        ("gpu-milli: '500'", "nvidia.com/gpu: 1", "1 x 500 milli by annotation, but 1 whole devices"),
        ("", "nvidia.com/gpu: 1, amd.com/gpu: 1", "both nvidia.com/gpu and amd.com/gpu; expected one kind of GPU"),
        ("", "nvidia.com/gpu: 500m", "500m is not whole"),
    ],
)
def test_gpu_errors(read: Reader, annotations: str, resources: str, message: str) -> None:
    annotations = annotations.replace("gpu-", "alibabacloud.com/gpu-")
    spec = f"containers: [{{resources: {{limits: {{{resources}}}}}}}]"
    assert message.replace("], ", "]: ") in str(read.pod_error(spec, f"annotations: {{{annotations}}}"))


def test_priorities(read: Reader) -> None:
    text = """
        {kind: PriorityClass, metadata: {name: high}, value: 1000}
        ---
        {kind: Pod, metadata: {name: a}, spec: {priorityClassName: high, containers: [{}]}}
        ---
        {kind: Pod, metadata: {name: b}, spec: {priorityClassName: system-node-critical, containers: [{}]}}
        ---
        {kind: Pod, metadata: {name: c}, spec: {priorityClassName: high, priority: -5, containers: [{}]}}
        ---
        {kind: Pod, metadata: {name: d}, spec: {containers: [{}]}}
    """
    assert [pod.shape.priority for pod in read(text).workload] == [1000, 2_000_001_000, -5, 0]
    default = "---\n{kind: PriorityClass, metadata: {name: low}, value: 7, globalDefault: true}"
    assert read(dedent(text) + default).workload.pod(3).shape.priority == 7


def test_an_unknown_priority_class_names_the_near_ones(read: Reader) -> None:
    with pytest.raises(UnknownNameError, match=r"row 4, document 1: unknown priority class .*did you mean 'system-"):
        read.pod(f"priorityClassName: system-critical\n{ONE}")


# Where a pod may run


def test_selector_and_affinity_become_terms(read: Reader) -> None:
    pod = read.pod(f"""
        nodeSelector: {{zone: a, disk: ssd}}
        affinity:
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
              - matchExpressions:
                - {{key: gpu, operator: In, values: [A, B]}}
                - {{key: cores, operator: Gt, values: ["8"]}}
              - {{}}
              - matchFields: [{{key: metadata.name, operator: NotIn, values: [n1]}}]
        {ONE}
    """)
    selector = (Requirement("disk", "In", ("ssd",)), Requirement("zone", "In", ("a",)))
    assert pod.shape.constraints.terms == (
        (*selector, Requirement("gpu", "In", ("A", "B")), Requirement("cores", "Gt", ("8",))),
        (*selector, Requirement("metadata.name", "NotIn", ("n1",))),
    )


AFFINITY = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: %s}}}\n"
PIN = "{key: metadata.name, operator: In, values: [n1]}"


def test_a_pin_by_field_is_a_node_name(read: Reader) -> None:
    pod = read.pod(AFFINITY % f"[{{matchFields: [{PIN}]}}]" + ONE)
    assert pod.shape.constraints == Constraints(node_name="n1")
    with_rest = f"[{{matchExpressions: [{{key: a, operator: Exists}}], matchFields: [{PIN}]}}]"
    expected = Constraints(terms=((Requirement("a", "Exists"),),), node_name="n1")
    assert read.pod(AFFINITY % with_rest + ONE).shape.constraints == expected
    some = read.pod(
        AFFINITY % f"[{{matchFields: [{PIN}]}}, {{matchExpressions: [{{key: a, operator: Exists}}]}}]" + ONE
    )
    assert some.shape.constraints.node_name == ""
    assert len(some.shape.constraints.terms) == 2


def test_a_node_name_is_kept_and_passes_taints_against_scheduling(read: Reader) -> None:
    constraints = read.pod(f"nodeName: n1\n{ONE}").shape.constraints
    assert constraints == Constraints(tolerations=(ALREADY_BOUND,), node_name="n1")
    assert constraints.allows("n1", {}, [Taint("k", "", "NoSchedule")])
    assert not constraints.allows("n1", {}, [Taint("k", "", "NoExecute")])
    assert not constraints.allows("n2", {}, [])


def test_only_empty_terms_match_nothing(read: Reader) -> None:
    constraints = read.pod(AFFINITY % "[{}]" + ONE).shape.constraints
    assert constraints.terms == (NOWHERE,)
    assert not constraints.allows("n", {"": ""}, [])


def test_tolerations(read: Reader) -> None:
    pod = read.pod(f"""
        tolerations:
        - {{operator: Exists}}
        - {{key: a, value: b, effect: NoExecute, tolerationSeconds: 300}}
        - {{key: c, operator: Exists, effect: ""}}
        {ONE}
    """)
    expected = (Toleration("", "Exists"), Toleration("a", "Equal", "b", "NoExecute"), Toleration("c", "Exists"))
    assert pod.shape.constraints.tolerations == expected


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nodeSelector: {a: 1}", "spec.nodeSelector.a: is a number '1'; expected text (in quotes, if"),
        ("nodeSelector: [a]", "spec.nodeSelector: is a list; expected a mapping"),
        ("tolerations: [{value: x}]", "spec.tolerations[0].key: is missing; expected a key, or the operator Exists"),
        ("tolerations: [{key: a, operator: In}]", "tolerations[0].operator: is text 'In'; expected Equal or Exists"),
        ("tolerations: [{key: a, operator: Exists, value: b}]", "Exists with a value; expected no value"),
        (AFFINITY % "[]", "has no terms; expected at least one node selector term"),
        (AFFINITY % "[{matchExpressions: [{key: a, operator: in}]}]", "expected In or NotIn or Exists or"),
        (AFFINITY % "[{matchExpressions: [{key: a, operator: In}]}]", "In without values; expected at least one"),
        (AFFINITY % "[{matchExpressions: [{key: a, operator: Exists, values: [b]}]}]", "Exists with values"),
        (AFFINITY % "[{matchExpressions: [{key: a, operator: Gt, values: [x]}]}]", "expected one whole number as text"),
        (AFFINITY % "[{matchFields: [{key: a, operator: In, values: [b]}]}]", "expected metadata.name"),
        (AFFINITY % "[{matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}]", "exactly one node name"),
        ("nodeName: a/b", "'a/b' is not a name"),
    ],
)
def test_constraint_errors(read: Reader, spec: str, message: str) -> None:
    assert message in str(read.pod_error(f"{spec}\n{ONE}"))


# Kinds


def test_replicated_kinds_have_deterministic_names(read: Reader) -> None:
    text = "\n---\n".join(
        f"{{kind: {kind}, apiVersion: {version}, metadata: {{name: {kind.lower()}}}, spec: {{{more} {template()}}}}}"
        for kind, version, more in [
            ("Deployment", "apps/v1", "replicas: 2,"),
            ("ReplicaSet", "apps/v1", ""),
            ("ReplicationController", "v1", "replicas: 0,"),
            ("StatefulSet", "apps/v1", "replicas: 2, ordinals: {start: 5},"),
        ]
    )
    workload = read(text).workload
    assert list(workload.names) == ["deployment-0", "deployment-1", "replicaset-0", "statefulset-5", "statefulset-6"]
    assert len(workload.shapes) == 1
    assert not workload.timed


def job(spec: str, annotations: str = "") -> str:
    return f"{{kind: Job, metadata: {{name: j, annotations: {{{annotations}}}}}, spec: {{{spec} {template()}}}}}"


@pytest.mark.parametrize(
    ("spec", "annotations", "arrivals"),
    [
        ("", "", [0]),
        ("parallelism: 3,", "", [0, 0, 0]),
        ("completions: 5, parallelism: 2,", "", [0, 0]),
        ("completions: 1, parallelism: 2,", "", [0]),
        ("completions: 5, parallelism: 2,", "pilotage/duration: '10'", [0, 0, 10, 10, 20]),
        ("completions: 2,", "pilotage/duration: 1.5, pilotage/arrival: '4'", [4, 5.5]),
        ("completions: 2, parallelism: 0,", "pilotage/duration: '10'", []),
        ("suspend: true,", "", []),
    ],
)
def test_jobs_run_so_many_at_a_time(read: Reader, spec: str, annotations: str, arrivals: list[float]) -> None:
    workload = read(job(spec, annotations)).workload
    assert [pod.arrival for pod in workload] == arrivals
    assert list(workload.names) == [f"j-{index}" for index in range(len(arrivals))]
    assert workload.timed == bool(annotations and arrivals)


def test_a_cron_job_runs_once(read: Reader) -> None:
    text = "{kind: CronJob, metadata: {name: c}, spec: {%s jobTemplate: {spec: {completions: 2, parallelism: 2, %s}}}}"
    assert list(read(text % ("", template())).workload.names) == ["c-0", "c-1"]
    assert len(read(text % ("suspend: true,", template())).workload) == 0


def test_a_daemon_set_has_a_pod_on_each_node_it_may_use(read: Reader) -> None:
    text = (
        f"{{kind: DaemonSet, metadata: {{name: d, namespace: kube-system}}, spec: {{{template()}}}}}\n---\n"
        + node_text("n1")
        + node_text("n2", "spec: {unschedulable: true}")
        + node_text("n3", "spec: {taints: [{key: gpu, effect: NoSchedule}]}")
    )
    nodes, workload = read(text)
    assert nodes[1].taints == (Taint("node.kubernetes.io/unschedulable"),)
    assert list(workload.names) == ["kube-system/d-n1", "kube-system/d-n2"]
    pinned = workload.pod(1).shape.constraints
    assert pinned == Constraints(tolerations=DAEMON_TOLERATIONS, node_name="n2")
    assert [pinned.allows(n.name, dict(n.labels), n.taints) for n in nodes] == [False, True, False]


def test_a_daemon_set_heeds_selectors_by_name(read: Reader) -> None:
    terms = f"[{{matchFields: [{PIN.replace('In', 'NotIn')}]}}]"
    spec = (AFFINITY % terms).strip() + ", containers: [{}]"
    text = f"{{kind: DaemonSet, metadata: {{name: d}}, spec: {{template: {{spec: {{{spec}}}}}}}}}\n---\n"
    assert list(read(text + node_text("n1") + node_text("n2")).workload.names) == ["d-n2"]


def test_lists_other_kinds_and_other_groups(read: Reader) -> None:
    text = """
        kind: List
        items:
        - {kind: Service, metadata: {name: s}}
        - {kind: Job, apiVersion: batch.volcano.sh/v1alpha1, metadata: {name: v}, spec: {tasks: []}}
        - {kind: PodList, items: [{metadata: {name: a}, spec: {containers: [{}]}}]}
        - {kind: Pod, metadata: {name: done}, status: {phase: Succeeded}, spec: {containers: [{}]}}
        ---
        # an empty document
        ---
        {kind: Pod, metadata: {name: b, namespace: other}, spec: {containers: [{}]}}
    """
    assert list(read(text).workload.names) == ["a", "other/b"]


def test_what_an_object_in_the_same_input_owns_is_left_out(read: Reader) -> None:
    owner = "ownerReferences: [{kind: %s, name: %s, controller: true}]"
    text = f"""
        {{kind: Deployment, metadata: {{name: d}}, spec: {{{template()}}}}}
        ---
        {{kind: ReplicaSet, metadata: {{name: r, {owner % ("Deployment", "d")}}}, spec: {{{template()}}}}}
        ---
        {{kind: Pod, metadata: {{name: p, {owner % ("ReplicaSet", "r")}}}, spec: {{containers: [{{}}]}}}}
        ---
        {{kind: Pod, metadata: {{name: mirror, {owner % ("Node", "n")}}}, spec: {{containers: [{{}}]}}}}
    """
    assert list(read(text).workload.names) == ["d-0", "mirror"]


def test_gangs_are_the_pods_with_the_label(read: Reader) -> None:
    text = """
        {kind: Pod, metadata: {name: a, labels: {scheduling.x-k8s.io/pod-group: g}}, spec: {containers: [{}]}}
        ---
        kind: Deployment
        metadata: {name: b}
        spec:
          replicas: 2
          template: {metadata: {labels: {pod-group.scheduling.sigs.k8s.io: g}}, spec: {containers: [{}]}}
        ---
        kind: Pod
        metadata: {name: c, namespace: x, labels: {scheduling.x-k8s.io/pod-group: g}}
        spec: {containers: [{}]}
        ---
        {kind: Pod, metadata: {name: d}, spec: {containers: [{}]}}
    """
    gangs = [pod.gang for pod in read(text).workload]
    assert gangs == [Gang("g", 3)] * 3 + [Gang("x/g", 1), None]


def test_arrivals_count_from_the_earliest(read: Reader) -> None:
    text = "\n---\n".join(
        f"{{kind: Pod, metadata: {{name: p{index}, annotations: {{{text}}}}}, spec: {{containers: [{{}}]}}}}"
        for index, text in enumerate(
            [
                "alibabacloud.com/creation-time: 2023-05-01T12:00:00.25Z, pilotage/duration: '60'",
                "alibabacloud.com/creation-time: '2023-05-01T13:00:00+01:00'",
                "",
                "pilotage/arrival: '7.5'",
            ]
        )
    )
    workload = read(text).workload
    assert [pod.arrival for pod in workload] == [0.25, 0, 0, 7.5]
    assert [pod.duration for pod in workload] == [60, FOREVER, FOREVER, FOREVER]
    assert workload.timed


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("alibabacloud.com/creation-time: yesterday", "is text 'yesterday'; expected a time such as 2023-05-01"),
        ("alibabacloud.com/creation-time: 2023-02-30T00:00:00Z", "day is out of range for month"),
        ("alibabacloud.com/creation-time: 5", "is a number '5'; expected a time"),
        ("pilotage/duration: soon", "['pilotage/duration']: is text 'soon'; expected seconds, such as"),
        ("pilotage/duration: '-1'", "expected seconds"),
        ("pilotage/arrival: .inf", "expected seconds"),
        ("pilotage/arrival: '1e999'", "expected seconds"),
        ("pilotage/arrival: true", "is a boolean 'True'; expected seconds"),
    ],
)
def test_time_errors(read: Reader, annotation: str, message: str) -> None:
    assert message in str(read.pod_error(ONE, f"annotations:\n  {annotation}"))


# Nodes


def test_a_node(read: Reader) -> None:
    text = """
        apiVersion: v1
        kind: Node
        metadata:
          name: n1
          labels: {zone: a, alibabacloud.com/gpu-card-model: V100M32, empty: }
        spec: {taints: [{key: a, value: b, effect: NoExecute}], unschedulable: true}
        status:
          allocatable: {cpu: 64000m, memory: 262144Mi, pods: "1001", alibabacloud.com/gpu-count: "2",
                        alibabacloud.com/gpu-milli: "2000", hugepages-1Gi: 0, ephemeral-storage: 1Gi, x.io/nic: 4,
                        attachable-volumes-ebs: 25}
          capacity: {cpu: 99, memory: 1}
    """
    assert read(text).nodes == (
        Node(
            name="n1",
            cpu_milli=64000,
            memory_bytes=256 * GIB,
            pods=1001,
            gpu_count=2,
            gpu_model="V100M32",
            extended=(("ephemeral-storage", GIB), ("x.io/nic", 4)),
            labels=(("alibabacloud.com/gpu-card-model", "V100M32"), ("empty", ""), ("zone", "a")),
            taints=(Taint("a", "b", "NoExecute"), Taint("node.kubernetes.io/unschedulable")),
        ),
    )


def test_node_fallbacks(read: Reader) -> None:
    text = """
        kind: Node
        metadata: {name: n, labels: {nvidia.com/gpu.product: A100}}
        status: {capacity: {cpu: 8, memory: 1Gi, nvidia.com/gpu: 4}}
    """
    (node,) = read(text).nodes
    assert (node.pods, node.gpu_count, node.gpu_model, node.cpu_milli) == (110, 4, "A100", 8000)
    assert node.extended == ()


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("{kind: Node, metadata: {name: n}}", "status.capacity.cpu: is missing; expected what the node offers"),
        (node_text("n", offered="cpu: many, memory: 1"), "status.allocatable.cpu: 'many' is not a quantity"),
        (node_text("n", offered="cpu: -1, memory: 1"), "-1 is negative"),
        (node_text("n", offered="cpu: true, memory: 1"), "is a boolean 'True'; expected a quantity"),
        (node_text("n", offered="cpu: 1, memory: 9Ei"), "does not fit into 64 bits"),
        (node_text("n", offered="cpu: 1E, memory: 1"), "cpu adds up to"),
        (node_text("n", offered="cpu: 1, memory: 1, nvidia.com/gpu: 2000"), "2000 of nvidia.com/gpu; expected at most"),
        (
            node_text("n", offered="cpu: 1, memory: 1, nvidia.com/gpu: 1, alibabacloud.com/gpu-count: 2"),
            "2 devices, but 1",
        ),
        (node_text("n", "spec: {taints: [{key: a}]}"), "spec.taints[0].effect: is missing; expected NoSchedule or"),
        (node_text("n", "spec: {unschedulable: 1}"), "spec.unschedulable: is a number '1'; expected true or false"),
        (node_text("n") + node_text("n"), "row 7, document 2, metadata.name: the node 'n' is given twice"),
        (node_text("''"), "metadata.name: '' is not a name; expected 1 to 253 characters"),
    ],
)
def test_node_errors(read: Reader, node: str, message: str) -> None:
    assert message in str(read.error(node))


# Files


def test_a_directory_is_read_recursively_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    for name, pod in {"c.yml": "c", "b/a.yaml": "b", "a.yaml": "a", ".git/x.yaml": "x", "note.txt": "t"}.items():
        (tmp_path / name).write_text(f"{{kind: Pod, metadata: {{name: {pod}}}, spec: {{containers: [{{}}]}}}}")
    content = {"kind": "Pod", "metadata": {"name": "d"}, "spec": {"containers": [{}]}}
    (tmp_path / "d.json").write_text(json.dumps({"kind": "List", "items": [content]}, indent="\t"))
    assert list(read_manifests(tmp_path).workload.names) == ["a", "b", "c", "d"]


def test_errors_name_file_line_document_and_path(read: Reader) -> None:
    text = """\
        # a comment
        kind: Service
        ---
        kind: Pod
        metadata:
          name: p
        spec:
          containers:
          - name: a
          - name: b
            resources:
              requests:
                memory: 1Gi
                cpu: 1 core
    """
    error = read.error(text, "pods.yaml")
    place = "pods.yaml, row 14, document 2, spec.containers[1].resources.requests.cpu: "
    assert str(error).startswith(
        str(read.directory / place) + "'1 core' is not a quantity; expected a quantity such as"
    )
    assert (error.row, error.exit_code) == (14, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "row 1, document 1: is a list; expected a mapping"),
        ("just text", "is text 'just text'; expected a mapping"),
        ("a: 1", "kind: is missing; expected the kind of a Kubernetes object, such as Pod"),
        ("{kind: Pod, metadata: {name: a}}", "spec.containers: is missing; expected a list of at least one container"),
        ("{kind: Pod, metadata: {name: a}, spec: {containers: {}}}", "spec.containers: is a mapping; expected a list"),
        ("{kind: Pod, metadata: {name: a}, spec: {containers: []}}", "is a list; expected a list of at least one"),
        ("{kind: Pod, spec: {containers: [{}]}}", "metadata.name: is missing; expected a name"),
        (
            "{kind: Pod, metadata: {generateName: a-}, spec: {containers: [{}]}}",
            "makes a random name; expected metadata",
        ),
        ("{kind: Pod, metadata: {name: 5}, spec: {containers: [{}]}}", "is a number '5'; expected a name"),
        ("{kind: Pod, metadata: {name: a b}, spec: {containers: [{}]}}", "'a b' is not a name"),
        ("{kind: Pod, metadata: {name: a}, spec: {priority: x, containers: [{}]}}", "expected a whole number from -21"),
        ("{kind: Pod, metadata: {name: a}, spec: {containers: [{resources: {requests: {gpu: 1}}}]}}", "resource 'gpu'"),
        (
            "{kind: Pod, metadata: {name: a}, spec: {resources: {limits: {x/y: 1}}, containers: [{}]}}",
            "only cpu, memory",
        ),
        (deployment("-1"), "a whole number from 0 to"),
        (deployment("1.5"), "is a number '1.5'"),
        (deployment("true"), "is a boolean 'True'"),
        ("a: [", "not YAML: did not find expected node content"),
        ("a: 1\na: 2", "row 2: the key 'a' is given twice in one mapping; expected it once"),
        ("a: !!python/object/apply:os.system [ls]", "row 1: the tag"),
        ("a: !secret x", "the tag '!secret' is not allowed; expected plain YAML without tags"),
        ("a: &a [*a]", "the alias *a refers to itself"),
        ("a: &a {b: {c: *a}}", "the alias *a refers to itself"),
        ("a: *b", "the alias *b has no anchor"),
        ("{[a]: b}", "a mapping or list is used as a key; expected text as the key"),
        ("{<<: 1}", "'<<' merges something that is not a mapping"),
        ("[" * 200, "row 1: nested too deeply; expected at most 100 levels"),
        ("a: \x01", "not YAML"),
    ],
)
def test_wrong_documents(read: Reader, text: str, message: str) -> None:
    error = read.error(text)
    assert message in str(error)
    assert error.file == str(read.directory / "some.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kind": ', "row 1: not JSON: Expecting value"),
        ('{"kind": "Pod",\n "kind": "Pod"}', "the key 'kind' is given twice in one object"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 10_000, "not JSON"),
    ],
)
def test_wrong_json(read: Reader, text: str, message: str) -> None:
    assert message in str(read.error(text, "some.json"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing.yaml: no such file or directory; expected a YAML or JSON file"):
        read_manifests(tmp_path / "missing.yaml")
    (tmp_path / "large.yaml").write_text("a: 1\n" * 100)
    with pytest.raises(InputError, match=r"large.yaml: is larger than 100 bytes"):
        read_manifests(tmp_path / "large.yaml", max_bytes=100)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\xff")
    with pytest.raises(InputError, match="not YAML"):
        read_manifests(tmp_path / "latin.yaml")


def test_alias_bombs_are_refused_quickly(read: Reader) -> None:
    names = "abcdefghij"
    levels = "\n".join(f"{name}: &{name} [{', '.join(['*' + before] * 10)}]" for before, name in pairwise(names))
    error = read.error(f"a: &a [lol]\n{levels}")
    assert "the file holds too much, aliases written out; expected at most 10000000 values" in str(error)


def test_many_small_bombs_are_one(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_documents, "MAX_VALUES", 1000)
    document = "kind: Service\na: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\nb: [*a, *a, *a, *a, *a]\n---\n"
    read(document * 5)
    assert "too much" in str(read.error(document * 50))


def test_too_many_pods_and_duplicates(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{{kind: Deployment, metadata: {{name: d}}, spec: {{replicas: 2000000000, {template()}}}}}"
    assert "metadata.name: makes 2000000000 pods in all; expected at most 1000000" in str(read.error(text))
    monkeypatch.setattr(manifests, "MAX_PODS", 3)
    two = text.replace("2000000000", "2")
    assert "makes 4 pods in all" in str(read.error(f"{two}\n---\n{two.replace('name: d', 'name: e')}"))
    pod = "{kind: Pod, metadata: {name: d-1}, spec: {containers: [{}]}}"
    expected = "row 3, document 2, metadata.name: the pod 'd-1' is given twice, first in "
    assert expected in str(read.error(f"{two}\n---\n{pod}"))
    assert len(read(f"{two}\n---\n{pod.replace('name: d-1', 'name: d-1, namespace: n')}").workload) == 3


# The documents themselves


def content(text: str) -> object:
    (document,) = parse_documents(text, file="f")
    return document.content


def test_scalars_mean_what_kubectl_takes_them_for() -> None:
    plain = {
        **{"1": 1, "-5": -5, "+5": 5, "0x1F": 31, "010": 8, "0o10": 8, "0b11": 3, "1_000": 1000, "0": 0, "00": 0},
        **{"1.5": 1.5, "1e3": 1000.0, ".5": 0.5, "5.": 5.0, "089": 89.0, "yes": True, "Off": False, "true": True},
        **{"": None, "~": None, "null": None, "-.inf": float("-inf"), "2023-05-01": "2023-05-01", "12:30": "12:30"},
        **{"1Gi": "1Gi", "-": "-", "+": "+", "on it": "on it", "1" * 5000: "1" * 5000, "yEs": "yEs", "1E": "1E"},
    }
    for text, value in plain.items():
        assert plain_scalar(text) == value
        assert type(plain_scalar(text)) is type(value)
    assert content("[!!str 5, ! 6, '7', \"yes\", !!int '8', 9.]") == ["5", "6", "7", "yes", 8, 9.0]


def test_anchors_and_merges_keep_values_and_lines() -> None:
    merged = content("base: &b {x: 1, y: 2}\nother: &o {y: 3, z: 4}\nall:\n  <<: [*b, *o]\n  x: 9\n")
    assert merged == {"base": {"x": 1, "y": 2}, "other": {"y": 3, "z": 4}, "all": {"x": 9, "y": 2, "z": 4}}
    assert isinstance(merged, LocatedMap)
    assert merged.lines == {"base": 1, "other": 2, "all": 3}
    assert isinstance(merged["all"], LocatedMap)
    assert merged["all"].lines == {"x": 5, "y": 1, "z": 2}


def test_documents_know_their_number_and_line() -> None:
    documents = list(parse_documents("---\na: 1\n---\n---\n\nb: 2\n", file="f"))
    assert [(d.number, d.line, d.content) for d in documents] == [(1, 1, {"a": 1}), (3, 4, {"b": 2})]


def test_the_slow_parser_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x [1, {b: 'c'}]\nd: *x\n---\ne: |\n  text\n"
    fast = list(parse_documents(text, file="f"))
    monkeypatch.setattr(yaml_documents, "_LOADER", yaml.SafeLoader)
    assert list(parse_documents(text, file="f")) == fast


# There and back

names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True)
words = st.one_of(
    st.sampled_from(["", "yes", "n", "null", "1", "1e3", "0x1", "~", "<<", "2023-01-01"]), st.text(max_size=8)
)
words = words.filter(lambda text: text.isprintable() or not text)
label_keys = st.one_of(names, st.builds("{}/{}".format, names, names), st.sampled_from(["on", "1", "<", "a: b", "#"]))
sizes = st.one_of(st.integers(0, 4096), st.integers(0, MAX_INT64), st.integers(0, 4096).map(lambda n: n * GIB))
resource_names = st.one_of(
    st.builds("{}.io/{}".format, names, names), st.sampled_from(["ephemeral-storage", "hugepages-2Mi"])
)
extended = st.dictionaries(resource_names, st.integers(1, MAX_INT64), max_size=3).map(
    lambda d: tuple(sorted(d.items()))
)
effects = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
taints = st.builds(Taint, key=label_keys, value=words, effect=effects)
tolerations = st.one_of(
    st.builds(
        Toleration, st.one_of(st.just(""), label_keys), st.just("Exists"), st.just(""), st.one_of(st.just(""), effects)
    ),
    st.builds(Toleration, label_keys, st.just("Equal"), words, st.one_of(st.just(""), effects)),
)
requirements = st.one_of(
    st.builds(Requirement, label_keys, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(
        Requirement, label_keys, st.sampled_from(["In", "NotIn"]), st.lists(words, min_size=1, max_size=3).map(tuple)
    ),
    st.builds(Requirement, label_keys, st.sampled_from(["Gt", "Lt"]), st.integers(-9, 99).map(lambda n: (str(n),))),
)
fields = st.builds(Requirement, st.just("metadata.name"), st.just("NotIn"), names.map(lambda name: (name,)))
terms = st.builds(
    lambda expressions, rest: (*expressions, *rest),
    st.lists(requirements, min_size=1, max_size=3),
    st.lists(fields, max_size=1),
)
constraints = st.builds(
    Constraints,
    terms=st.lists(terms, max_size=3).map(tuple),
    tolerations=st.lists(tolerations, max_size=3).map(tuple),
    node_name=st.one_of(st.just(""), names),
)
cpu_shapes = st.builds(
    PodShape,
    cpu_milli=sizes,
    memory_bytes=sizes,
    extended=extended,
    priority=st.integers(-(2**31), 2**31 - 1),
    constraints=constraints,
)
shapes = st.one_of(
    cpu_shapes,
    st.builds(
        replace,
        cpu_shapes,
        gpu_milli=st.integers(1, 1000),
        gpu_count=st.integers(1, 16),
        gpu_models=st.sampled_from(["", "A", "V100M16|V100M32"]),
    ),
)
seconds = st.floats(0, 1e12)
groups = st.one_of(st.none(), st.sampled_from(["g", "h"]))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    keys = draw(st.lists(st.tuples(st.sampled_from(["default", "x"]), names), max_size=5, unique=True))
    timed = draw(st.booleans()) and bool(keys)
    members = [(namespace, draw(groups)) for namespace, _ in keys]

    def gang(member: tuple[str, str | None]) -> Gang | None:
        namespace, group = member
        name = group if namespace == "default" else f"{namespace}/{group}"
        return Gang(str(name), members.count(member)) if group else None

    pods = [
        Pod(
            name if namespace == "default" else f"{namespace}/{name}",
            draw(shapes),
            arrival=draw(seconds) if timed else 0.0,
            duration=draw(st.one_of(st.just(FOREVER), seconds)) if timed else FOREVER,
            gang=gang(member),
        )
        for (namespace, name), member in zip(keys, members, strict=True)
    ]
    return Workload.of(pods, timed=timed)


nodes_lists = st.lists(
    st.builds(
        Node,
        name=names,
        cpu_milli=sizes,
        memory_bytes=sizes,
        pods=st.integers(0, 2000),
        gpu_count=st.integers(0, 16),
        gpu_model=st.sampled_from(["", "A100", "P100"]),
        extended=extended,
        labels=st.dictionaries(
            st.one_of(label_keys, st.sampled_from(["alibabacloud.com/gpu-card-model", "nvidia.com/gpu.product"])),
            st.one_of(words, st.sampled_from(["A100", "P100"])),
            max_size=3,
        ).map(lambda d: tuple(sorted(d.items()))),
        taints=st.lists(taints, max_size=2).map(tuple),
    ),
    max_size=3,
    unique_by=lambda node: node.name,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(nodes=nodes_lists, workload=workloads())
def test_what_is_written_is_read_again(tmp_path: Path, nodes: list[Node], workload: Workload) -> None:
    path = tmp_path / "all.yaml"
    write_manifests(path, nodes, workload)
    read_nodes, again = read_manifests(path)
    assert read_nodes == tuple(nodes)
    assert list(again) == list(workload)
    assert again.shapes == workload.shapes
    assert again.gangs == workload.gangs
    assert again.timed == workload.timed
    assert [file.name for file in tmp_path.iterdir()] == ["all.yaml"]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=25
)
@given(nodes=nodes_lists, workload=workloads())
def test_json_is_read_as_well(tmp_path: Path, nodes: list[Node], workload: Workload) -> None:
    path = tmp_path / "all.json"
    items = [*node_manifests(nodes), *pod_manifests(workload)]
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    read_nodes, again = read_manifests(path)
    assert (read_nodes, list(again)) == (tuple(nodes), list(workload))


anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["1", "Always"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["name", "key", "cpu", "spec", "operator", "values"]), inner, max_size=3),
    ),
    max_leaves=5,
)
COMPLETE = """
    kind: DaemonSet
    metadata: {name: d, namespace: x, ownerReferences: [{kind: A, name: b, controller: true}]}
    spec:
      replicas: 2
      completions: 3
      parallelism: 2
      ordinals: {start: 1}
      template:
        metadata:
          labels: {scheduling.x-k8s.io/pod-group: g}
          annotations: {pilotage/duration: "5", pilotage/arrival: "1", alibabacloud.com/gpu-milli: "500",
                        alibabacloud.com/creation-time: "2023-05-01T12:00:00Z"}
        spec: &spec
          priorityClassName: system-node-critical
          nodeName: n
          nodeSelector: {a: b}
          tolerations: [{key: a, operator: Exists, effect: NoSchedule}]
          affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
            {matchExpressions: [{key: a, operator: In, values: [b]}],
             matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}}}
          overhead: {cpu: 1m}
          initContainers: [{restartPolicy: Always, resources: {requests: {cpu: 1}}}]
          containers: [{resources: {requests: {cpu: 1, memory: 1Gi}, limits: {x.io/y: 1}}}]
      jobTemplate: {spec: {template: {spec: *spec}}}
"""
COMPLETE_NODE = """
    kind: Node
    metadata: {name: n, labels: {a: b}, annotations: {alibabacloud.com/gpu-card-model: A}}
    spec: {taints: [{key: a, value: b, effect: NoSchedule}], unschedulable: true}
    status: {allocatable: {cpu: 1, memory: 1Gi, pods: 10, nvidia.com/gpu: 1}, capacity: {cpu: 1}}
"""


def places(value: object) -> list[tuple[object, object]]:
    """Every (container, key) in a document."""
    keys: list[object] = list(value) if isinstance(value, dict) else []
    keys = list(range(len(value))) if isinstance(value, list) else keys
    below = [places(value[key]) for key in keys]  # type: ignore[index]
    return [(value, key) for key in keys] + [place for found in below for place in found]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(data=st.data())
def test_any_value_anywhere_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    kinds = ["DaemonSet", "Deployment", "StatefulSet", "Job", "CronJob"]
    made = yaml.safe_load(dedent(COMPLETE)) | {"kind": data.draw(st.sampled_from(kinds))}
    node = yaml.safe_load(dedent(COMPLETE_NODE))
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": made["spec"]["template"]["spec"]}
    (container, key), value = data.draw(st.sampled_from(places([made, node, pod]))), data.draw(anything)
    container[key] = value  # type: ignore[index]
    path = tmp_path / "any.yaml"
    path.write_text(yaml.safe_dump_all([made, node, pod], allow_unicode=True))
    try:
        read_manifests(path)
    except InputError as error:
        assert error.file == str(path)  # noqa: PT017 - most examples do not raise


def test_nothing_half_written_remains(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text("before")
    node = Node("n", 1, 1, taints=(Taint("k", object()),))  # type: ignore[arg-type]
    with pytest.raises(Exception, match="cannot represent"):
        write_manifests(path, [node], Workload.of([]))
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
