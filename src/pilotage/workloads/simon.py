"""Cluster configurations of simon (`apiVersion: simon/v1alpha1`, `kind: Config`), read strictly.

Fields that simon knows and never reads are accepted and named in a note; any other unknown field is an error, because
what looks like a setting and has no effect is most likely misspelt. Relative paths are looked for in the working
directory, as simon does, and then beside the configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pilotage.policies.api import TypicalPods
from pilotage.workloads.fields import Field
from pilotage.workloads.yaml_documents import only_document

API_VERSION, KIND = "simon/v1alpha1", "Config"
MAX_CONFIG_BYTES = 1024 * 1024
MAX_RATIO = 100.0
DESCHEDULING_METHODS = ("cosSim", "fragOnePod", "fragMultiPod")
SIMON_TYPICAL = TypicalPods(popularity_percent=0.0, step=0, cpu_pods=False)  # where nothing is said


@dataclass(frozen=True, slots=True)
class App:
    """Objects that are scheduled after the cluster's own pods."""

    name: str
    path: Path
    chart: bool  # a Helm chart, else manifests


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """What to simulate. Ratios at or below 0 (inflation: 1) mean that the step is left out."""

    name: str
    cluster: Path  # file or directory of manifests
    apps: tuple[App, ...] = ()
    shuffle: bool = False  # else pods come in order of creation
    tuning_ratio: float = 0.0  # GPU asked for / GPU capacity after tuning
    seed: int = 0
    inflation_ratio: float = 0.0
    new_workload: Path | None = None  # its pods give the typical pods after the first scheduling
    descheduling_ratio: float = 0.0  # of the pods in the cluster, at most so many are moved
    descheduling: str = ""  # method, "" = none
    typical: TypicalPods = SIMON_TYPICAL
    node_csv_prefix: str = ""  # directory of the node and pod tables, "" = none
    pod_yaml_prefix: str = ""  # directory of the pods as manifests, "" = none
    notes: tuple[str, ...] = ()  # what was accepted and has no effect


def read_cluster_config(path: Path) -> ClusterConfig:
    root = Field.of(only_document(path, max_bytes=MAX_CONFIG_BYTES))
    root.get("kind").choice((KIND,))  # first: a file of the wrong kind has the wrong version too
    root.get("apiVersion").choice((API_VERSION,))
    spec = root.only("apiVersion", "kind", "metadata", "spec").get("spec")
    custom = spec.only("cluster", "appList", "customConfig", "newNode").get("customConfig").only(*_CUSTOM_FIELDS)
    tuning = custom.get("workloadTuningConfig").only("ratio", "seed")
    inflation = custom.get("workloadInflationConfig").only("ratio", "seed")
    export = custom.get("exportConfig").only("podSnapshotYamlFilePrefix", "nodeSnapshotCSVFilePrefix")
    moving = custom.get("descheduleConfig").only("ratio", "policy")
    notes = [*spec.without_effect("newNode"), *inflation.without_effect("seed")]
    new_workload = custom.get("newWorkloadConfig")
    return ClusterConfig(
        name=root.get("metadata").get("name").text(path.stem),
        cluster=_cluster_path(spec.get("cluster"), path, notes),
        apps=tuple(_app(entry, path, notes) for entry in spec.get("appList").elements()),
        shuffle=custom.get("shufflePod").boolean(),
        tuning_ratio=tuning.get("ratio").number(0.0, low=-MAX_RATIO, high=MAX_RATIO),
        seed=tuning.get("seed").integer(0, low=-(2**63), high=2**63 - 1),
        inflation_ratio=inflation.get("ratio").number(0.0, low=-MAX_RATIO, high=MAX_RATIO),
        new_workload=_existing(new_workload, path, notes) if new_workload.value else None,
        descheduling_ratio=moving.get("ratio").number(0.0, high=1.0),
        descheduling=moving.get("policy").choice(DESCHEDULING_METHODS, "", kind="descheduling policy"),
        typical=_typical_pods(custom.get("typicalPodsConfig"), notes),
        node_csv_prefix=_directory(export.get("nodeSnapshotCSVFilePrefix")),
        pod_yaml_prefix=_directory(export.get("podSnapshotYamlFilePrefix")),
        notes=tuple(notes),
    )


_CUSTOM_FIELDS = (
    "shufflePod",
    "exportConfig",
    "workloadInflationConfig",
    "workloadTuningConfig",
    "newWorkloadConfig",
    "descheduleConfig",
    "typicalPodsConfig",
)


def _cluster_path(cluster: Field, file: Path, notes: list[str]) -> Path:
    if cluster.only("customConfig", "kubeConfig").get("kubeConfig").value:
        raise cluster.get("kubeConfig").error(
            "needs a live cluster, which a simulation does not have", "customConfig: DIRECTORY of manifests instead"
        )
    return _existing(cluster.get("customConfig"), file, notes)


def _app(entry: Field, file: Path, notes: list[str]) -> App:
    entry.only("name", "path", "chart")
    return App(entry.get("name").name(), _existing(entry.get("path"), file, notes), entry.get("chart").boolean())


def _typical_pods(entry: Field, notes: list[str]) -> TypicalPods:
    ignored = "isConsideredGpuResWeight"
    entry.only("isInvolvedCpuPods", "podPopularityThreshold", "podIncreaseStep", "gpuResWeight", ignored)
    notes += entry.without_effect(ignored)
    return TypicalPods(
        popularity_percent=entry.get("podPopularityThreshold").number(0.0, high=100.0),
        step=entry.get("podIncreaseStep").integer(0),
        cpu_pods=entry.get("isInvolvedCpuPods").boolean(),
        gpu_weight=entry.get("gpuResWeight").number(0.0, high=1e6),
    )


def _existing(entry: Field, file: Path, notes: list[str]) -> Path:
    given = Path(entry.text(expected="a path"))
    beside = file.parent / given
    if _exists(given):
        if not given.is_absolute() and _exists(beside) and not beside.samefile(given):
            notes.append(f"{entry.path}: {given} of the working directory is used, not {beside}")
        return given
    if not _exists(beside):
        problem = f"{str(given)[:200]!r} does not exist"
        raise entry.error(problem, "a path from the working directory or from that of this file")
    return beside


def _directory(entry: Field) -> str:
    if "\0" in entry.text(""):
        raise entry.error("holds a null character", "a directory")
    return entry.text("")


def _exists(path: Path) -> bool:
    """False as well for what no file can be called: too long, or with a null character."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
