"""The sequence of `simon apply` on small clusters."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import MIB, Pod, PodShape, Workload
from pilotage.policies.api import WorkloadMix
from pilotage.policies.registry import find_policy
from pilotage.sim import applying
from pilotage.sim.applying import MARKED, Applied, Planned, apply_config, plan_config
from pilotage.sim.cluster_analysis import analyse, occupied
from pilotage.sim.protocols import openb_run
from pilotage.sim.run import Placed
from pilotage.sim.snapshots import MIN_DEVICE_COLUMNS, POD_COLUMNS, node_columns
from pilotage.workloads.generate import openb_like_nodes, openb_like_pods
from pilotage.workloads.nodespec import HOSTNAME
from pilotage.workloads.simon import App, ClusterConfig, read_cluster_config
from pilotage.workloads.simon_scheduler import read_scheduler_config
from pilotage.workloads.simon_writing import cluster_config, scheduler_config, write_simon
from pilotage.workloads.trace import Trace
from reference.strategies import checked

NODES = (
    Node("n0", 16000, 64 * 1024 * MIB, gpu_count=2, gpu_model="T4"),
    Node("n1", 16000, 64 * 1024 * MIB, gpu_count=2, gpu_model="T4"),
)
ANNOTATIONS = {
    "created": "alibabacloud.com/creation-time",
    "deleted": "alibabacloud.com/deletion-time",
    "milli": "alibabacloud.com/gpu-milli",
    "index": "alibabacloud.com/gpu-index",
    "unscheduled": "simon/pod-unscheduled",
}


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More pods than fit on some twenty nodes, written for simon."""
    directory = tmp_path_factory.mktemp("crowded")
    write_simon(Trace.of("crowded", openb_like_nodes(0.02), openb_like_pods(150)), directory, load=1.2, seed=7)
    return directory


def applied(directory: Path, plugin: str = "FGDScore", out: Path | None = None, **changes: Any) -> Applied:
    config = replace(read_cluster_config(directory / "cluster-config.yaml"), **changes)
    path = directory / f"{plugin}.yaml"
    path.write_text(yaml.safe_dump(scheduler_config(plugin)))
    return apply_config(config, read_scheduler_config(path), out)


def small(directory: Path, *pods: Pod, nodes: tuple[Node, ...] = NODES, extra: str = "") -> ClusterConfig:
    """A configuration of a few pods, in the order of their names; `extra` are further objects."""
    write_simon(Trace.of("small", nodes, Workload.of(pods)), directory, load=0.0)
    (directory / "cluster" / "extra.yaml").write_text(extra)
    return replace(read_cluster_config(directory / "cluster-config.yaml"), shuffle=False)


def run_small(config: ClusterConfig, plugin: str = "FGDScore", out: Path | None = None) -> Applied:
    path = config.cluster.parent / "scheduler.yaml"
    path.write_text(yaml.safe_dump(scheduler_config(plugin)))
    return apply_config(config, read_scheduler_config(path), out)


def pod_table(out: Path, tag: str = "InitSchedule") -> list[dict[str, str]]:
    with (out / tag / "pod-snapshot.csv").open() as stream:
        return list(csv.DictReader(stream))


def annotated(name: str, **annotations: str) -> str:
    """A pod that asks for 10 CPUs; annotations by the end of their names."""
    content = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {ANNOTATIONS[key]: value for key, value in annotations.items()}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "10"}}}]},
    }
    return "---\n" + yaml.safe_dump(content)


@pytest.mark.parametrize(
    ("plugin", "policy"),
    [
        ("FGDScore", "fgd"),
        ("BestFitScore", "best-fit"),
        ("GpuPackingScore", "gpu-packing"),
        ("GpuClusteringScore", "gpu-clustering"),
        ("DotProductScore", "dot-product"),
        ("RandomScore", "random"),
    ],
)
def test_decisions_are_those_of_the_published_protocol(crowded: Path, tmp_path: Path, plugin: str, policy: str) -> None:
    trace = Trace.of("crowded", openb_like_nodes(0.02), openb_like_pods(150))
    run = openb_run(trace, find_policy(policy), 7, 1.2)
    run.advance()
    expected = {
        name: (run.state.nodes[node].name, devices)
        for name, node, devices in zip(
            run.workload.names, run.scene.progress.node_P.tolist(), run.scene.progress.devices_P.tolist(), strict=True
        )
        if node >= 0
    }
    found = applied(crowded, plugin, tmp_path)
    table = {
        row["pod"]: (row["ip"], sum(1 << int(d) for d in row["gpu_index"].split("-") if d))
        for row in pod_table(tmp_path)
    }
    assert table == expected
    assert (found.offered, len(found.failures)) == (len(run.workload), len(run.workload) - len(expected))
    assert found.analyses[0].gpu.requested == int(run.scene.meters.total_M[0])


TEMPLATE = "{spec: {containers: [{name: main, resources: {requests: {cpu: 100m}}}]}}"
SET = f"spec: {{replicas: 2, template: {TEMPLATE}}}"
EVERY_KIND = f"""
{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: deployed}}, {SET}}}
---
{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: replicated}}, {SET}}}
---
{{apiVersion: v1, kind: ReplicationController, metadata: {{name: controlled}}, {SET}}}
---
{{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: stateful}}, {SET}}}
---
{{apiVersion: batch/v1, kind: Job, metadata: {{name: job}}, spec: {{parallelism: 2, template: {TEMPLATE}}}}}
---
{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: cron}},
 spec: {{jobTemplate: {{spec: {{template: {TEMPLATE}}}}}}}}}
---
{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: daemon}}, spec: {{template: {TEMPLATE}}}}}
"""


def test_every_kind_of_workload(tmp_path: Path) -> None:
    config = small(tmp_path, Pod("alone", PodShape(100)), extra=EVERY_KIND)
    found = run_small(config, out=tmp_path / "out")
    assert sorted(row["pod"] for row in pod_table(tmp_path / "out")) == sorted(
        ["alone", "cron-0", "daemon-n0", "daemon-n1"]
        + [f"{name}-{i}" for name in ("deployed", "replicated", "controlled", "stateful", "job") for i in range(2)]
    )
    assert (found.offered, found.failures) == (14, [])
    assert found.analyses[0].cpu.requested == 1400


def test_marked_pods_fail_untried(tmp_path: Path) -> None:
    config = small(tmp_path, Pod("other", PodShape(1000)), extra=annotated("marked", unscheduled="true"))
    found = run_small(config)
    assert [(failure.pod.name, failure.reason) for failure in found.failures] == [("marked", MARKED)]
    only_marked = small(tmp_path / "alone", extra=annotated("marked", unscheduled="true"))
    assert len(run_small(only_marked).failures) == 1


def test_pods_come_and_go_at_their_times(tmp_path: Path) -> None:
    """Each wants 10 of 16 CPUs of the one node: the second comes too early, the third after the first has left."""
    extra = annotated("a", created="2023-05-01T00:00:00Z", deleted="2023-05-01T01:00:00Z")
    extra += annotated("b", created="2023-05-01T00:30:00Z", deleted="2023-05-01T05:00:00Z")
    extra += annotated("c", created="2023-05-01T01:00:00Z")
    found = run_small(small(tmp_path, nodes=NODES[:1], extra=extra), out=tmp_path / "out")
    assert [failure.pod.name for failure in found.failures] == ["b"]
    (row,) = pod_table(tmp_path / "out")
    assert (row["pod"], row["creation_time"]) == ("c", "2023-05-01T01:00:00+00:00")
    assert found.analyses[0].cpu.requested == 10000


def test_preset_devices_are_used(tmp_path: Path) -> None:
    extra = annotated("preset", milli="400", index="1")
    found = run_small(small(tmp_path, extra=extra), out=tmp_path / "out")
    assert [row["gpu_index"] for row in pod_table(tmp_path / "out")] == ["1"]
    assert not found.failures


def test_reasons_are_counted_by_shape(tmp_path: Path) -> None:
    pods = [Pod(f"p{i}", PodShape(10000, 0, 1000, 1)) for i in range(4)] + [Pod("q", PodShape(1000, 2**60))]
    found = run_small(small(tmp_path, *pods))
    assert [(shape.gpu_count, reason, count) for shape, reason, count in found.failed_shapes()] == [
        (1, "not enough cpu", 2),
        (0, "not enough memory", 1),
    ]


# Inflation, descheduling, new typical pods


def test_inflation_leaves_no_trace(crowded: Path, tmp_path: Path) -> None:
    plain = applied(crowded, out=tmp_path / "plain", tuning_ratio=0.3)
    inflated = applied(crowded, out=tmp_path / "inflated", tuning_ratio=0.3, inflation_ratio=1.2)
    assert [analysis.tag for analysis in inflated.analyses] == ["InitSchedule", "ScheduleInflation"]
    assert inflated.analyses[0] == plain.analyses[0]
    assert inflated.analyses[1].gpu.requested > plain.analyses[0].gpu.requested
    assert (inflated.offered, len(inflated.failures)) == (plain.offered, len(plain.failures))


@pytest.mark.parametrize("method", ["cosSim", "fragOnePod", "fragMultiPod"])
def test_descheduling_moves_pods_and_loses_none(crowded: Path, tmp_path: Path, method: str) -> None:
    found = applied(
        crowded, "BestFitScore", tmp_path, descheduling=method, descheduling_ratio=0.05, inflation_ratio=1.01
    )
    assert [analysis.tag for analysis in found.analyses] == [
        "InitSchedule",
        "ScheduleInflation",
        "PostEviction",
        "PostDeschedule",
        "DescheduleInflation",
    ]
    before, after = pod_table(tmp_path), pod_table(tmp_path, "PostDeschedule")
    assert 0 < found.moved <= 0.05 * len(before) + 1
    gone = {row["pod"] for row in before} - {row["pod"] for row in after}
    assert gone <= {failure.pod.name.rpartition("/")[2] for failure in found.failures}
    assert len(after) + len(found.failures) == found.offered
    seats = {row["pod"]: (row["ip"], row["gpu_index"]) for row in before}
    assert sum(seats[row["pod"]] != (row["ip"], row["gpu_index"]) for row in after) <= found.moved
    evicted, again = found.analyses[2], found.analyses[3]
    assert evicted.cpu.requested < found.analyses[0].cpu.requested
    assert evicted.cpu.requested <= again.cpu.requested


def test_new_workload_gives_the_typical_pods_from_then_on(tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_simon(Trace.of("other", NODES, Workload.of([Pod("p", PodShape(1000))])), other)
    config = small(tmp_path, *(Pod(f"p{i}", PodShape(7000, 0, 600, 1)) for i in range(4)))
    changed = replace(config, new_workload=other / "cluster", descheduling="fragOnePod", descheduling_ratio=0.0)
    first, evicted, _ = run_small(changed).analyses
    assert first.amounts["xl_satisfied"] == 0  # its own pods all ask for GPU
    assert evicted.amounts["xl_satisfied"] == evicted.idle == first.idle == 1600


# Apps


def test_apps_get_what_is_left(tmp_path: Path) -> None:
    app = tmp_path / "app.yaml"
    app.write_text("".join(annotated(f"app-{i}") for i in range(3)))
    config = small(tmp_path, Pod("own", PodShape(10000)))
    found = run_small(replace(config, apps=(App("web", app, False),)))
    assert [analysis.tag for analysis in found.analyses] == ["InitSchedule", "App web"]
    assert [analysis.cpu.requested for analysis in found.analyses] == [10000, 20000]
    assert [failure.pod.name for failure in found.failures] == ["app-1", "app-2"]
    assert found.offered == 4


def test_apps_with_a_pod_of_the_same_name_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(annotated("same") + annotated(name))
    config = small(tmp_path, Pod("own", PodShape(1000)))
    apps = tuple(App(name, tmp_path / f"{name}.yaml", False) for name in ("one", "two"))
    with pytest.raises(InputError, match=r"two\.yaml: the pod 'same' of app two .* first in .*one\.yaml of app one"):
        run_small(replace(config, apps=apps))


def test_charts_are_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small(tmp_path, Pod("own", PodShape(10000)))
    config = replace(config, apps=(App("web", tmp_path / "chart", True),))
    monkeypatch.setattr(applying, "render_chart", lambda name, path: annotated(f"{name}-0").encode())
    assert run_small(config).analyses[1].cpu.requested == 20000
    monkeypatch.setattr(applying, "render_chart", lambda name, path: b"kind: [Pod]")
    with pytest.raises(InputError, match=r"chart \(rendered\), row 1, document 1, kind"):
        run_small(config)


def test_a_cluster_without_nodes_or_pods_is_refused(tmp_path: Path) -> None:
    config = small(tmp_path)
    with pytest.raises(InputError, match="there are no pods"):
        run_small(config)
    (tmp_path / "cluster" / "nodes.yaml").unlink()
    with pytest.raises(InputError, match="there are no nodes"):
        run_small(config)


# Snapshots


def test_a_snapshot_runs_again_to_the_same_places(crowded: Path, tmp_path: Path) -> None:
    first = applied(crowded, out=tmp_path / "first")
    again = tmp_path / "again"
    (again / "cluster").mkdir(parents=True)
    (again / "cluster" / "nodes.yaml").write_bytes((crowded / "cluster" / "nodes.yaml").read_bytes())
    snapshot = (tmp_path / "first" / "InitSchedule" / "pod-snapshot.yaml").read_bytes()
    (again / "cluster" / "pods.yaml").write_bytes(snapshot)
    (again / "cluster-config.yaml").write_text(yaml.safe_dump(cluster_config("again", 0.0, 99)))
    second = applied(again, "BestFitScore", tmp_path / "second")
    for name in ("node-snapshot.csv", "pod-snapshot.csv"):
        one, other = (tmp_path / part / "InitSchedule" / name for part in ("first", "second"))
        assert one.read_text() == other.read_text()
    assert {failure.pod.name for failure in second.failures} == {failure.pod.name for failure in first.failures}
    assert {failure.reason for failure in second.failures} == {MARKED}


def test_a_snapshot_runs_again_where_hosts_have_other_names(tmp_path: Path) -> None:
    nodes = tuple(replace(node, labels=((HOSTNAME, f"host-{node.name}"),)) for node in NODES)
    pods = [Pod(f"p{i}", PodShape(10000)) for i in range(2)]
    run_small(small(tmp_path / "first", *pods, nodes=nodes), out=tmp_path / "out")
    again = small(tmp_path / "again", nodes=nodes)
    (again.cluster / "extra.yaml").write_bytes((tmp_path / "out" / "InitSchedule" / "pod-snapshot.yaml").read_bytes())
    assert run_small(again, "BestFitScore", tmp_path / "second").failures == []
    assert pod_table(tmp_path / "second") == pod_table(tmp_path / "out")


def test_columns_of_the_tables(tmp_path: Path) -> None:
    pods = [
        Pod("part", PodShape(4000, 1024 * MIB, 250, 1, "T4|A10")),
        Pod("whole", PodShape(4000, 1024 * MIB, 1000, 2)),
        Pod("none", PodShape(4000, 1024 * MIB)),
    ]
    config = small(tmp_path, *pods)
    prefixed = replace(config, node_csv_prefix=str(tmp_path / "tables"), pod_yaml_prefix=str(tmp_path / "manifests"))
    written = run_small(prefixed).files
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "tables/InitSchedule/node-snapshot.csv",
        "tables/InitSchedule/pod-snapshot.csv",
        "manifests/InitSchedule/pod-snapshot.yaml",
    ]
    rows = pod_table(tmp_path / "tables")
    assert tuple(rows[0]) == POD_COLUMNS
    part = next(row for row in rows if row["pod"] == "part")
    assert (part["namespace"], part["memory_mib"], part["gpu_mem_ratio"], part["gpu_type_req"]) == (
        "paib-gpu",
        "1024",
        "25",
        "T4|A10",
    )
    with (tmp_path / "tables" / "InitSchedule" / "node-snapshot.csv").open() as stream:
        nodes = list(csv.DictReader(stream))
    assert list(nodes[0]) == node_columns(MIN_DEVICE_COLUMNS)
    assert [node["name"] for node in nodes] == ["n0", "n1"]
    assert sum(int(node["memory_mib_left"]) for node in nodes) == 2 * 65536 - 3 * 1024
    assert sum(int(node["gpu_milli_left"]) for node in nodes) == 4000 - 2250
    assert sum(int(node["num_pod"]) for node in nodes) == 3


# Planning


def planned(config: ClusterConfig, spec: str) -> Planned:
    path = config.cluster.parent / "scheduler.yaml"
    path.write_text(yaml.safe_dump(scheduler_config("FGDScore")))
    return plan_config(config, read_scheduler_config(path), spec)


def daemon_set(cpu: int, name: str = "agent") -> str:
    template = f"{{spec: {{containers: [{{name: main, resources: {{requests: {{cpu: {cpu}m}}}}}}]}}}}"
    return (
        f"---\n{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: {name}}}, spec: {{template: {template}}}}}\n"
    )


def test_added_nodes_hold_their_daemons(tmp_path: Path) -> None:
    """A node of 4 CPUs whose daemon takes 2 never holds a pod of 3; one of 5 CPUs does."""
    config = small(tmp_path, Pod("p", PodShape(3000)), nodes=(Node("n0", 4000, 2**33),), extra=daemon_set(2000))
    found = planned(config, "like=n0")
    assert found.plan.added is None
    assert "more than the cluster has" in found.plan.reason
    assert any(note.endswith("runs there: agent") for note in found.notes)
    assert planned(config, "cpu=5,memory=8Gi").plan.added == 1


def test_daemons_of_apps_run_on_added_nodes_too(tmp_path: Path) -> None:
    app = tmp_path / "app.yaml"
    app.write_text(daemon_set(3000))
    config = small(tmp_path, *(Pod(f"p{i}", PodShape(3500)) for i in range(3)), nodes=(Node("n0", 3000, 2**33),))
    assert planned(config, "cpu=8,memory=8Gi").plan.added == 2
    with_app = replace(config, apps=(App("agent", app, False),))
    assert planned(with_app, "cpu=8,memory=8Gi").plan.added == 3


@checked(25)
@given(daemon=st.integers(0, 3000), pods=st.lists(st.integers(500, 4000), min_size=1, max_size=6))
def test_a_plan_is_what_a_run_with_so_many_nodes_needs(
    tmp_path_factory: pytest.TempPathFactory, daemon: int, pods: list[int]
) -> None:
    """The daemons of added nodes as pods among others, on nodes that are really there."""
    place = tmp_path_factory.mktemp("plan")
    work = [Pod(f"p{i}", PodShape(cpu)) for i, cpu in enumerate(pods)]
    node = Node("n0", 4000, 2**33)
    config = small(place / "plan", *work, nodes=(node,), extra=daemon_set(daemon, "a"))
    added = planned(config, "like=n0").plan.added
    assert (added is None) == (max(pods) + daemon > 4000)
    if added is not None:
        nodes = (node, *(replace(node, name=f"n{i + 1}") for i in range(added)))
        enough = small(place / "enough", *work, nodes=nodes, extra=daemon_set(daemon, "a"))
        assert run_small(enough).failures == []
        if added:
            one_less = small(place / "less", *work, nodes=nodes[:-1], extra=daemon_set(daemon, "a"))
            assert run_small(one_less).failures


def test_marked_pods_and_deletion_times_are_noted_in_planning(tmp_path: Path) -> None:
    extra = annotated("marked", unscheduled="true")
    extra += annotated("a", created="2023-05-01T00:00:00Z", deleted="2023-05-01T01:00:00Z")
    extra += annotated("b", created="2023-05-01T02:00:00Z")
    config = small(tmp_path, nodes=NODES[:1], extra=extra)
    found = planned(replace(config, inflation_ratio=2.0, node_csv_prefix="x"), "like=n0")
    assert found.plan.added == 1  # `b` has the first node after `a` in a run, but not in a plan
    assert found.notes == [
        "pods marked simon/pod-unscheduled, which fail untried, are left out: 1",
        "deletion times have no effect: room is planned for all pods at once",
        "workloadInflationConfig has no effect beside --add-nodes",
        "exportConfig has no effect beside --add-nodes",
    ]
    only_marked = small(tmp_path / "alone", nodes=NODES[:1], extra=annotated("marked", unscheduled="true"))
    with pytest.raises(InputError, match="every pod is marked simon/pod-unscheduled"):
        planned(only_marked, "like=n0")


# Figures


@checked(40)
@given(
    placed=st.lists(
        st.tuples(st.sampled_from(["n0", "n1"]), st.sampled_from([0, 200, 500]), st.integers(0, 1)), max_size=4
    )
)
def test_figures_add_up(placed: list[tuple[str, int, int]]) -> None:
    pods = [
        Placed(PodShape(1000, MIB, milli, 1), node, 1 << device) if milli else Placed(PodShape(1000, MIB), node)
        for node, milli, device in placed
    ]
    shapes = (PodShape(2000, 0, 500, 1), PodShape(20000), PodShape(1000, 0, 1000, 2, "A10"))
    mix = WorkloadMix.of(Workload.of(Pod(f"p{i}", shape) for i, shape in enumerate(shapes)))
    found = analyse("x", occupied(NODES, pods), mix)
    assert found.gpu.requested == sum(milli for _, milli, _ in placed)
    assert found.cpu.requested == 1000 * len(placed)
    assert found.idle == pytest.approx(found.gpu.allocatable - found.gpu.requested)
    assert found.fragmented + found.amounts["q3_satisfied"] == pytest.approx(found.idle)
    assert found.gpus.requested == len({(node, device) for node, milli, device in placed if milli})
    assert 0 <= found.fragmented_percent <= 100
