"""How far parameters must be moved to matter: the step from which on pods go elsewhere.

Parameters of a policy that prices leftovers differ in their effect by four orders of magnitude, and by how often it is
asked for on the workload at hand. A search that moves all of them at once needs steps that matter equally. These are
found by looking at when the first pod goes to another node: one parameter after the other, up and down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pilotage.model.workload import BoolArray, FloatArray, IntArray
from pilotage.policies.priced import Priced
from pilotage.policies.scenes import Filling
from pilotage.policies.workload_facts import WorkloadFacts
from pilotage.sim.seeds import TRAINING
from pilotage.sim.specs import TraceSource
from pilotage.training.trials import stage_of

WATCHED = 1200  # pods, at most
PART = 4  # a step matters when one of the first pods, as many as every fourth, goes elsewhere
FIRST, FACTOR, TIMES = 0.02, 4.0, 6  # step that is tried first; the next one, until it is enclosed; how many are tried
MOST = 3.0  # what matters less is not searched


def telling_steps(start: FloatArray, searched: BoolArray, sources: Sequence[TraceSource], load: float) -> FloatArray:
    """Of each parameter: the smallest over the workloads; 0 for those that hardly matter, or are not searched."""
    views = [_view(Priced("start@1", start), source, load) for source in sources]
    step_P = np.array([min(_step(view, p) for view in views) if searched[p] else MOST for p in range(len(start))])
    return np.where(step_P < MOST, step_P, 0.0)


@dataclass(frozen=True)
class _View:
    """Pods as they come to an empty cluster, and where they go at the start."""

    policy: Priced
    facts: WorkloadFacts
    filling: Filling
    node_P: IntArray

    def first_elsewhere(self, p: int, step: float) -> float:
        """The first pod that goes elsewhere: mean of the logarithms, up and down."""
        return float(np.mean([np.log1p(self._first_elsewhere(p, sign * step)) for sign in (1, -1)]))

    def _first_elsewhere(self, p: int, step: float) -> int:
        parameters = self.policy.parameters.copy()
        parameters[p] += step
        moved = replace(self.policy, parameters=parameters).priced_by(self.facts)
        elsewhere_P = self.filling.filled(moved.rules, moved.device_rule).progress.node_P != self.node_P
        return int(elsewhere_P.argmax()) if elsewhere_P.any() else len(elsewhere_P)


def _view(policy: Priced, source: TraceSource, load: float) -> _View:
    stage = stage_of(source.load(), load, TRAINING[0])
    ready, filling = policy.priced_by(stage.facts), stage.filling.first(WATCHED)
    return _View(policy, stage.facts, filling, filling.filled(ready.rules, ready.device_rule).progress.node_P)


def _step(view: _View, p: int) -> float:
    """Between the largest step that does not matter and the smallest one that does."""
    enough = np.log1p(len(view.node_P) / PART)
    step, less, more = FIRST, 0.0, 0.0
    for _ in range(TIMES):
        if view.first_elsewhere(p, step) > enough:
            less = step
            step = step * FACTOR if more == 0.0 else float(np.sqrt(step * more))
        else:
            more = step
            step = step / FACTOR if less == 0.0 else float(np.sqrt(less * step))
        if step > MOST:
            return MOST
    return step
