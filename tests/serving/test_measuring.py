"""The benchmark of the service."""

from __future__ import annotations

import asyncio
from multiprocessing.connection import Connection

import pytest

from pilotage.model.errors import PilotageError
from pilotage.serving import measuring


@pytest.mark.parametrize(("most", "found"), [(1000.0, 976.6), (400.0, 400.0), (399.0, 320.0), (1.0, 1.0), (0.1, 0.0)])
def test_the_highest_rate_that_is_borne_is_found_from_above_and_from_below(most: float, found: float) -> None:
    async def bears(rate: float, seconds: float) -> bool:
        return rate <= most

    assert round(asyncio.run(measuring._highest_rate(bears, 400.0, 1.0)), 1) == found


def ends_at_once(nodes: int, policy: str, pipe: Connection) -> None:
    """In the place of a service."""


def test_a_service_that_ends_before_it_listens_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the pipe was never seen: the benchmark hung."""
    monkeypatch.setattr(measuring, "_serve", ends_at_once)
    with pytest.raises(measuring.NotStartedError, match="ended before"), measuring.a_process(1, "fgd"):
        pass


def test_a_policy_that_is_none_is_said_before_a_process_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.get_context", lambda kind: pytest.fail("a process"))
    with pytest.raises(PilotageError, match="nope") as found, measuring.a_process(1, "nope"):
        pass
    assert found.value.exit_code == 2
