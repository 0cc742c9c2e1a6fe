"""Functions of what is left on a device."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.policies.leftover_prices import BELOW_FULL, FUNCTIONS, leftover_functions, packing_prices
from reference.strategies import checked

mixes = st.dictionaries(st.integers(20, 980), st.integers(1, 400), min_size=1, max_size=6)


def rows_of(sizes: dict[int, int], whole: int) -> dict[str, list[float]]:
    found = leftover_functions(tuple(sizes), tuple(sizes.values()), whole)
    return dict(zip(FUNCTIONS, found.tolist(), strict=True))


@given(mixes, st.integers(0, 500))
@checked(15)
def test_prices_rise_with_what_is_left_from_nothing(sizes: dict[int, int], whole: int) -> None:
    ordered = dict(sorted(sizes.items()))
    rows = rows_of(ordered, whole)
    for percent in BELOW_FULL:
        price = np.array(rows[f"packing_price_{percent}"])
        assert price[0] == 0.0
        assert (np.diff(price) >= -1e-9).all()
        assert price[min(ordered) - 1] == 0.0, "less than the smallest pod is worth nothing"


@given(mixes)
@checked(15)
def test_waste_is_what_no_pod_can_use(sizes: dict[int, int]) -> None:
    ordered = dict(sorted(sizes.items()))
    rows = rows_of(ordered, 100)
    smallest = min(ordered)
    assert rows["waste_of_random_filling"][smallest - 1] == pytest.approx((smallest - 1) / 1000)
    assert rows["waste_of_random_filling"][smallest] == pytest.approx(0.0)
    assert rows["pods_that_fit"][1000] == pytest.approx(1.0)
    assert rows["pods_that_fit"][smallest - 1] == 0.0


def test_best_filling_leaves_what_no_set_of_frequent_sizes_fills() -> None:
    rows = rows_of({300: 50, 450: 50}, 0)
    waste = rows["waste_of_best_filling"]
    assert waste[299] == pytest.approx(0.299)
    assert waste[750] == pytest.approx(0.0)  # 300 + 450
    assert waste[1000] == pytest.approx(0.1)  # three of 300, or two of 450
    assert waste[600] == pytest.approx(0.0)


def test_an_awkward_size_makes_its_rest_cheap() -> None:
    """Where nearly all pods take 810 milli, the 190 left are worth less than their size; a whole device more."""
    sizes = np.array([100, 810])
    price = packing_prices(sizes, np.array([10, 1000]), 50)[0]
    assert price[190] < 0.19
    assert price[810] > 2 * price[190]


def test_a_workload_without_shares_prices_whole_devices_alone() -> None:
    rows = rows_of({}, 100)
    assert rows["packing_price_2"][1000] == 1.0
    assert rows["packing_price_2"][999] == 0.0


def test_what_is_usable_weighs_the_gpu_that_pods_ask_for() -> None:
    """One GPU in halves and three whole ones: a half left serves a quarter of what is asked for."""
    usable = rows_of({500: 2}, 3)["usable"]
    assert (usable[499], usable[500], usable[1000]) == pytest.approx((0.0, 0.5 * 0.25, 1.0))


def test_the_same_mix_gives_the_same_prices() -> None:
    sizes, pods = np.array([120, 470, 810]), np.array([30, 70, 100])
    assert np.array_equal(packing_prices(sizes, pods, 40), packing_prices(sizes, pods, 40))
