"""Configurations of simon: what they mean, and that whatever cannot work is refused with place and reason."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from pilotage.model.cluster import Node
from pilotage.model.constraints import Requirement, Taint
from pilotage.model.errors import InputError
from pilotage.model.workload import FOREVER, Gang, Pod, PodShape, Workload
from pilotage.policies.api import TypicalPods
from pilotage.policies.simon_plugins import DotProduct
from pilotage.workloads.manifests import read_manifests
from pilotage.workloads.simon import MAX_CONFIG_BYTES, App, read_cluster_config
from pilotage.workloads.simon_arrival import inflation, simon_arrival
from pilotage.workloads.simon_daemons import beside_daemons, daemons_on
from pilotage.workloads.simon_pods import SimonCluster, SimonPods, read_app, read_cluster, unpinned
from pilotage.workloads.simon_scheduler import DEFAULT_SCORES, SchedulerConfig, read_scheduler_config
from pilotage.workloads.simon_survey import refuse_unsupported
from pilotage.workloads.simon_writing import cluster_config, scheduler_config, write_simon
from pilotage.workloads.trace import Trace

Edit = Callable[[dict[str, Any]], object]

FULL = """
apiVersion: simon/v1alpha1
kind: Config
metadata: {name: everything}
spec:
  cluster: {customConfig: cluster}
  appList:
    - {name: web, path: cluster}
    - {name: chart, path: cluster, chart: true}
  newNode: somewhere
  customConfig:
    shufflePod: true
    exportConfig: {podSnapshotYamlFilePrefix: pods, nodeSnapshotCSVFilePrefix: nodes}
    workloadInflationConfig: {ratio: 1.5, seed: 7}
    workloadTuningConfig: {ratio: 1.3, seed: 42}
    newWorkloadConfig: cluster
    descheduleConfig: {ratio: 0.1, policy: fragOnePod}
    typicalPodsConfig:
      isInvolvedCpuPods: true
      podPopularityThreshold: 95
      podIncreaseStep: 2
      gpuResWeight: 0.5
      isConsideredGpuResWeight: true
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "cluster").mkdir()
    return tmp_path


def config_file(place: Path, text: str = FULL) -> Path:
    path = place / "config.yaml"
    path.write_text(text)
    return path


# The cluster's configuration


def test_every_field_is_read(place: Path) -> None:
    config = read_cluster_config(config_file(place))
    cluster = place / "cluster"
    assert (config.name, config.cluster, config.new_workload) == ("everything", cluster, cluster)
    assert config.apps == (App("web", cluster, False), App("chart", cluster, True))
    assert (config.shuffle, config.tuning_ratio, config.seed, config.inflation_ratio) == (True, 1.3, 42, 1.5)
    assert (config.descheduling, config.descheduling_ratio) == ("fragOnePod", 0.1)
    assert config.typical == TypicalPods(95.0, 2, True, 0.5)
    assert (config.pod_yaml_prefix, config.node_csv_prefix) == ("pods", "nodes")


def test_what_simon_ignores_is_noted(place: Path) -> None:
    assert read_cluster_config(config_file(place)).notes == (
        "spec.newNode has no effect",
        "spec.customConfig.workloadInflationConfig.seed has no effect",
        "spec.customConfig.typicalPodsConfig.isConsideredGpuResWeight has no effect",
    )


def test_defaults_are_those_of_simon(place: Path) -> None:
    text = "{apiVersion: simon/v1alpha1, kind: Config, spec: {cluster: {customConfig: cluster}}}"
    config = read_cluster_config(config_file(place, text))
    assert (config.shuffle, config.tuning_ratio, config.seed, config.apps, config.descheduling) == (False, 0, 0, (), "")
    assert config.typical == TypicalPods(0.0, 0, False, 0.0)  # which means 60 percent in steps of 10
    assert config.notes == ()


def test_paths_count_from_the_working_directory_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = place / "elsewhere"
    (elsewhere / "cluster").mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    config = read_cluster_config(config_file(place))
    assert config.cluster == Path("cluster")
    assert any("of the working directory is used" in note for note in config.notes)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kind: Config", "kind: Pod", "row 3, document 1, kind: is text 'Pod'; expected Config"),
        ("simon/v1alpha1", "simon/v2", "row 2, document 1, apiVersion: is text 'simon/v2'"),
        ("shufflePod", "shufflePods", "row 12, document 1, spec.customConfig.shufflePods: unknown field"),
        ("spec:", "specs:", "unknown field 'specs'; did you mean 'spec'"),
        ("ratio: 1.3", "ratio: .nan", "a number from -100 to 100"),
        ("ratio: 1.3", "ratio: much", "is text 'much'"),
        ("ratio: 1.3", "ratio: 1e9", "a number from -100 to 100"),
        ("ratio: 1.3", f"ratio: {'9' * 400}", "a number from -100 to 100"),
        ("gpuResWeight: 0.5", f"gpuResWeight: {'9' * 400}", "a number from 0 to 1e+06"),
        ("ratio: 0.1", "ratio: 2", "descheduleConfig.ratio: is a number '2'"),
        ("seed: 42", "seed: 1.5", "workloadTuningConfig.seed: is a number '1.5'"),
        ("fragOnePod", "fragOne", "did you mean 'fragOnePod'"),
        ("shufflePod: true", "shufflePod: 1", "expected true or false"),
        (
            "{customConfig: cluster}",
            "{customConfig: nowhere}",
            "row 6, document 1, spec.cluster.customConfig: 'nowhere'",
        ),
        ("{customConfig: cluster}", f"{{customConfig: {'x' * 300}}}", "xxx' does not exist"),
        ("{customConfig: cluster}", '{customConfig: "a\\0"}', "does not exist"),
        ("FilePrefix: nodes", 'FilePrefix: "a\\0"', "nodeSnapshotCSVFilePrefix: holds a null character"),
        ("{customConfig: cluster}", "{kubeConfig: admin.conf}", "needs a live cluster"),
        ("{customConfig: cluster}", "{customConfig: cluster, kubeConfig: admin.conf}", "needs a live cluster"),
        ("{customConfig: cluster}", "{}", "spec.cluster.customConfig: is missing"),
        ("podIncreaseStep: 2", "podIncreaseStep: -2", "podIncreaseStep"),
        ("FilePrefix: pods", "FilePrefix: [pods]", "podSnapshotYamlFilePrefix: is a list"),
    ],
)
def test_bad_cluster_configurations(place: Path, old: str, new: str, said: str) -> None:
    path = config_file(place, FULL.replace(old, new))
    with pytest.raises(InputError, match=r"config\.yaml") as refused:
        read_cluster_config(path)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [*a]", "row 1: the alias *a refers to itself"),
        ("a: &a {b: *a}", "refers to itself"),
        ("kind: !!python/object:os.system Config", "is not allowed"),
        ("kind: Config\nkind: Config", "row 2: the key 'kind' is given twice"),
        (FULL + "---" + FULL, "holds 2 documents"),
        ("", "holds 0 documents"),
        ("[1, 2]", "is a list"),
        ("x" * (MAX_CONFIG_BYTES + 1), f"is larger than {MAX_CONFIG_BYTES} bytes"),
        (
            "a0: &a0 [" + ", ".join("x" * 10) + "]\n"
            + "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)),
            "the file holds too much, aliases written out",
        ),
    ],
    ids=["cycle", "cycle of mappings", "tag", "twice", "two", "none", "list", "huge", "bomb"],
)  # fmt: skip
@pytest.mark.parametrize("read", [read_cluster_config, read_scheduler_config])
def test_files_that_are_no_configuration(place: Path, text: str, said: str, read: Callable[[Path], object]) -> None:
    with pytest.raises(InputError) as refused:
        read(config_file(place, text))
    assert said in str(refused.value)


# The scheduler's configuration


def scheduler(place: Path, edit: Edit = lambda content: None, plugin: str = "FGDScore") -> SchedulerConfig:
    content = scheduler_config(plugin)
    edit(content)
    path = place / "scheduler.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return read_scheduler_config(path)


def profile(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = content["profiles"][0]
    return found


def score(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = profile(content)["plugins"]["score"]
    return found


def args(content: dict[str, Any], plugin: int) -> dict[str, Any]:
    found: dict[str, Any] = profile(content)["pluginConfig"][plugin]["args"]
    return found


def test_one_plugin_alone(place: Path) -> None:
    config = scheduler(place)
    assert (config.scores, config.gpu_sel, config.percentage) == ((("FGDScore", 1000),), "FGDScore", 100)
    assert config.missing_gpu_points == config.notes == ()
    assert scheduler(place, plugin="RandomScore").gpu_sel == "random"


def test_defaults_stay_unless_disabled(place: Path) -> None:
    def only_two(content: dict[str, Any]) -> None:
        score(content)["disabled"] = [{"name": "ImageLocality"}, {"name": "NodePreferAvoidPods"}]

    kept = {
        name: weight for name, weight in DEFAULT_SCORES.items() if name not in ("ImageLocality", "NodePreferAvoidPods")
    }
    assert dict(scheduler(place, only_two).scores) == {**kept, "FGDScore": 1000}
    assert dict(scheduler(place, lambda c: score(c).pop("disabled")).scores) == {**DEFAULT_SCORES, "FGDScore": 1000}
    assert scheduler(place, lambda c: score(c).update(disabled=[{"name": "*"}])).scores == (("FGDScore", 1000),)


def test_several_plugins_with_weights(place: Path) -> None:
    chosen = [{"name": "BestFitScore", "weight": 3}, {"name": "NodeResourcesLeastAllocated"}]
    config = scheduler(place, lambda c: score(c).update(enabled=chosen))
    assert config.scores == (("BestFitScore", 3), ("NodeResourcesLeastAllocated", 1))


def test_settings_of_plugins(place: Path) -> None:
    def both(content: dict[str, Any]) -> None:
        args(content, 0).update(dimExtMethod="share", normMethod="node")
        args(content, 1).update(dimExtMethod="extend", normMethod="pod", gpuSelMethod="worst")

    config = scheduler(place, both, "DotProductScore")
    assert (config.scoring, config.selecting) == (DotProduct("share", "node"), DotProduct("extend", "pod"))
    assert config.gpu_sel == "worst"


@pytest.mark.parametrize("version", ["v1beta2", "v1beta3", "v1"])
def test_later_versions_of_the_same_shape(place: Path, version: str) -> None:
    config = scheduler(place, lambda c: c.update(apiVersion=f"kubescheduler.config.k8s.io/{version}"))
    assert config.scores == (("FGDScore", 1000),)


def test_fields_without_effect_are_noted(place: Path) -> None:
    def more(content: dict[str, Any]) -> None:
        content["leaderElection"] = {"leaderElect": False}
        content["profiles"].append({"schedulerName": "other"})
        profile(content)["plugins"].pop("bind")

    assert scheduler(place, more).notes == (
        "leaderElection has no effect",
        "profiles[1] has no effect: no pod goes by it",
        "plugins.bind: pods are bound by the simulation, as by the plugin Simon",
    )


REFUSED: list[tuple[Edit, str]] = [
    (lambda c: c.update(kind="Config"), "kind: is text 'Config'; expected KubeSchedulerConfiguration"),
    (lambda c: c.update(apiVersion="v1"), "apiVersion: is text 'v1'"),
    (lambda c: c.update(profile=[]), "unknown field 'profile'; did you mean 'profiles'"),
    (lambda c: c.update(extenders=[{"urlPrefix": "x"}]), "extenders ask another program"),
    (lambda c: c.update(percentageOfNodesToScore=101), "percentageOfNodesToScore"),
    (lambda c: c.pop("profiles"), "0 profiles are called simon-scheduler"),
    (lambda c: profile(c).update(schedulerName="default-scheduler"), "0 profiles are called simon-scheduler"),
    (lambda c: profile(c)["plugins"].update(multiPoint={}), "unknown field 'multiPoint'"),
    (lambda c: profile(c)["plugins"].update(filter={"disabled": [{"name": "NodeResourcesFit"}]}), "do not fit"),
    (lambda c: profile(c)["plugins"].update(filter={"disabled": [{"name": "*"}]}), "* disabled as a filter"),
    (lambda c: score(c).update(enabled=[{"name": "FGDscore"}]), "unknown plugin 'FGDscore'; did you mean 'FGDScore'"),
    (lambda c: score(c).update(enabled=[{"name": "*"}]), "unknown plugin '*'"),
    (lambda c: score(c).update(enabled=[{"name": "Open-Gpu-Share"}]), "Open-Gpu-Share gives no scores"),
    (lambda c: score(c).update(enabled=[{"name": "NodeResourcesMostAllocated"}]), "is not simulated"),
    (lambda c: score(c).update(enabled=[{"name": "RandomScore"}]), "no node would ever get a score"),
    (lambda c: score(c).update(enabled=[{"name": "FGDScore"}] * 2), "FGDScore is given twice"),
    (lambda c: score(c).update(disabled=[], enabled=[{"name": "NodeAffinity"}]), "is enabled already, by default"),
    (lambda c: score(c)["enabled"][0].update(weight=0), "enabled[0].weight: is a number '0'"),
    (lambda c: score(c)["enabled"][0].update(weight=-5), "a whole number from 1 to"),
    (lambda c: score(c)["enabled"][0].update(weight=2**40), "a whole number from 1 to"),
    (lambda c: score(c)["enabled"][0].update(weigth=5), "unknown field 'weigth'; did you mean 'weight'"),
    (lambda c: args(c, 1).update(gpuSelMethod="bests"), "unknown gpuSelMethod 'bests'; did you mean 'best'"),
    (lambda c: args(c, 1).pop("gpuSelMethod"), "Open-Gpu-Share has no gpuSelMethod"),
    (lambda c: args(c, 0).update(dimExtMethod="fold"), "unknown dimExtMethod 'fold'"),
    (lambda c: args(c, 1).update(normMethod="mean"), "unknown normMethod 'mean'"),
    (lambda c: profile(c)["pluginConfig"].append({"name": "Open-Gpu"}), "unknown plugin 'Open-Gpu'"),
    (lambda c: profile(c)["pluginConfig"].append({"name": "FGDScore"}), "FGDScore is given twice"),
    (lambda c: profile(c)["pluginConfig"].append({"name": "NodeAffinity", "args": {"a": 1}}), "are not simulated"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_bad_scheduler_configurations(place: Path, edit: Edit, said: str) -> None:
    with pytest.raises(InputError, match=r"scheduler.yaml, row \d+") as refused:
        scheduler(place, edit)
    assert said in str(refused.value)


def test_dot_product_needs_its_settings(place: Path) -> None:
    with pytest.raises(InputError, match="DotProductScore has no dimExtMethod"):
        scheduler(place, lambda c: profile(c)["pluginConfig"].pop(0), "DotProductScore")


# What manifests say beyond the model


NODE = "{apiVersion: v1, kind: Node, metadata: {name: n0}, status: {capacity: {cpu: '8', memory: 8Gi}}}"


def pod(name: str = "p", annotations: str = "{}", spec: str = "", metadata: str = "") -> str:
    return textwrap.dedent(f"""
        ---
        apiVersion: v1
        kind: Pod
        metadata: {{name: {name}, annotations: {annotations}{metadata}}}
        spec: {{containers: [{{name: main}}]{spec}}}
        """)


def cluster(place: Path, *texts: str) -> SimonCluster:
    (place / "cluster" / "objects.yaml").write_text("\n---\n".join((NODE, *texts)))
    return read_cluster(place / "cluster")


def test_annotations_of_simon(place: Path) -> None:
    share = "alibabacloud.com/gpu-milli: '1000', alibabacloud.com/gpu-count: '2'"
    found = cluster(
        place,
        pod("preset", f"{{{share}, alibabacloud.com/gpu-index: 1-3}}"),
        pod("marked", "{simon/pod-unscheduled: 'true'}"),
        pod("late", "{alibabacloud.com/creation-time: '2023-05-01T12:01:00Z'}"),
        pod("brief", "{alibabacloud.com/creation-time: '2023-05-01T14:00:30+02:00', "
            "alibabacloud.com/deletion-time: '2023-05-01T12:02:00Z'}"),
        pod("plain"),
    )  # fmt: skip
    workload = found.pods.workload
    assert workload.names == ["brief", "late", "marked", "plain", "preset"]
    assert workload.arrival_P.tolist() == [0.0, 30.0, 0.0, 0.0, 0.0]
    assert workload.duration_P.tolist() == [90.0, FOREVER, FOREVER, FOREVER, FOREVER]
    assert found.pods.dated_P.tolist() == [True, True, False, False, False]
    assert found.pods.marked_P.tolist() == [False, False, True, False, False]
    assert workload.pod(4).shape.gpu_devices == 0b1010
    assert dict(found.nodes[0].labels)["kubernetes.io/hostname"] == "n0"


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ("{alibabacloud.com/gpu-index: '0-1'}", "2 devices for a pod that asks for 0"),
        ("{alibabacloud.com/gpu-index: '0-0'}", "different numbers of devices"),
        ("{alibabacloud.com/gpu-index: '99'}", "different numbers of devices"),
        ("{alibabacloud.com/gpu-index: '-'}", "different numbers of devices"),
        ("{alibabacloud.com/deletion-time: yesterday}", "a time such as"),
        ("{alibabacloud.com/creation-time: '2023-05-01T12:01:00Z', "
         "alibabacloud.com/deletion-time: '2023-05-01T12:00:00Z'}", "is before the creation-time"),
    ],
)  # fmt: skip
def test_bad_annotations(place: Path, annotations: str, said: str) -> None:
    with pytest.raises(InputError, match=r"objects.yaml, row \d+") as refused:
        cluster(place, pod(annotations=annotations))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "rule",
    [
        "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}",
        "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]",
    ],
)
def test_rules_between_pods_are_refused(place: Path, rule: str) -> None:
    with pytest.raises(InputError, match="not simulated"):
        cluster(place, pod(spec=f", {rule}"))


PREFERENCES = {
    "NodeAffinity": pod(
        spec=", affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}"
    ),
    "InterPodAffinity": pod(
        spec=", affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}"
    ),
    "PodTopologySpread": pod(
        spec=", topologySpreadConstraints: [{topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]"
    ),
    "TaintToleration": NODE.replace("n0", "n1").replace(
        "status:", "spec: {taints: [{key: a, effect: PreferNoSchedule}]}, status:"
    ),
    "ImageLocality": NODE.replace("n0", "n1").replace("status: {", "status: {images: [{names: [a]}], "),
    "NodePreferAvoidPods": NODE.replace(
        "{name: n0}", "{name: n1, annotations: {scheduler.alpha.kubernetes.io/preferAvoidPods: '{}'}}"
    ),
}


@pytest.mark.parametrize("plugin", PREFERENCES)
def test_preferences_matter_only_where_their_plugin_is_enabled(place: Path, plugin: str) -> None:
    found = cluster(place, PREFERENCES[plugin])
    shapes = found.pods.workload.shapes
    assert refuse_unsupported(scheduler(place), found.survey, found.nodes, shapes) == []
    defaults = scheduler(place, lambda c: score(c).pop("disabled"))
    with pytest.raises(InputError, match=f"score plugin {plugin} looks at it.*expected {plugin} under"):
        refuse_unsupported(defaults, found.survey, found.nodes, shapes)


def test_sets_of_pods_are_spread_by_default(place: Path) -> None:
    found = cluster(place, "{apiVersion: v1, kind: Service, metadata: {name: s}}", pod())
    defaults = scheduler(place, lambda c: score(c).pop("disabled"))
    with pytest.raises(InputError, match="a Service, whose pods are spread over nodes by default"):
        refuse_unsupported(defaults, found.survey, found.nodes, found.pods.workload.shapes)


def test_gpus_need_their_plugin_at_both_points(place: Path) -> None:
    shapes = [PodShape(gpu_milli=500, gpu_count=1)]
    found = cluster(place)
    config = scheduler(place, lambda c: profile(c)["plugins"].pop("reserve"))
    assert refuse_unsupported(config, found.survey, found.nodes, [PodShape()]) == []
    with pytest.raises(InputError, match=r"no node gives them.*Open-Gpu-Share under plugins.reserve.enabled"):
        refuse_unsupported(config, found.survey, found.nodes, shapes)


def test_scoring_only_some_nodes_is_refused_where_it_would_happen(place: Path) -> None:
    found, config = cluster(place), scheduler(place, lambda c: c.pop("percentageOfNodesToScore"))
    assert refuse_unsupported(config, found.survey, found.nodes * 99, []) == []
    with pytest.raises(InputError, match="scoring only some is not simulated"):
        refuse_unsupported(config, found.survey, found.nodes * 100, [])


def test_what_is_not_simulated_but_harmless_is_noted(place: Path) -> None:
    found = cluster(
        place, pod("a", spec=", priority: 5").replace("name: main", "name: main, ports: [{hostPort: 80}]"), pod("b")
    )
    shapes = (*found.pods.workload.shapes, PodShape(gpu_milli=500, gpu_count=2))
    notes = refuse_unsupported(scheduler(place), found.survey, found.nodes, shapes)
    assert [note.split(":")[0].split(";")[0].split(",")[0] for note in notes] == [
        "host ports are not simulated",
        "pods have different priorities",
        "parts of several devices",
    ]


def test_simon_scores_know_no_extended_resources(place: Path) -> None:
    config = scheduler(place, lambda c: score(c).update(enabled=[{"name": "Simon"}]))
    with pytest.raises(InputError, match="extended resources"):
        refuse_unsupported(config, cluster(place).survey, (), [PodShape(extended=(("a/b", 1),))])


def test_an_app_is_read_on_the_nodes_of_the_cluster(place: Path) -> None:
    known = cluster(place, pod("own"))
    app = place / "app.yaml"
    app.write_text(
        "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, "
        "spec: {template: {spec: {containers: [{name: main}]}}}}"
    )
    found = read_app(app, place / "cluster", known)
    assert found.pods.workload.names == ["agent-n0"]
    assert found.pods.daemon_P.tolist() == [True]
    app.write_text(NODE.replace("n0", "n1"))
    with pytest.raises(InputError, match="an app brings no nodes"):
        read_app(app, place / "cluster", known)


# DaemonSets on nodes that planning adds


def daemon_set(name: str, requests: str = "{}", spec: str = "", annotations: str = "{}") -> str:
    container = f"{{name: main, resources: {{requests: {requests}}}}}"
    template = f"{{metadata: {{annotations: {annotations}}}, spec: {{containers: [{container}]{spec}}}}}"
    return f"{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: {name}}}, spec: {{template: {template}}}}}"


def test_daemons_of_a_further_node_go_by_selectors_taints_and_marks(place: Path) -> None:
    found = cluster(
        place,
        daemon_set("everywhere"),
        daemon_set("in-zone", spec=", nodeSelector: {zone: a}"),
        daemon_set("elsewhere", spec=", nodeSelector: {zone: b}"),
        daemon_set("one-node", spec=", nodeSelector: {kubernetes.io/hostname: n0}"),
        daemon_set("tolerant", spec=", tolerations: [{operator: Exists}]"),
        daemon_set("marked", annotations="{simon/pod-unscheduled: 'true'}"),
    ).survey
    node = Node("n1", 8000, 2**33, labels=(("kubernetes.io/hostname", "n1"), ("zone", "a")))
    assert sorted(daemons_on(node, [found, found])) == ["everywhere", "in-zone", "tolerant"]
    tainted = replace(node, taints=(Taint("special"), Taint("node.kubernetes.io/unschedulable")))
    assert sorted(daemons_on(tainted, [found])) == ["tolerant"]
    cordoned = replace(node, taints=(Taint("node.kubernetes.io/unschedulable"),))
    assert sorted(daemons_on(cordoned, [found])) == ["everywhere", "in-zone", "tolerant"]


def test_daemons_take_their_requests_off_every_resource() -> None:
    node = Node("n", 8000, 2**33, 10, 4, "T4", extended=(("a/b", 3), ("c/d", 1)))
    daemons = {"one": PodShape(1000, 2**30, 1000, 2, extended=(("a/b", 3),)), "other": PodShape(500, 0, 250, 1, "T4")}
    left = beside_daemons(node, daemons)
    assert (left.cpu_milli, left.memory_bytes, left.pods, left.gpu_count) == (6500, 7 * 2**30, 8, 1)
    assert left.extended == (("a/b", 0), ("c/d", 1))
    assert beside_daemons(node, {}) == node


@pytest.mark.parametrize(
    ("shape", "short"),
    [
        (PodShape(8001), "cpu"),
        (PodShape(0, 2**34), "memory"),
        (PodShape(gpu_milli=1000, gpu_count=3), "GPUs"),
        (PodShape(gpu_milli=500, gpu_count=1, gpu_models="A10"), "GPUs of the right model"),
        (PodShape(extended=(("x/y", 1),)), "x/y"),
    ],
)
def test_daemons_that_do_not_fit_are_refused(shape: PodShape, short: str) -> None:
    node = Node("n", 8000, 2**33, gpu_count=2, gpu_model="T4")
    with pytest.raises(InputError, match=f"--add-nodes: such a node has not enough {short} for the pods of DaemonSets"):
        beside_daemons(node, {"agent": shape})


# Order of arrival


def simon_pods(count: int, milli: int = 500, daemons: int = 0) -> SimonPods:
    pods = Workload.of(Pod(f"p{i:03}", PodShape(1000, 0, milli, 1)) for i in range(count))
    none = np.zeros(count, np.bool_)
    return SimonPods(pods, np.arange(count) < daemons, none, none, ("",) * count)


def config_of(place: Path, **custom: object) -> Any:
    content = cluster_config("x", 0.0, 42)
    content["spec"]["customConfig"] |= custom
    path = place / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    return read_cluster_config(path)


def test_copies_are_never_of_daemons_and_come_last(place: Path) -> None:
    nodes = tuple(Node(f"n{i}", 64000, 2**36, gpu_count=8) for i in range(4))
    config = config_of(place, workloadTuningConfig={"ratio": 1.0, "seed": 3})
    fed = simon_arrival(simon_pods(10, daemons=4), nodes, config).pods
    assert fed.workload.gpu_milli_P.sum() == 32000
    copies = [name for name in fed.workload.names if "-tuned-" in name]
    assert copies == list(fed.workload.names[10:])
    assert all(int(name[1:4]) >= 4 for name in copies)


def test_without_shuffle_pods_come_by_creation_then_name(place: Path) -> None:
    pods = simon_pods(4)
    workload = Workload.of(
        Pod(name, pods.workload.shapes[0], arrival=arrival)
        for name, arrival in zip(pods.workload.names, (5.0, 0.0, 0.0, 0.0), strict=True)
    )
    dated = SimonPods(workload, pods.daemon_P, pods.marked_P, np.array([True, True, False, True]), pods.created_P)
    config = config_of(place, shufflePod=False)
    assert list(simon_arrival(pods, (), config).pods.workload.names) == ["p000", "p001", "p002", "p003"]
    assert list(simon_arrival(dated, (), config).pods.workload.names) == ["p002", "p001", "p003", "p000"]


def test_nothing_to_tune_by(place: Path) -> None:
    config = config_of(place, workloadTuningConfig={"ratio": 1.0})
    pods = Workload.of([Pod("p", PodShape(1000))])
    none = np.zeros(1, np.bool_)
    with pytest.raises(InputError, match="no pod asks for GPU"):
        simon_arrival(SimonPods(pods, none, none, none, ("",)), (Node("n", 1, 1, gpu_count=1),), config)


@pytest.mark.parametrize(("room", "copies"), [((99_000, 99_000), 5), ((2_500, 99_000), 2), ((99_000, 1_999), 3)])
def test_inflation_ends_with_the_room(place: Path, room: tuple[int, int], copies: int) -> None:
    arrival = simon_arrival(simon_pods(10), (), config_of(place))
    found = inflation(arrival.source, simon_pods(10), 1.5, room)
    assert len(found.workload) == copies
    assert all(f"-clone-{i}" in name for i, name in enumerate(found.workload.names))


def test_copies_are_tied_to_no_node(place: Path) -> None:
    found = cluster(
        place, pod("a", spec=", nodeSelector: {kubernetes.io/hostname: n0, zone: x}"), pod("b", spec=", nodeName: n0")
    )
    first, second = map(unpinned, (p.shape for p in found.pods.workload))
    assert first.constraints.terms == ((Requirement("zone", "In", ("x",)),),)
    assert (second.constraints.node_name, second.constraints.tolerations) == ("", ())


# Writing


def test_written_files_are_read_back(tmp_path: Path) -> None:
    nodes = (Node("n0", 8000, 2**33, 50, 2, "T4"), Node("n1", 4000, 2**32))
    pods = [
        Pod("whole", PodShape(1000, 2**30, 1000, 2, "T4|A10"), arrival=5.0, duration=9.0),
        Pod("other/cpu", PodShape(500)),
    ]
    trace = Trace.of("small", nodes, Workload.of(pods, timed=True))
    written = write_simon(trace, tmp_path, load=0.5, seed=7)
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "cluster/nodes.yaml",
        "cluster/pods-000.yaml",
        "cluster-config.yaml",
        "scheduler-config.yaml",
    ]
    config = read_cluster_config(tmp_path / "cluster-config.yaml")
    assert (config.cluster, config.shuffle, config.tuning_ratio, config.seed) == (tmp_path / "cluster", True, 0.5, 7)
    assert config.typical == TypicalPods()
    assert read_scheduler_config(tmp_path / "scheduler-config.yaml").gpu_sel == "FGDScore"
    manifests = read_manifests(tmp_path / "cluster")
    assert [(node.name, node.gpu_count, node.gpu_model) for node in manifests.nodes] == [("n0", 2, "T4"), ("n1", 0, "")]
    assert manifests.workload.names == ["paib-gpu/whole", "other/cpu"]
    assert [p.shape for p in manifests.workload] == [p.shape for p in pods]
    assert not manifests.workload.timed
    first = next(yaml.safe_load_all((tmp_path / "cluster/pods-000.yaml").read_text()))
    resources = first["spec"]["containers"][0]["resources"]
    assert resources["limits"] == resources["requests"] == {"cpu": "1", "memory": "1Gi"}


def test_gangs_are_lost_only_when_told(tmp_path: Path) -> None:
    trace = Trace.of("x", (Node("n", 1, 1),), Workload.of([Pod("p", PodShape(), gang=Gang("g", 1))]))
    with pytest.raises(InputError, match="gangs, which simon does not know"):
        write_simon(trace, tmp_path)
    assert write_simon(trace, tmp_path, lossy=True)
