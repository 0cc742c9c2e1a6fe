"""The benchmark of the service."""

from __future__ import annotations

import asyncio

import pytest

from pilotage.serving import measuring


@pytest.mark.parametrize(("most", "found"), [(1000.0, 976.6), (400.0, 400.0), (399.0, 320.0), (1.0, 1.0), (0.1, 0.0)])
def test_the_highest_rate_that_is_borne_is_found_from_above_and_from_below(most: float, found: float) -> None:
    async def bears(rate: float, seconds: float) -> bool:
        return rate <= most

    assert round(asyncio.run(measuring._highest_rate(bears, 400.0, 1.0)), 1) == found
