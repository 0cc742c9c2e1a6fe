"""The newest decisions, and what followed each."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.errors import InputError
from pilotage.training.observation import Observation, Random
from pilotage.training.replay import Replay


def observation(t: int, copies: int) -> Observation:
    """One that tells its time and its cluster."""
    rows = torch.stack([torch.full((2, 3), float(100 * t + b)) for b in range(copies)])
    places = torch.full((copies, 2), t)
    return Observation(rows, torch.ones(copies, 2, dtype=torch.bool), places, places)


def filled(decisions: int, copies: int, rows: int, batch: int = 1) -> Replay:
    replay = Replay(decisions, batch, observation(0, copies))
    for t in range(rows):
        b = torch.arange(copies)
        replay.add(observation(t, copies), 100 * t + b, (100.0 * t + b), (t + b) % 3 == 0)
    return replay


@given(decisions=st.integers(1, 30), copies=st.integers(1, 4), rows=st.integers(2, 25), seed=st.integers(0, 99))
def test_what_is_drawn_belongs_together(decisions: int, copies: int, rows: int, seed: int) -> None:
    replay = filled(decisions, copies, rows, batch=copies)
    drawn = replay.draw(Random(seed))
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
    replay = filled(12, 3, 9, batch=9)
    assert len(replay) == 9
    random = Random(1)
    drawn = {action for _ in range(50) for action in replay.draw(random).action_B.tolist()}
    assert drawn == {100 * t + b for t in (5, 6, 7) for b in range(3)}


def test_a_saved_one_draws_the_same() -> None:
    replay, other = filled(12, 3, 9, batch=9), filled(12, 3, 2, batch=9)
    assert (replay.ready, other.ready) == (True, False)
    other.load_state_dict(replay.state_dict())
    one, two = replay.draw(Random(5)), other.draw(Random(5))
    assert torch.equal(one.action_B, two.action_B)
    assert all(torch.equal(a, b) for a, b in zip(one.after, two.after, strict=True))


@pytest.mark.parametrize(("decisions", "batch", "least"), [(6, 5, 9), (3, 4, 9), (1, 100, 105)])
def test_a_buffer_that_never_holds_a_batch_is_refused(decisions: int, batch: int, least: int) -> None:
    """Else nothing would be learned, and nobody would be told."""
    with pytest.raises(InputError, match=f"--buffer.*at least {least}"):
        filled(decisions, 3, 1, batch)
    assert not filled(least, 3, 1, batch).ready
