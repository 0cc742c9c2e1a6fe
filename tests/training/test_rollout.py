"""Advantages, probabilities and entropy against their definitions in plain Python."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pilotage.training.networks import NO_CANDIDATE
from pilotage.training.observation import Observation, Random, best, drawn, uniform
from pilotage.training.rollout import Rollout, advantages, entropy, log_probability, normalised

NOTHING = Observation(*(torch.zeros(0) for _ in range(4)))


def slow_advantage(
    rewards: list[float], values: list[float], ends: list[bool], last: float, gamma: float, trace: float
) -> list[float]:
    """By the sum: A(t) = sum over k of (gamma lambda)^k delta(t + k), up to the end of the episode."""
    after = [*values[1:], last]
    deltas = [r + (0 if e else gamma * w) - v for r, v, w, e in zip(rewards, values, after, ends, strict=True)]
    found = []
    for t in range(len(rewards)):
        total = 0.0
        for k in range(t, len(rewards)):
            total += (gamma * trace) ** (k - t) * deltas[k]
            if ends[k]:
                break
        found.append(total)
    return found


numbers = st.floats(-3, 3, width=32)


@given(
    steps=st.lists(st.tuples(numbers, numbers, st.booleans()), min_size=1, max_size=8),
    last=numbers,
    gamma=st.floats(0, 1),
    trace=st.floats(0, 1),
)
def test_advantages(steps: list[tuple[float, float, bool]], last: float, gamma: float, trace: float) -> None:
    rewards, values, ends = (list(column) for column in zip(*steps, strict=True))
    nothing = torch.zeros(0)
    rollout = Rollout(
        NOTHING,
        nothing,
        nothing,
        torch.tensor(values)[:, None],
        torch.tensor(rewards)[:, None],
        torch.tensor(ends)[:, None],
        torch.tensor([last]),
    )
    found = advantages(rollout, gamma, trace)[:, 0].tolist()
    assert found == pytest.approx(slow_advantage(rewards, values, ends, last, gamma, trace), abs=1e-4)


def test_probabilities_are_those_of_the_candidates() -> None:
    logits = torch.tensor([[1.0, NO_CANDIDATE, 2.0]])
    low, high = (math.exp(x) / (math.exp(1) + math.exp(2)) for x in (1, 2))
    assert log_probability(logits, torch.tensor([2])).item() == pytest.approx(math.log(high))
    assert entropy(logits).item() == pytest.approx(-low * math.log(low) - high * math.log(high))


def test_entropy_has_finite_gradients_where_nodes_are_no_candidates() -> None:
    weights = torch.tensor([[1.0, 5.0, 2.0]], requires_grad=True)
    mask = torch.tensor([[True, False, True]])
    entropy(weights.masked_fill(~mask, NO_CANDIDATE)).sum().backward()  # type: ignore[no-untyped-call]
    assert weights.grad is not None
    assert weights.grad.isfinite().all()
    assert weights.grad[0, 1] == 0


@given(seed=st.integers(0, 1000), mask=st.lists(st.booleans(), min_size=1, max_size=6).filter(any))
def test_only_candidates_are_chosen(seed: int, mask: list[bool]) -> None:
    random, mask_BN = Random(seed), torch.tensor([mask])
    scores_BN = torch.randn(1, len(mask), generator=random.generator).masked_fill(~mask_BN, NO_CANDIDATE)
    for chosen in (best(scores_BN), drawn(scores_BN, random), uniform(mask_BN, random)):
        assert mask[int(chosen)]


def test_the_first_of_equals_is_best() -> None:
    assert best(torch.tensor([[NO_CANDIDATE, 1.0, 1.0], [0.0, 0.0, 0.0]])).tolist() == [1, 0]


def test_normalised_advantages() -> None:
    found = normalised(torch.tensor([1.0, 2.0, 6.0]))
    assert found.mean().item() == pytest.approx(0, abs=1e-6)
    assert found.std(correction=0).item() == pytest.approx(1)
    assert torch.equal(normalised(torch.zeros(3)), torch.zeros(3))
