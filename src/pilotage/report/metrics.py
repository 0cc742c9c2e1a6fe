"""How figures of a run are called and written in the report, and what each of them means."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of a run: its name, unit, digits shown and meaning in one line."""

    name: str
    unit: str
    digits: int
    meaning: str

    @property
    def heading(self) -> str:
        return f"{self.name}, {self.unit}" if self.unit else self.name


METRICS = {
    "gpu_allocation_percent": Metric(
        "GPU allocated",
        "%",
        2,
        "share of the cluster's GPU capacity in use: at the last load (openb), or on average over the measured time"
        " (timed)",
    ),
    "fragmentation_percent": Metric(
        "GPU fragmented", "%", 2, "free GPU that the typical pods of the trace cannot use, in % of the GPU capacity"
    ),
    "failed_pods": Metric("Pods failed", "", 0, "pods refused for good (openb) or still waiting at the end (timed)"),
    "lost_before_l0_percent": Metric(
        "Lost early", "%", 2, "GPU asked for by pods refused while the arrived load was at most L0, in % of capacity"
    ),
    "cpu_allocation_percent": Metric("CPU allocated", "%", 2, "share of the cluster's CPU in use"),
    "memory_allocation_percent": Metric("Memory allocated", "%", 2, "share of the cluster's memory in use"),
    "nodes_used": Metric("Nodes used", "", 1, "nodes with CPU or GPU in use"),
    "cpu_variance": Metric("CPU variance", "", 5, "variance over nodes of the used share of CPU; 0 is even"),
    "memory_variance": Metric("Memory variance", "", 5, "variance over nodes of the used share of memory; 0 is even"),
    "gpu_weighted_wait": Metric(
        "GPU-weighted wait", "s", 0, "mean time that pods wait, weighted by the GPU they ask for"
    ),
    "mean_wait": Metric("Mean wait", "s", 0, "mean time that pods wait, over pods that were placed"),
    "p95_wait": Metric("Wait of 95 %", "s", 0, "95 of 100 placed pods waited at most this long"),
    "mean_waiting_pods": Metric("Pods waiting", "", 1, "mean number of waiting pods over the measured time"),
    "restarts": Metric("Restarts", "", 1, "placements lost to node failures"),
    "gang_distance": Metric(
        "Gang distance", "", 3, "between the pods of a gang: 0 same node, 1 same rack, 2 same zone, 3 further; mean"
    ),
    "moved_pods": Metric("Pods moved", "", 1, "pods that consolidation took from their place"),
    "moved_gpus": Metric("GPUs moved", "", 1, "GPUs that the moved pods ask for"),
    "moved_gpu_hours": Metric("GPU hours moved", "", 1, "GPU time that the moved pods had already run"),
}

_OCCASIONAL = ("restarts", "gang_distance", "moved_pods", "moved_gpus", "moved_gpu_hours")
GPU_METRICS = (
    "gpu_allocation_percent",
    "fragmentation_percent",
    "failed_pods",
    "lost_before_l0_percent",
    "cpu_allocation_percent",
    "gpu_weighted_wait",
    "p95_wait",
    "mean_waiting_pods",
    *_OCCASIONAL,
)
CPU_METRICS = (
    "cpu_allocation_percent",
    "memory_allocation_percent",
    "failed_pods",
    "nodes_used",
    "cpu_variance",
    "memory_variance",
    "mean_wait",
    "p95_wait",
    "mean_waiting_pods",
    *_OCCASIONAL,
)
SELDOM = ("restarts", "moved_pods", "moved_gpus", "moved_gpu_hours")  # no column where no policy has any

TERMS = {
    "policy": "the rule that scores the nodes a pod could run on; name@version",
    "baseline": "the policy that the others are measured against",
    "trace": "a cluster and the pods that come to it",
    "load": "GPU that the arriving pods ask for, in % of the cluster's GPU capacity; above 100 % not all can fit",
    "seed": "one order of arrivals; every policy is run on the same seeds",
    "95 % interval": "the mean ± what five in a hundred repetitions would exceed (Student's t over the seeds)",
    "paired difference": "policy minus baseline on the same seed, then the mean over the seeds",
    "GPUs saved": "the paired difference of GPU allocated x the GPUs of the cluster: so many more GPUs do work",
}
BOUND_TERMS = {
    "packing bound": "GPU that no policy can exceed which accepts the early pods, whatever it does",
    "L0": "load up to which pods count as early: 96 % of what FGD allocates",
    "room closed": "share of the way from FGD to the packing bound; none for a policy that refuses early pods",
}


def number(value: float, digits: int) -> str:
    """With thousands separated and a true minus sign; zero has none."""
    text = f"{abs(value):,.{digits}f}"
    return f"\N{MINUS SIGN}{text}" if value < 0 and text.strip("0.,") else text


def rounded(amount: float) -> str:
    """Three significant digits: more would pretend to be known."""
    return number(float(f"{amount:.3g}"), 0 if abs(amount) >= 100 else 2)


def signed(value: float, digits: int) -> str:
    text = number(value, digits)
    return f"+{text}" if value > 0 and text.strip("0.,") else text


def duration(seconds: float) -> str:
    """In the unit a person would choose."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.0f} s"
