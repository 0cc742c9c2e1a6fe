"""Steps of parameters that matter equally."""

from __future__ import annotations

import numpy as np
import pytest

from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies.priced import Priced, parts_of
from pilotage.sim.seeds import TRAINING
from pilotage.sim.specs import TraceSource
from pilotage.training.evolution import EvolutionSettings
from pilotage.training.evolution_start import start_parameters
from pilotage.training.steps import telling_steps
from pilotage.training.trials import stage_of

SOURCE = TraceSource(name="varied-10000")
START, SEARCHED = start_parameters("pilotage-pack", "packing"), EvolutionSettings().searched()


@pytest.fixture(scope="module")
def steps() -> FloatArray:
    return telling_steps(START, SEARCHED, [SOURCE], 1.3)


def places(parameters: FloatArray) -> IntArray:
    stage = stage_of(SOURCE.load(), 1.3, TRAINING[0])
    ready = Priced("moved@1", parameters).priced_by(stage.facts)
    return stage.filling.filled(ready.rules, ready.device_rule).progress.node_P


def test_pods_go_elsewhere_when_a_parameter_is_moved_by_its_step(steps: FloatArray) -> None:
    here, moved = places(START), np.flatnonzero(steps)
    assert len(moved) > 20
    for p in moved[:: len(moved) // 8]:
        step = np.zeros(len(START))
        step[p] = 2 * steps[p]
        up, down, hardly = ((places(START + times * step) != here).mean() for times in (1, -1, 1e-7))
        assert max(up, down) > hardly, f"parameter {p}"


def test_parameters_that_change_nothing_are_not_moved(steps: FloatArray) -> None:
    assert not steps[~SEARCHED].any()
    scarcity = stage_of(SOURCE.load(), 1.3, TRAINING[0]).facts.scarcity
    assert scarcity == 0.0
    assert not any(part.any() for name, part in parts_of(steps).items() if "scarce" in name)


def test_of_several_workloads_the_smallest_step_counts(steps: FloatArray) -> None:
    both = telling_steps(START, SEARCHED, [SOURCE, TraceSource(name="varied-10001")], 1.3)
    assert (both[steps > 0] <= steps[steps > 0]).all()
    assert (both[steps > 0] > 0).all()
