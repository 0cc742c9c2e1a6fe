"""What an evolution starts from: parameters, and workloads with their yardsticks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from pilotage.model.cluster import ClusterState
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray
from pilotage.policies.api import WorkloadMix
from pilotage.policies.leftover_prices import FUNCTIONS
from pilotage.policies.priced import LAYOUT, Priced
from pilotage.policies.registry import find_policy
from pilotage.policies.rehearsed import Rehearsed
from pilotage.sim.protocols import mix_of
from pilotage.sim.seeds import TRAINING
from pilotage.sim.specs import TraceSource
from pilotage.training.evolution import EvolutionSettings, Workloads
from pilotage.training.steps import telling_steps
from pilotage.training.trials import Objective, Yardstick, yardstick
from pilotage.workloads.trace import Trace

PRIOR = "prior"  # the start of a training from nothing
YARDSTICK_SEEDS = 2
STEPS_SEEN_ON = 3  # workloads
NO_YARDSTICK = Yardstick(0.0, 0.0)  # balance is judged by the baseline's own run
# Varied workloads that teach something: the baseline packs well, and there is room that packing could close.
LEAST_BASELINE, LEAST_VARIED_ROOM, MOST_VARIED_ROOM = 90.0, 0.6, 6.0


def start_parameters(text: str, objective: Objective, given: Sequence[TraceSource] = ()) -> FloatArray:
    """Of the prior, or of a policy that prices leftovers: of one that rehearses, what it finds for the first trace."""
    if text == PRIOR:
        return prior(objective)
    policy = find_policy(text)
    if isinstance(policy, Rehearsed):
        ready = policy.prepare(_mix(given[0].load())) if given else policy
        policy = ready if isinstance(ready, Priced) else policy.valuations[0]
    if not isinstance(policy, Priced):
        expected = f"{PRIOR}, pilotage-pack, or the directory of an earlier evolution's checkpoint"
        raise InputError(f"{text!r} does not price leftovers", field="--start", expected=expected)
    return policy.parameters


def _mix(trace: Trace) -> WorkloadMix:
    return mix_of(trace).on(
        ClusterState(trace.nodes, {name for shape in trace.workload.shapes for name, _ in shape.extended})
    )


def prior(objective: Objective) -> FloatArray:
    """What is plausible before anything was learned."""
    parts = {name: np.zeros(size) for name, size in LAYOUT.items()}
    if objective == "balance":
        left = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
        parts["cpu_share"][:] = -((1 - left) ** 2)
    else:
        parts["leftover"][FUNCTIONS.index("packing_price_2")] = 1.0
        parts["leftover"][FUNCTIONS.index("waste_of_random_filling")] = -0.3
        parts["cpu"][:] = [-0.5, -0.35, -0.2, -0.1, 0.0, 0.02, 0.03, 0.03, 0.02, 0.0]
    return np.concatenate([*parts.values()])


def start_steps(start: FloatArray, workloads: Workloads, settings: EvolutionSettings) -> FloatArray | None:
    """How far a search that moves all parameters at once is to move each."""
    if settings.method != "slope":
        return None
    sources = (workloads.given or workloads.varied)[:STEPS_SEEN_ON]
    return telling_steps(start, settings.searched(), sources, settings.load)


def prepared_workloads(given: Sequence[TraceSource], varied: int, settings: EvolutionSettings) -> Iterator[Workloads]:
    """Yields what is known after each workload, for a progress line; the last one is complete."""
    seeds = tuple(islice(TRAINING, YARDSTICK_SEEDS))
    yardsticks: dict[TraceSource, Yardstick] = {}
    for source in given:
        packing = settings.objective == "packing"
        yardsticks[source] = yardstick(source, seeds, settings.load) if packing else NO_YARDSTICK
        yield Workloads(tuple(yardsticks), (), yardsticks)
    chosen: tuple[TraceSource, ...] = ()
    numbers = iter(TRAINING)
    while len(chosen) < varied:
        source = TraceSource(name=f"varied-{next(numbers)}")
        found = yardstick(source, seeds, settings.load)
        room = found.bound - found.baseline
        if found.baseline >= LEAST_BASELINE and LEAST_VARIED_ROOM <= room <= MOST_VARIED_ROOM:
            chosen += (source,)
            yardsticks[source] = found
            yield Workloads(tuple(given), chosen, yardsticks)
