"""What chance and heuristics reach."""

from __future__ import annotations

import numpy as np
import pytest

from pilotage.envs.reference import HEURISTICS, RETURN, play, policy_choice, random_choice, reference
from pilotage.envs.settings import EnvSettings
from pilotage.kernels.env_state import FIGURES
from pilotage.policies.registry import find_policy

SEEDS = range(20)


@pytest.mark.parametrize("name", HEURISTICS)
def test_the_heuristic_is_ahead_of_chance(name: str) -> None:
    found = reference(EnvSettings.of(name), SEEDS)
    assert found.greedy > found.random
    assert found.policy.partition("@")[0] in HEURISTICS[name]
    assert found.normalised(found.random) == 0.0
    assert found.normalised(found.greedy) == 1.0
    assert found.greedy_BM[:, FIGURES.index("seed")].tolist() == [*SEEDS]


def test_least_allocated_balances_the_uniform_workload() -> None:
    figures_BM = play(EnvSettings(), SEEDS, policy_choice(find_policy("least-allocated"), EnvSettings()))
    assert figures_BM[:, FIGURES.index("cpu_variance")].max() < 1e-9


def test_a_normalised_sum_is_normalised_over_the_candidates() -> None:
    settings = EnvSettings.of("packing", nodes=(6, 6))
    chosen = [play(settings, SEEDS, policy_choice(find_policy(name), settings)) for name in ("best-fit", "random")]
    assert chosen[0][:, RETURN].mean() > chosen[1][:, RETURN].mean()


def test_random_choices_depend_on_the_seed_alone() -> None:
    played = [play(EnvSettings(), SEEDS, random_choice(seed)) for seed in (1, 1, 2)]
    assert np.array_equal(played[0], played[1])
    assert not np.array_equal(played[0], played[2])
