"""Seed ranges: apart from each other, and told as people write them."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.sim.scenario import parse_seeds
from pilotage.sim.seeds import RANGES, REPORTED, TEST, by_range, range_of, seeds_text


def test_ranges_share_no_seed() -> None:
    for one, other in combinations(RANGES.values(), 2):
        assert not range(max(one.start, other.start), min(one.stop, other.stop))
    assert set(REPORTED) <= set(TEST)


@pytest.mark.parametrize(
    ("seed", "name"),
    [
        (0, "test"),
        (9_999, "test"),
        (10_000, "training"),
        (899_999, "training"),
        (900_000, "validation"),
        (999_999, "validation"),
        (1_000_000, "outside"),
    ],
)
def test_the_range_of_a_seed(seed: int, name: str) -> None:
    assert range_of(seed) == name


def test_seeds_by_range() -> None:
    assert by_range((42, 10_000, 43, 2_000_000)) == {"test": (42, 43), "training": (10_000,), "outside": (2_000_000,)}


@given(st.sets(st.integers(0, 200), min_size=1))
def test_what_is_told_can_be_read_again(seeds: set[int]) -> None:
    assert parse_seeds(seeds_text(seeds)) == tuple(sorted(seeds))
