"""Figures of the service."""

from __future__ import annotations

import asyncio

import uvloop

from pilotage.model.clock import SystemClock
from pilotage.serving.run import Serving, Settings
from serving.services import a_question, a_state, post


def test_durations_are_finer_than_milliseconds() -> None:
    """In the loop that `pilotage serve` uses, whose own clock is not."""
    asked = a_question([{"name": "a", "state": a_state()}])

    async def milliseconds() -> float:
        async with Serving(Settings(policies=("least-allocated",), port=0), SystemClock()).running() as serving:
            assert (await post(f"http://127.0.0.1:{serving.port}/v1/score", asked))[0] == 200
            spent = serving.metrics.registry.get_sample_value(
                "pilotage_serve_request_duration_seconds_sum", {"verb": "score"}
            )
            return 1000 * (spent or 0.0)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(milliseconds())
    assert abs(found - round(found)) > 1e-6
