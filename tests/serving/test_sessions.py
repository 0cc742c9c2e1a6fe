"""Sessions end: after their time, and when others push them out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pilotage.model.clock import VirtualClock
from pilotage.serving.callers import SESSION_SECONDS, SESSIONS_KEPT
from pilotage.serving.run import Serving
from serving.services import a_question, a_service, a_state, ask, numbered, scores_of

NAMES = [f"session-{n}" for n in range(SESSIONS_KEPT)]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def service(clock: VirtualClock) -> Iterator[Serving]:
    with a_service(clock=clock) as serving:
        yield serving


def score(service: Serving, session: str, *, tell: bool) -> tuple[int, Any]:
    """About two nodes by number; b has more room."""
    states = {"a": a_state(used=4000), "b": a_state(used=1000)}
    told = [
        {"number": n, "name": name, "generation": 1, "state": state} for n, (name, state) in enumerate(states.items())
    ]
    candidates = numbered((0, 1), (1, 1), told=told if tell else [])
    return ask(service, "/v1/score", a_question(candidates, session=session))


def test_after_its_time_a_session_is_told_everything_again(service: Serving, clock: VirtualClock) -> None:
    assert scores_of(score(service, "one", tell=True)[1]) == [0, 100]
    clock.seconds += SESSION_SECONDS - 1
    assert scores_of(score(service, "one", tell=False)[1]) == [0, 100]
    clock.seconds += 1
    status, answer = score(service, "one", tell=False)
    assert (status, answer["reason"], answer["unknown"]) == (409, "unknown-generation", [0, 1])
    status, answer = score(service, "one", tell=True)
    assert (status, scores_of(answer)) == (200, [0, 100])
    clock.seconds += SESSION_SECONDS - 1  # its time begins anew
    assert score(service, "one", tell=False)[0] == 200


def test_one_session_more_than_are_kept_pushes_out_the_one_used_longest_ago(service: Serving) -> None:
    for name in NAMES:
        assert score(service, name, tell=True)[0] == 200
    assert score(service, NAMES[0], tell=False)[0] == 200  # so the second was used longest ago
    assert score(service, "one more", tell=True)[0] == 200
    assert len(service.sessions) == SESSIONS_KEPT
    assert [score(service, name, tell=False)[0] for name in (NAMES[0], *NAMES[2:], "one more")] == [200] * SESSIONS_KEPT
    assert score(service, NAMES[1], tell=False)[0] == 409


def test_a_session_that_began_anew_was_used_last(service: Serving, clock: VirtualClock) -> None:
    """It took the place of the one that had expired, and was pushed out first."""
    for name in NAMES:
        score(service, name, tell=True)
    clock.seconds += SESSION_SECONDS
    assert score(service, NAMES[0], tell=True)[0] == 200
    assert score(service, "one more", tell=True)[0] == 200
    assert score(service, NAMES[0], tell=False)[0] == 200
