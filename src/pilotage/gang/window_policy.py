"""A learned controller: a small network chooses between keeping the division and windows, beside the plan's judgement.

It is a checkpoint of kind `window` (safetensors and JSON) and runs without torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from pilotage.gang.controllers import new_course
from pilotage.gang.foresight import Outlooks
from pilotage.gang.problem import Problem
from pilotage.gang.scenario_mpc import ScenarioMpc
from pilotage.kernels.gang_control import Course, follow_divisions
from pilotage.kernels.gang_windows import INPUTS, Moment, Network, Stretch, run_learned
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray
from pilotage.policies.architectures import Architecture
from pilotage.policies.checkpoints import BEST, Checkpoint, is_checkpoint, read_checkpoint

KIND: Final = "window"
HIDDEN: Final = 6
SHIPPED: Final = Path(__file__).parent / "shipped" / "window"


def stretch_of(problem: Problem, outlooks: Outlooks) -> Stretch:
    """A problem as the tables that a learned controller looks at."""
    duration_JCG = problem.known_misses.grid.duration_JCG
    known = problem.foreseen(outlooks)
    return Stretch(duration_JCG, *known, problem.ahead(outlooks), problem.actual_TJC, outlooks.horizon)


def moment_for(known: Stretch) -> Moment:
    H, J = known.stored, known.actual_TJC.shape[1]
    return Moment(
        np.zeros(H + 1),
        np.zeros(H, np.int64),
        np.zeros((H + 1, H)),
        np.zeros((H + 1, INPUTS)),
        np.zeros(J, np.int64),
    )


def network_of(checkpoint: Checkpoint) -> Network:
    if checkpoint.kind != KIND:
        raise InputError(f"{checkpoint.name} is a policy of kind {checkpoint.kind!r}", expected=f"one of kind {KIND!r}")
    return Network(*(np.ascontiguousarray(checkpoint.tensors[name], np.float64) for name in Network._fields))


def network_from(parameters: FloatArray, hidden: int = HIDDEN) -> Network:
    """A network of numbers behind one another: the plan's weight, then the layers."""
    cut = np.cumsum([1, hidden * INPUTS, hidden])
    plan, inner, bias_U, outer_U = np.split(parameters, cut)
    return Network(plan, np.ascontiguousarray(inner.reshape(hidden, INPUTS)), bias_U, outer_U)


def architecture(hidden: int = HIDDEN) -> Architecture:
    return Architecture(KIND, hidden=hidden)


@dataclass(frozen=True)
class LearnedWindows:
    """The controller of a checkpoint; looks at the futures that our planning controller looks at."""

    checkpoint: Path = SHIPPED
    window: int = ScenarioMpc.window
    """Supersteps looked ahead."""
    seed: int = 0
    """Draws the futures."""

    @property
    def name(self) -> str:
        return "learned" if self.checkpoint == SHIPPED else f"learned:{self.checkpoint}"

    def network(self) -> Network:
        nested = self.checkpoint / BEST
        return network_of(read_checkpoint(nested if is_checkpoint(nested) else self.checkpoint))

    def run(self, problem: Problem) -> Course:
        return course_of(self.network(), problem, ScenarioMpc(self.window, seed=self.seed).outlooks(problem))


def course_of(network: Network, problem: Problem, outlooks: Outlooks) -> Course:
    known, course = stretch_of(problem, outlooks), new_course(problem)
    action_T = np.zeros(problem.length, np.int64)
    run_learned(known, 0, problem.length, problem.penalty, network, moment_for(known), action_T)
    course.divided_T[:] = action_T > 0
    last_T = np.maximum.accumulate(np.where(action_T > 0, np.arange(problem.length), 0))
    course.unit_TJ[:] = known.unit_TQJ[last_T, action_T[last_T] - 1]
    follow_divisions(problem.actual_TJC, course)
    return course
