"""Means and intervals, against figures of a table of Student's t."""

from __future__ import annotations

import math

import pytest

from pilotage.sim.statistics import interval, t_quantile, t_within


def test_the_interval_is_students() -> None:
    # Standard deviation 1, n = 3: 4.3027 / sqrt(3).
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-5)
    assert found.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-5)


def test_equal_values_have_an_interval_of_no_width() -> None:
    found = interval([5.0, 5.0])
    assert (found.low, found.mean, found.high) == (5.0, 5.0, 5.0)


def test_one_value_has_no_interval() -> None:
    found = interval([4.0])
    assert (found.mean, found.low, found.high) == (4.0, None, None)


@pytest.mark.parametrize("probability", [0.95, 0.975, 0.995])
def test_quantiles_are_those_of_scipy(probability: float) -> None:
    special = pytest.importorskip("scipy.special")
    found = [t_quantile(probability, freedom) for freedom in range(1, 1001)]
    assert found == pytest.approx(special.stdtrit(range(1, 1001), probability).tolist(), rel=1e-12)


def test_quantiles_where_there_is_a_formula() -> None:
    assert t_quantile(0.975, 1) == pytest.approx(math.tan(math.pi * 0.475), rel=1e-14)
    assert t_quantile(0.75, 2) == pytest.approx(math.sqrt(2 / 3), rel=1e-14)
    assert t_within(t_quantile(0.975, 2001), 2001) == pytest.approx(0.95, rel=1e-12)
