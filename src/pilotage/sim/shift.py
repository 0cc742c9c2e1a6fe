"""The same policies where things are not as they were: other traces, cluster sizes, loads, and nodes that fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from pilotage.sim.compare import Comparison
from pilotage.sim.specs import TraceSource
from pilotage.workloads.trace import Trace

AS_GIVEN: Final = "as given"
OTHER_GPU_TRACES: Final = tuple(f"varied-{number}" for number in range(5))
OTHER_TIMED_TRACES: Final = ("openb-like", "openb-like-gpushare100", "openb-like-multigpu50")
OTHER_CPU_TRACES: Final = ("balance-10", "balance-mixed-10", "balance-mixed-50")
SIZES: Final = {"half the nodes": 0.5, "twice the nodes": 2.0}
LOAD_FACTORS: Final = (0.85, 1.25)  # times the loads asked for, or the pods where no load is set
FAILING_LOAD: Final = 1.0
MTBF_HOURS, MTTR_HOURS = 24.0, 1.0  # far more often than real nodes: enough failures within a trace of hours


class Condition(NamedTuple):
    """A comparison and what is special about it."""

    name: str
    comparison: Comparison

    @property
    def slug(self) -> str:
        return self.name.replace(" ", "-")


def shifted(base: Comparison) -> tuple[list[Condition], list[str]]:
    """Conditions unlike those of the base comparison, and of those that cannot be, why."""
    traces = [source.load() for source in base.sources]
    found = [_other_traces(base, traces), *_other_sizes(base), _other_loads(base)]
    failing, note = _failing_nodes(base, traces)
    return [condition for condition in (*found, failing) if condition is not None], [note] if note else []


def _tuned(base: Comparison) -> bool:
    """Whether the protocol makes as many pods as the load asks for."""
    return all(base.loads)


def _other_traces(base: Comparison, traces: list[Trace]) -> Condition | None:
    with_gpus = any(node.gpu_count for trace in traces for node in trace.nodes)
    names: tuple[str, ...] = OTHER_CPU_TRACES
    if with_gpus:
        names = OTHER_GPU_TRACES if base.protocol == "openb" else OTHER_TIMED_TRACES
    given = {trace.name for trace in traces}
    sources = tuple(TraceSource(name=name) for name in names if name not in given)
    return Condition("other traces", replace(base, sources=sources)) if sources else None


def _other_sizes(base: Comparison) -> list[Condition]:
    """Pods in proportion, where the load is not set anyway."""
    return [
        Condition(name, _resized(base, factor, 1.0 if _tuned(base) else factor))
        for name, factor in SIZES.items()
        if _tuned(base) or not _with_gangs(base)
    ]


def _other_loads(base: Comparison) -> Condition | None:
    if _tuned(base):
        loads = tuple(round(load * factor, 4) for load in base.loads for factor in LOAD_FACTORS)
        return Condition("other loads", replace(base, loads=tuple(dict.fromkeys(loads))))
    if _with_gangs(base):
        return None
    sources = tuple(s for factor in LOAD_FACTORS for s in _resized(base, 1.0, factor).sources)
    return Condition("other loads", replace(base, sources=sources))


def _with_gangs(base: Comparison) -> bool:
    return any(source.load().workload.gangs for source in base.sources)


def _resized(base: Comparison, nodes: float, pods: float) -> Comparison:
    return replace(base, sources=tuple(replace(s, nodes_factor=nodes, pods_factor=pods) for s in base.sources))


def _failing_nodes(base: Comparison, traces: list[Trace]) -> tuple[Condition | None, str]:
    if base.timing.mtbf_hours is not None:
        return None, ""
    pairs = zip(base.sources, traces, strict=True)
    lasting = tuple(source for source, trace in pairs if not _ends(trace) or trace.workload.gangs)
    sources = tuple(source for source in base.sources if source not in lasting)
    note = (
        f"no failing nodes on {len(lasting)} of {len(traces)} traces: their pods never depart, or form gangs"
        if lasting
        else ""
    )
    if not sources:
        return None, note
    timing = replace(base.timing, load=FAILING_LOAD, mtbf_hours=MTBF_HOURS, mttr_hours=MTTR_HOURS)
    loads = base.loads if base.protocol == "timed" and all(base.loads) else (FAILING_LOAD,)
    return Condition(
        "failing nodes", replace(base, sources=sources, protocol="timed", loads=loads, timing=timing)
    ), note


def _ends(trace: Trace) -> bool:
    return bool(np.isfinite(trace.workload.duration_P).all())
