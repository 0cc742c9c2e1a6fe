"""A trace as files that simon runs: manifests of the cluster, and the two configurations of the FGD experiment.

As in the published conversion, times are left out: pods arrive one after the other and stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from pilotage.model.errors import InputError
from pilotage.model.workload import FOREVER, Workload
from pilotage.workloads.files import make_directory, replacing
from pilotage.workloads.manifest_writing import Manifest, ManifestDumper, node_manifests, pod_manifests
from pilotage.workloads.nodespec import HOSTNAME
from pilotage.workloads.podsets import DEFAULT_NAMESPACE
from pilotage.workloads.simon import API_VERSION, KIND
from pilotage.workloads.simon_scheduler import DEFAULT_SCORES, GPU_SHARE, PROFILE, RANDOM, VERSIONS
from pilotage.workloads.simon_scheduler import KIND as SCHEDULER_KIND

if TYPE_CHECKING:
    from pilotage.workloads.trace import Trace

NAMESPACE = "paib-gpu"
LOAD, SEED = 1.3, 42
PODS_PER_FILE = 20_000  # keeps files far below what readers accept
POLICY_PLUGINS = (RANDOM, "DotProductScore", "GpuClusteringScore", "GpuPackingScore", "BestFitScore", "FGDScore")
CLUSTER, CLUSTER_CONFIG, SCHEDULER_CONFIG = "cluster", "cluster-config.yaml", "scheduler-config.yaml"


def write_simon(
    trace: Trace, directory: Path, lossy: bool = False, *, load: float = LOAD, seed: int = SEED
) -> list[Path]:
    """Nodes and pods below `cluster`, cluster-config.yaml and scheduler-config.yaml."""
    if trace.workload.gangs and not lossy:
        problem = "the trace has gangs, which simon does not know"
        raise InputError(problem, file=directory / CLUSTER, expected="--lossy, to write their pods as single ones")
    make_directory(directory / CLUSTER)
    files = {f"{CLUSTER}/nodes.yaml": _nodes(trace)}
    for number, first in enumerate(range(0, len(trace.workload), PODS_PER_FILE)):
        rows = np.arange(first, min(first + PODS_PER_FILE, len(trace.workload)))
        files[f"{CLUSTER}/pods-{number:03}.yaml"] = _pods(trace.workload.take(rows))
    files[CLUSTER_CONFIG] = iter((cluster_config(trace.name, load, seed),))
    files[SCHEDULER_CONFIG] = iter((scheduler_config("FGDScore"),))
    for name, documents in files.items():
        _write(directory / name, documents)
    return [directory / name for name in files]


def _write(path: Path, documents: Iterable[Manifest]) -> None:
    with replacing(path) as stream:
        yaml.dump_all(documents, stream, Dumper=ManifestDumper, sort_keys=False, explicit_start=True, encoding="utf-8")


def _nodes(trace: Trace) -> Iterator[Manifest]:
    for manifest in node_manifests(trace.nodes):
        manifest["metadata"]["labels"].setdefault(HOSTNAME, manifest["metadata"]["name"])
        yield manifest


def _pods(workload: Workload) -> Iterator[Manifest]:
    P = len(workload)
    plain = replace(
        workload,
        arrival_P=np.zeros(P),
        duration_P=np.full(P, FOREVER),
        timed=False,
        gangs=(),
        gang_P=np.zeros(0, np.int64),
    )
    for manifest in pod_manifests(plain):
        metadata, resources = manifest["metadata"], manifest["spec"]["containers"][0]["resources"]
        if metadata["namespace"] == DEFAULT_NAMESPACE:
            metadata["namespace"] = NAMESPACE
        resources["limits"] = dict(resources["requests"])
        yield manifest


def cluster_config(name: str, load: float, seed: int) -> Manifest:
    """The published settings: shuffled, tuned, typical pods that stand for 95 % of all."""
    custom = {
        "shufflePod": True,
        "workloadTuningConfig": {"ratio": load, "seed": seed},
        "typicalPodsConfig": {
            "isInvolvedCpuPods": True,
            "podPopularityThreshold": 95,
            "podIncreaseStep": 1,
            "gpuResWeight": 0,
        },
    }
    spec = {"cluster": {"customConfig": CLUSTER}, "customConfig": custom}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def scheduler_config(plugin: str) -> Manifest:
    """One score plugin alone, as in the published experiments, with the device choice that goes with it there."""
    selection = {RANDOM: "random", "FGDScore": "FGDScore"}.get(plugin, "best")
    methods = {"dimExtMethod": "merge", "normMethod": "max"}
    plugins: dict[str, Any] = {
        "filter": {"enabled": [{"name": GPU_SHARE}]},
        "score": {
            "disabled": [{"name": name} for name in (*POLICY_PLUGINS, *DEFAULT_SCORES)],
            "enabled": [{"name": plugin, "weight": 1000}],
        },
        "reserve": {"enabled": [{"name": GPU_SHARE}]},
        "bind": {"disabled": [{"name": "DefaultBinder"}], "enabled": [{"name": "Simon"}]},
    }
    if plugin == RANDOM:
        plugins["preScore"] = {"enabled": [{"name": RANDOM}]}
    profile = {
        "schedulerName": PROFILE,
        "plugins": plugins,
        "pluginConfig": [
            {"name": plugin, "args": methods},
            {"name": GPU_SHARE, "args": {**methods, "gpuSelMethod": selection}},
        ],
    }
    return {
        "apiVersion": VERSIONS[0],
        "kind": SCHEDULER_KIND,
        "percentageOfNodesToScore": 100,
        "profiles": [profile],
    }
