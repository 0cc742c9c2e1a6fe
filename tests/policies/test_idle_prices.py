"""What idle devices are worth to pods with several."""

from __future__ import annotations

import pytest

from pilotage.policies.idle_prices import FUNCTIONS, idle_functions


def test_three_idle_devices_for_pods_with_three() -> None:
    found = dict(zip(FUNCTIONS, idle_functions((3,), (1.0,)), strict=True))
    assert found["fits"][:5].tolist() == [0, 0, 0, 1, 1]
    assert [8 * waste for waste in found["waste_of_best_filling"][:7]] == [0, 1, 2, 0, 1, 2, 0]


def test_random_filling_weighs_pods_not_devices() -> None:
    """Half of the GPU in pods of two and half in pods of four: two of three pods have two devices."""
    found = dict(zip(FUNCTIONS, idle_functions((2, 4), (0.5, 0.5)), strict=True))
    assert found["fits"][:5].tolist() == [0, 0, 0.5, 0.5, 1]
    assert 8 * found["waste_of_random_filling"][5] == pytest.approx(1)
    assert found["waste_of_random_filling"][4] == 0


def test_no_such_pods_no_worth() -> None:
    assert not idle_functions((), ())[1:].any()
