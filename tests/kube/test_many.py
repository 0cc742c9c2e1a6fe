"""Several things at once."""

from __future__ import annotations

import asyncio

import pytest

from pilotage.kube.many import for_each, together


def test_the_first_error_ends_the_others_and_is_raised() -> None:
    ended: list[str] = []

    async def patient() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("patient")

    async def failing() -> None:
        await asyncio.sleep(0)
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        asyncio.run(together(patient(), failing()))
    assert ended == ["patient"]


def test_items_are_done_in_their_order_a_few_at_a_time() -> None:
    begun: list[int] = []
    at_once = most = 0

    async def one(item: int) -> None:
        nonlocal at_once, most
        begun.append(item)
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1

    done: list[tuple[int, int]] = []
    asyncio.run(for_each(range(7), one, lambda *told: done.append(told), at_once=3))
    assert (begun, most) == ([*range(7)], 3)
    assert done == [(number, 7) for number in range(1, 8)]
