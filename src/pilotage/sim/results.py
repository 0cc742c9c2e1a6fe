"""What a run is judged by, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

from pilotage.kernels.meters import (
    AMOUNTS,
    CPU_SHARE_SQUARES,
    CPU_SHARE_SUM,
    CPU_USED,
    GPU_SHARE_SQUARES,
    GPU_SHARE_SUM,
    GPU_USED,
    MEMORY_USED,
    NODES_USED,
    WAITING,
)
from pilotage.kernels.scene import FINISHED, RUNS, WAITS
from pilotage.model.cluster import MEMORY_AXIS
from pilotage.model.workload import POD_KINDS, BoolArray, FloatArray, IntArray
from pilotage.sim.bound import DIGITS
from pilotage.sim.consolidation import Consolidated, Moves
from pilotage.sim.distances import gang_distance
from pilotage.sim.openb_tables import OpenbTables, openb_tables
from pilotage.sim.run import Run


@dataclass(frozen=True)
class Curve:
    """Figures on the way, percent of GPU capacity; NaN where there is no value."""

    x_L: FloatArray  # arrived load, percent of GPU capacity (openb), or hours since the window began (timed)
    allocation_L: FloatArray
    fragmentation_L: FloatArray


@dataclass(frozen=True)
class Leftover:
    """What is left on nodes, in the order of the trace's nodes: at the end (openb) or when the window ends (timed)."""

    gpu_left_ND: npt.NDArray[np.int16]  # milli; -1 where the node has no such device
    cpu_left_N: npt.NDArray[np.float32]  # percent of the node's CPU


@dataclass(frozen=True)
class RunResult:
    """One run. Percentages are of the cluster's capacity; times are seconds.

    `gpu_allocation_percent` and `fragmentation_percent` are the last load column of the published tables (OpenB
    protocol) or time-weighted means after the warm-up (timed).
    """

    trace: str
    policy: str
    seed: int
    load: float
    protocol: str
    gpu_allocation_percent: float
    fragmentation_percent: float
    fragmentation_idle_percent: float
    cpu_allocation_percent: float
    memory_allocation_percent: float
    nodes_used: float
    cpu_variance: float  # of used / capacity over nodes: how uneven the load is
    gpu_variance: float
    failed_pods: int
    failed_cpu_pods: int
    failed_share_pods: int
    failed_whole_gpu_pods: int
    failed_multi_gpu_pods: int
    decisions: int
    lost_before_l0_percent: float | None = None
    mean_wait: float | None = None  # timed runs only, over placed pods
    p95_wait: float | None = None
    gpu_weighted_wait: float | None = None  # waiting so far counts for pods that still wait
    mean_waiting_pods: float | None = None
    restarts: int | None = None
    gang_distance: float | None = None  # 0 same node, 1 same rack, 2 same zone, 3 further; mean over pairs and gangs
    moved_pods: int | None = None  # consolidated runs only
    moved_gpus: float | None = None
    moved_gpu_hours: float | None = None  # GPU time that moved pods had already run; timed only
    memory_variance: float | None = None  # as cpu_variance; openb only: nobody measures it over time
    tables: OpenbTables | None = field(default=None, repr=False)
    lost_at: tuple[FloatArray, FloatArray] | None = field(default=None, repr=False, compare=False)
    """GPU pods that were refused: arrived load (fraction) when they came, and their share of the capacity."""
    curve: Curve | None = field(default=None, repr=False, compare=False)
    leftover: Leftover | None = field(default=None, repr=False, compare=False)

    def figures(self) -> dict[str, object]:
        """The plain fields, rounded, in order."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ARRAY_FIELDS}
        return {name: rounded(name, v) if isinstance(v, float) else v for name, v in values.items()}


ARRAY_FIELDS = ("tables", "lost_at", "curve", "leftover")
VARIANCES = ("cpu_variance", "memory_variance", "gpu_variance")
SMALL_VARIANCE, MORE_DIGITS = 0.0005, 10


def rounded(metric: str, value: float, size: float | None = None) -> float:
    """To the decimals that are stored: more of a variance that is small, which for an even load is all of it.

    `size` is that of the figure itself, where the value is an interval or a difference of it.
    """
    small = metric in VARIANCES and abs(value if size is None else size) < SMALL_VARIANCE
    return round(value, MORE_DIGITS if small else DIGITS)


def openb_result(run: Run, trace: str, policy: str, seed: int, load: float) -> RunResult:
    """Figures of a run of the OpenB protocol."""
    devices = int(run.state.arrays.device_count_N.sum())
    tables = openb_tables(run.tape, devices, load) if devices else None
    refused_P = run.scene.progress.node_P < 0
    capacity = max(1000.0 * devices, 1.0)
    gpu_P = run.workload.gpu_milli_P
    lost = refused_P & (gpu_P > 0)
    return _result(
        run,
        refused_P,
        run.scene.meters.total_M,
        {
            "trace": trace,
            "policy": policy,
            "seed": seed,
            "load": load,
            "protocol": "openb",
            "gpu_allocation_percent": tables.last(tables.allocation_L) if tables else 0.0,
            "fragmentation_percent": tables.last(tables.fragmentation_L) if tables else 0.0,
            "fragmentation_idle_percent": tables.last(tables.fragmentation_ratio_L) if tables else 0.0,
            "tables": tables,
            "memory_variance": _used_variance(run, MEMORY_AXIS),
            "lost_at": (run.tape.arrived_P[lost] / capacity, gpu_P[lost] / capacity),
            "curve": tables
            and Curve(
                np.arange(len(tables.allocation_L), dtype=np.float64), tables.allocation_L, tables.fragmentation_L
            ),
        },
    )


def timed_result(run: Run, trace: str, policy: str, seed: int, load: float) -> RunResult:
    """Figures of a run over time."""
    progress, window = run.scene.progress, run.settings.measure
    mean_M = run.scene.series.integral_M / (window[1] - window[0])
    placed_P = (progress.state_P == RUNS) | (progress.state_P == FINISHED)
    never_P = progress.state_P == WAITS
    # Pods that still wait have waited until the end of the window, whatever ran on after it.
    still_P = np.where(never_P, np.maximum(window[1] - progress.waiting_since_P, 0.0), 0.0)
    wait_P = progress.waited_P + still_P
    gpu_P = run.workload.gpu_milli_P.astype(np.float64)
    capacity = float(run.state.gpu_capacity_milli)
    frag, idle = _fragmentation(mean_M)
    return _result(
        run,
        never_P,
        mean_M,
        {
            "trace": trace,
            "policy": policy,
            "seed": seed,
            "load": load,
            "protocol": "timed",
            "gpu_allocation_percent": _percent(mean_M[GPU_USED], capacity),
            "fragmentation_percent": _percent(frag, capacity),
            "fragmentation_idle_percent": _percent(frag, idle),
            "mean_wait": float(wait_P[placed_P].mean()) if placed_P.any() else 0.0,
            "p95_wait": float(np.quantile(wait_P[placed_P], 0.95)) if placed_P.any() else 0.0,
            "gpu_weighted_wait": float((wait_P * gpu_P).sum() / gpu_P.sum()) if gpu_P.any() else 0.0,
            "mean_waiting_pods": float(mean_M[WAITING]),
            "restarts": int(progress.restarts_P.sum()),
            "curve": timed_curve(run),
        },
    )


def _result(run: Run, failed_P: BoolArray, meter_M: FloatArray, given: dict[str, object]) -> RunResult:
    capacity_R = run.state.arrays.capacity_NR.sum(axis=0)
    N = len(run.state.nodes)
    kinds = _failed_by_kind(run, failed_P)
    return RunResult(
        cpu_allocation_percent=_percent(meter_M[CPU_USED], capacity_R[0]),
        memory_allocation_percent=_percent(meter_M[MEMORY_USED], capacity_R[1]),
        nodes_used=float(meter_M[NODES_USED]),
        cpu_variance=_variance(meter_M[CPU_SHARE_SUM], meter_M[CPU_SHARE_SQUARES], N),
        gpu_variance=_variance(
            meter_M[GPU_SHARE_SUM], meter_M[GPU_SHARE_SQUARES], int((run.state.arrays.device_count_N > 0).sum())
        ),
        failed_pods=int(failed_P.sum()),
        failed_cpu_pods=int(kinds[0]),
        failed_share_pods=int(kinds[1]),
        failed_whole_gpu_pods=int(kinds[2]),
        failed_multi_gpu_pods=int(kinds[3]),
        decisions=run.decisions,
        gang_distance=gang_distance(run),
        **given,  # type: ignore[arg-type]
    )


def consolidated_result(result: RunResult, run: Run, done: Consolidated) -> RunResult:
    """A run of the OpenB protocol after its pods were moved.

    The last load column is a mean over decisions, and moving pods comes after the last of them. So what the moves
    changed, from the state before them to that after them, is added to the column: without moves nothing changes.
    """
    capacity = float(run.state.gpu_capacity_milli)
    (frag_before, idle_before), (frag, idle) = _fragmentation(done.before_M), _fragmentation(done.after_M)
    gained = float(done.after_M[GPU_USED] - done.before_M[GPU_USED])
    after = replace(
        result,
        gpu_allocation_percent=result.gpu_allocation_percent + _percent(gained, capacity),
        fragmentation_percent=result.fragmentation_percent + _percent(frag - frag_before, capacity),
        fragmentation_idle_percent=result.fragmentation_idle_percent
        + (_percent(frag, idle) - _percent(frag_before, idle_before)),
        tables=None,
        curve=None,
    )
    return with_moves(after, done.moves)


def with_moves(result: RunResult, moves: Moves) -> RunResult:
    return replace(result, moved_pods=moves.pods, moved_gpus=moves.gpus, moved_gpu_hours=moves.gpu_hours)


def timed_curve(run: Run) -> Curve | None:
    """Allocation and fragmentation at the points of the time grid."""
    series, capacity = run.scene.series, float(run.state.gpu_capacity_milli)
    filled = int(series.sampled_1[0])
    if not capacity or not filled:
        return None
    amount_G7 = series.sample_GM[:filled, AMOUNTS : AMOUNTS + 7]
    return Curve(
        (series.grid_G[:filled] - series.from_to_2[0]) / 3600,
        100 * series.sample_GM[:filled, GPU_USED] / capacity,
        100 * (amount_G7.sum(axis=1) - amount_G7[:, 2]) / capacity,
    )


def left_on_nodes(run: Run) -> Leftover:
    """The present state of the run's nodes."""
    arrays = run.state.arrays
    D = arrays.device_left_ND.shape[1]
    left_ND = np.where(np.arange(D) < arrays.device_count_N[:, None], arrays.device_left_ND, -1)
    cpu_N = 100 * arrays.free_NR[:, 0] / np.maximum(arrays.capacity_NR[:, 0], 1)
    return Leftover(left_ND[run.position_N].astype(np.int16), cpu_N[run.position_N].astype(np.float32))


def _failed_by_kind(run: Run, failed_P: BoolArray) -> IntArray:
    kind_S = np.array([POD_KINDS.index(shape.kind) for shape in run.workload.shapes], np.int64)
    return np.bincount(kind_S[run.workload.shape_P[failed_P]], minlength=len(POD_KINDS)).astype(np.int64)


def _fragmentation(meter_M: FloatArray) -> tuple[float, float]:
    """Fragmented and idle GPU milli."""
    amounts = meter_M[AMOUNTS : AMOUNTS + 7]
    return float(amounts.sum() - amounts[2]), float(amounts.sum())


def _percent(part: float, whole: float) -> float:
    return 100.0 * float(part) / float(whole) if whole else 0.0


def _used_variance(run: Run, axis: int) -> float:
    """Variance over nodes of the used share of a resource, as the nodes are now."""
    capacity_N, free_N = run.state.arrays.capacity_NR[:, axis], run.state.arrays.free_NR[:, axis]
    return float(np.var((capacity_N - free_N) / np.maximum(capacity_N, 1)))


def _variance(total: float, squares: float, count: int) -> float:
    if count == 0:
        return 0.0
    mean = total / count
    return max(float(squares / count - mean * mean), 0.0)
