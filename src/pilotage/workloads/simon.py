"""Cluster configurations of simon (`apiVersion: simon/v1alpha1`, `kind: Config`), read strictly.

Fields that simon knows and never reads are accepted and named in a note; any other unknown field is an error, because
what looks like a setting and has no effect is most likely misspelt. Relative paths are looked for in the working
directory, as simon does, and then beside the configuration.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from pilotage.model.errors import InputError, UnknownNameError
from pilotage.policies.api import TypicalPods
from pilotage.workloads.fields import Field
from pilotage.workloads.yaml_documents import read_documents

API_VERSION, KIND = "simon/v1alpha1", "Config"
MAX_CONFIG_BYTES = 1024 * 1024
MAX_RATIO = 100.0
DESCHEDULING = ("cosSim", "fragOnePod", "fragMultiPod")
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
    root = only_document(path)
    expect_version(root, KIND, (API_VERSION,))
    notes = expect_fields(root, ("apiVersion", "kind", "metadata", "spec"))
    spec = root.get("spec")
    notes += expect_fields(spec, ("cluster", "appList", "customConfig"), ignored=("newNode",))
    custom = spec.get("customConfig")
    notes += expect_fields(custom, _CUSTOM_FIELDS)
    tuning, inflation = custom.get("workloadTuningConfig"), custom.get("workloadInflationConfig")
    notes += expect_fields(tuning, ("ratio", "seed")) + expect_fields(inflation, ("ratio",), ignored=("seed",))
    export, moving = custom.get("exportConfig"), custom.get("descheduleConfig")
    notes += expect_fields(export, ("podSnapshotYamlFilePrefix", "nodeSnapshotCSVFilePrefix"))
    notes += expect_fields(moving, ("ratio", "policy"))
    new_workload = custom.get("newWorkloadConfig")
    return ClusterConfig(
        name=root.get("metadata").get("name").text(path.stem),
        cluster=_cluster_path(spec.get("cluster"), path, notes),
        apps=tuple(_app(entry, path, notes) for entry in spec.get("appList").elements()),
        shuffle=custom.get("shufflePod").boolean(),
        tuning_ratio=number(tuning.get("ratio"), low=-MAX_RATIO, high=MAX_RATIO),
        seed=tuning.get("seed").integer(0, low=-(2**63), high=2**63 - 1),
        inflation_ratio=number(inflation.get("ratio"), low=-MAX_RATIO, high=MAX_RATIO),
        new_workload=_existing(new_workload, path, notes) if new_workload.value else None,
        descheduling_ratio=number(moving.get("ratio"), high=1.0),
        descheduling=one_of(moving.get("policy"), "descheduling policy", DESCHEDULING, ""),
        typical=_typical_pods(custom.get("typicalPodsConfig"), notes),
        node_csv_prefix=export.get("nodeSnapshotCSVFilePrefix").text(""),
        pod_yaml_prefix=export.get("podSnapshotYamlFilePrefix").text(""),
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
    notes += expect_fields(cluster, ("customConfig", "kubeConfig"))
    if cluster.get("kubeConfig").value:
        raise cluster.get("kubeConfig").error(
            "needs a live cluster, which a simulation does not have", "customConfig: DIRECTORY of manifests instead"
        )
    return _existing(cluster.get("customConfig"), file, notes)


def _app(entry: Field, file: Path, notes: list[str]) -> App:
    notes += expect_fields(entry, ("name", "path", "chart"))
    return App(entry.get("name").name(), _existing(entry.get("path"), file, notes), entry.get("chart").boolean())


def _typical_pods(entry: Field, notes: list[str]) -> TypicalPods:
    known = ("isInvolvedCpuPods", "podPopularityThreshold", "podIncreaseStep", "gpuResWeight")
    notes += expect_fields(entry, known, ignored=("isConsideredGpuResWeight",))
    return TypicalPods(
        popularity_percent=number(entry.get("podPopularityThreshold"), high=100.0),
        step=entry.get("podIncreaseStep").integer(0),
        cpu_pods=entry.get("isInvolvedCpuPods").boolean(),
        gpu_weight=number(entry.get("gpuResWeight"), high=1e6),
    )


def _existing(entry: Field, file: Path, notes: list[str]) -> Path:
    given = Path(entry.text(expected="a path"))
    beside = file.parent / given
    if given.exists():
        if not given.is_absolute() and beside.exists() and not beside.samefile(given):
            notes.append(f"{entry.path}: {given} of the working directory is used, not {beside}")
        return given
    if not beside.exists():
        raise entry.error(
            f"{str(given)!r} does not exist", "a path from the working directory or from that of this file"
        )
    return beside


# Strict reading, for the scheduler's configuration as well


def only_document(path: Path) -> Field:
    documents = list(read_documents(path, max_bytes=MAX_CONFIG_BYTES))
    if len(documents) != 1:
        raise InputError(f"holds {len(documents)} documents", file=path, expected="one configuration")
    return Field.of(documents[0])


def expect_version(root: Field, kind: str, versions: Collection[str]) -> None:
    """Kind first: a file of the wrong kind has the wrong version too."""
    if root.get("kind").value != kind:
        raise root.get("kind").wrong_kind(kind)
    if root.get("apiVersion").value not in versions:
        raise root.get("apiVersion").wrong_kind(" or ".join(versions))


def expect_fields(entry: Field, known: Collection[str], ignored: Collection[str] = ()) -> list[str]:
    """Refuses fields that nobody knows; a note for each one that is known to have no effect."""
    notes = []
    for key, below in entry.items():
        if key in ignored:
            notes.append(f"{below.path} has no effect")
        elif key not in known:
            raise unknown_name("field", key, known, below)
    return notes


def unknown_name(kind: str, name: str, known: Collection[str], place: Field) -> UnknownNameError:
    where = f"document {place.document}, {place.path}"
    return UnknownNameError(kind, name, known, file=place.file, row=place.line, field=where)


def one_of(entry: Field, kind: str, known: Collection[str], default: str | None = None) -> str:
    """A name out of a list; empty text counts as missing."""
    if entry.value in (None, "") and default is not None:
        return default
    if entry.text(expected=" or ".join(known)) not in known:
        raise unknown_name(kind, entry.text(), known, entry)
    return entry.text()


def number(entry: Field, *, low: float = 0.0, high: float) -> float:
    """A finite number within bounds; 0 when missing."""
    value = 0.0 if entry.value is None else entry.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or not low <= value <= high:
        raise entry.wrong_kind(f"a number from {low:g} to {high:g}")
    return float(value)
