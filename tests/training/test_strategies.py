"""How an evolution chooses what to try next."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.workload import FloatArray
from pilotage.training.strategies import FURTHEST, Coordinates, Method, Slope, lowest_points, strategy_of

LOWEST = np.array([0.7, -0.4, 0.0, 1.5])
STEEPNESS = np.array([1.0, 30.0, 4.0, 0.3])
VALUES = st.floats(-1e6, 1e6)


def bowl(place: FloatArray) -> float:
    return float(STEEPNESS @ (place - LOWEST) ** 2)


@pytest.mark.parametrize("method", get_args(Method))
def test_the_bottom_of_a_bowl_is_found(method: Method) -> None:
    strategy = strategy_of(method, np.zeros(4), 0.1, 8, 3, 1 / np.sqrt(STEEPNESS))
    for _ in range(200):
        asked = strategy.ask()
        assert 2 < len(asked) <= 8
        strategy.tell(asked, [bowl(place) for place in asked])
    if method == "slope":  # its steps do not get smaller
        assert bowl(strategy.favourite) < 0.05
    else:
        assert strategy.favourite == pytest.approx(LOWEST, abs=0.02)
        assert strategy.spread < 0.1


def test_a_slope_is_found_in_noise_that_hides_every_step() -> None:
    """Fifty parameters; what one of them changes in a step is a fifth of the noise."""
    random, slope_P = np.random.default_rng(5), np.linspace(-1, 1, 50)
    strategy = Slope(np.zeros(50), np.full(50, 0.1), 1.0, 256, np.random.default_rng(1))
    asked = strategy.ask()
    strategy.tell(asked, [float(slope_P @ place) + random.normal() / 2 for place in asked])
    along = strategy.ask()[-1]
    assert slope_P @ along / np.linalg.norm(along) / np.linalg.norm(slope_P) < -0.6


def test_a_step_along_a_slope_that_other_seeds_do_not_confirm_is_taken_back() -> None:
    strategy = Slope(np.zeros(2), np.ones(2), 0.1, 8, np.random.default_rng(1))
    for better in (1.0, -1.0):  # what was lower is higher when it is tried again
        around = strategy.ask()
        assert strategy.in_pairs
        strategy.tell(around, [place.sum() for place in around])
        along = strategy.ask()
        assert not strategy.in_pairs
        assert not along[0].any(), "where it was before is one of them"
        strategy.tell(along, [better * place.sum() for place in along])
        assert not strategy.favourite.any(), "not yet confirmed; not confirmed"
    assert not strategy.place.any()


def test_parameters_without_a_step_stay_as_they_are() -> None:
    strategy = Slope(LOWEST, np.array([0.0, 1.0, 0.0, 1.0]), 0.1, 8, np.random.default_rng(1))
    for _ in range(4):
        asked = strategy.ask()
        assert all(place[[0, 2]].tolist() == LOWEST[[0, 2]].tolist() for place in asked)
        strategy.tell(asked, [bowl(place) for place in asked])


def test_a_slope_is_told_by_a_few_moves_that_change_something() -> None:
    strategy = Slope(np.zeros(2), np.ones(2), 0.1, 64, np.random.default_rng(1))
    asked = strategy.ask()
    strategy.tell(asked, [place[0] * (k % 32 < 8) for k, place in enumerate(asked)])
    assert strategy.ask()[-1][0] < 0


def test_where_nothing_changes_anything_it_stays() -> None:
    strategy = Slope(LOWEST, np.ones(4), 0.1, 8, np.random.default_rng(1))
    for _ in range(4):
        asked = strategy.ask()
        strategy.tell(asked, [1.0] * len(asked))
    assert strategy.favourite.tolist() == LOWEST.tolist()


def test_one_wild_value_does_not_make_the_slope() -> None:
    strategy = Slope(np.zeros(2), np.ones(2), 0.1, 64, np.random.default_rng(1))
    asked = strategy.ask()
    uphill = int(np.argmax([place[0] for place in asked]))
    strategy.tell(asked, [place[0] - 1e6 * (k == uphill) for k, place in enumerate(asked)])
    assert strategy.ask()[-1][0] < 0


@pytest.mark.parametrize("method", get_args(Method))
def test_the_first_favourite_is_the_start(method: Method) -> None:
    assert strategy_of(method, LOWEST, 0.1, 8, 0).favourite.tolist() == LOWEST.tolist()


def test_every_coordinate_has_its_turn_before_any_comes_again() -> None:
    strategy = Coordinates(np.zeros(7), 0.1, 7, np.random.default_rng(1))
    tried: list[int] = []
    while len(tried) < 14:
        asked = strategy.ask()
        moved = [int(np.flatnonzero(place - strategy.place).item()) for place in asked[3:]]
        assert moved[::2] == moved[1::2], "a step up, a step down"
        tried += moved[::2]
        strategy.tell(asked, [0.0] * len(asked))
    assert sorted(tried[:7]) == sorted(tried[7:]) == [*range(7)]


def test_what_other_workloads_do_not_confirm_is_taken_back() -> None:
    strategy = Coordinates(np.zeros(2), 0.1, 7, np.random.default_rng(1))
    asked = strategy.ask()
    strategy.tell(asked, [place.sum() for place in asked])
    assert (strategy.place < 0).all()
    assert not strategy.favourite.any(), "not yet confirmed"
    asked = strategy.ask()
    strategy.tell(asked, [-place.sum() for place in asked])
    assert not strategy.favourite.any()
    assert (strategy.place > 0).all(), "from the place before, up"


def test_half_of_a_move_may_be_better() -> None:
    strategy = Coordinates(np.zeros(2), 0.1, 7, np.random.default_rng(1))
    asked = strategy.ask()
    strategy.tell(asked, [place.sum() for place in asked])
    asked = strategy.ask()
    strategy.tell(asked, [0.0, -1.0, 1.0, *[1.0] * 4])
    assert strategy.favourite == pytest.approx([-0.075, -0.075])


def test_what_they_confirm_is_the_new_favourite() -> None:
    strategy = Coordinates(np.zeros(2), 0.1, 7, np.random.default_rng(1))
    for _ in range(2):
        asked = strategy.ask()
        strategy.tell(asked, [place.sum() for place in asked])
    assert strategy.favourite == pytest.approx([-0.15, -0.15])


@pytest.mark.parametrize(
    ("down", "here", "up", "lowest"),
    [(1, 0, 1, 0), (3, 1, 1, 0.5), (1, 1, 3, -0.5), (2, 1, 0, FURTHEST), (0, 1, 0.5, -FURTHEST), (1, 1, 1, 0)],
)
def test_lowest_point_of_a_parabola(down: float, here: float, up: float, lowest: float) -> None:
    assert lowest_points(np.array([down]), here, np.array([up])).tolist() == pytest.approx([lowest])


@given(st.floats(-1.4, 1.4), st.floats(0.01, 100), VALUES)
def test_parabolas_with_the_lowest_point_within_reach(lowest: float, steepness: float, level: float) -> None:
    down, here, up = (steepness * (x - lowest) ** 2 + level * 1e-6 for x in (-1, 0, 1))
    assert lowest_points(np.array([down]), here, np.array([up])).item() == pytest.approx(lowest, abs=1e-3)


@given(VALUES, VALUES, VALUES)
def test_no_coordinate_is_moved_too_far_or_uphill(down: float, here: float, up: float) -> None:
    moved = lowest_points(np.array([down]), here, np.array([up])).item()
    assert abs(moved) <= FURTHEST
    assert moved * (up - down) <= 0
