"""What moving pods gained: each policy against itself, by seed."""

from __future__ import annotations

import pytest

from pilotage.report.gains import gain_words, gains_of, gains_table
from pilotage.report.section import sections_of
from pilotage.sim.compare import Outcome


def test_a_policy_is_compared_with_itself_by_seed(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["gangs"]
    section = sections_of(outcome)[0]
    found = {gain.saving.baseline: gain for gain in gains_of(section)}
    assert list(found) == ["fgd@1", "1*fgd@1+0.2*gang-locality@1"]
    for plain, gain in found.items():
        runs = {(run.policy, run.seed): run for run in outcome.runs}
        moved = f"{plain} +fragOnePod"
        differences = [
            runs[moved, seed].gpu_allocation_percent - runs[plain, seed].gpu_allocation_percent for seed in (1, 2)
        ]
        assert gain.saving.amount == pytest.approx(sum(differences) / 2 * section.gpus / 100)
        assert gain.saving.low is not None
        assert gain.saving.low < gain.saving.amount
        assert gain.moved_pods == sum(runs[moved, seed].moved_pods or 0 for seed in (1, 2)) / 2 > 0
        assert gain.moved_gpu_hours is not None
        assert gain.moved_gpu_hours > 0
        assert gain_words(gain).startswith(f"{moved} against {plain}: ")


def test_nothing_is_said_where_nothing_was_moved(outcomes: dict[str, Outcome]) -> None:
    section = sections_of(outcomes["loads"])[0]
    assert gains_of(section) == []
    assert gains_table(section) == ""
