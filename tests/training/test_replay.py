"""The newest decisions, and what followed each."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from pilotage.training.observation import Observation, Random
from pilotage.training.replay import Replay


def observation(t: int, copies: int) -> Observation:
    """One that tells its time and its cluster."""
    rows = torch.stack([torch.full((2, 3), float(100 * t + b)) for b in range(copies)])
    places = torch.full((copies, 2), t)
    return Observation(rows, torch.ones(copies, 2, dtype=torch.bool), places, places)


def filled(decisions: int, copies: int, rows: int) -> Replay:
    replay = Replay(decisions, observation(0, copies))
    for t in range(rows):
        b = torch.arange(copies)
        replay.add(observation(t, copies), 100 * t + b, (100.0 * t + b), (t + b) % 3 == 0)
    return replay


@given(decisions=st.integers(1, 30), copies=st.integers(1, 4), rows=st.integers(2, 25), seed=st.integers(0, 99))
def test_what_is_drawn_belongs_together(decisions: int, copies: int, rows: int, seed: int) -> None:
    replay = filled(decisions, copies, rows)
    drawn = replay.draw(40, Random(seed))
    seen = drawn.observation.rows_BNI[:, 0, 0]
    assert torch.equal(drawn.action_B.float(), seen)
    assert torch.equal(drawn.reward_B, seen)
    assert torch.equal(drawn.after.rows_BNI[:, 0, 0], seen + 100)
    t, b = seen // 100, seen % 100
    assert torch.equal(drawn.done_B, (t + b) % 3 == 0)
    kept = max(2, -(-decisions // copies))
    assert t.min() >= rows - kept
    assert t.max() <= rows - 2, "the newest has no next one"


def test_all_that_can_be_drawn_comes_up() -> None:
    replay = filled(12, 3, 9)
    assert len(replay) == 9
    assert set(replay.draw(500, Random(1)).action_B.tolist()) == {100 * t + b for t in (5, 6, 7) for b in range(3)}


def test_a_saved_one_draws_the_same() -> None:
    replay, other = filled(12, 3, 9), filled(12, 3, 2)
    other.load_state_dict(replay.state_dict())
    one, two = replay.draw(50, Random(5)), other.draw(50, Random(5))
    assert torch.equal(one.action_B, two.action_B)
    assert all(torch.equal(a, b) for a, b in zip(one.after, two.after, strict=True))
