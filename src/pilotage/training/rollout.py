"""Some steps of all clusters in a row, and how much better each decision was than expected."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from pilotage.training.clusters import Clusters
from pilotage.training.observation import Observation, Random, drawn, stacked


class Rollout(NamedTuple):
    """T steps of B clusters."""

    observation_TB: Observation
    action_TB: Tensor
    log_probability_TB: Tensor  # of the action, when it was taken
    value_TB: Tensor
    reward_TB: Tensor
    done_TB: Tensor
    last_value_B: Tensor  # of what follows


@torch.no_grad()
def collect(clusters: Clusters, actor: nn.Module, critic: nn.Module, steps: int, random: Random) -> Rollout:
    """Plays `steps` steps, each decision drawn from the actor's probabilities."""
    seen, taken, values, rewards, ends = [], [], [], [], []
    for _ in range(steps):
        observation = clusters.observe()
        logits_BN = actor(*observation)
        action_B = drawn(logits_BN, random)
        reward_B, done_B = clusters.step(action_B)
        seen.append(observation)
        taken.append((action_B, log_probability(logits_BN, action_B)))
        values.append(critic(*observation))
        rewards.append(reward_B)
        ends.append(done_B)
    last_value_B = critic(*clusters.observe())
    actions, log_probabilities = zip(*taken, strict=True)
    return Rollout(
        stacked(seen),
        torch.stack(actions),
        torch.stack(log_probabilities),
        torch.stack(values),
        torch.stack(rewards) * clusters.reward_scale,
        torch.stack(ends),
        last_value_B,
    )


def log_probability(logits_BN: Tensor, action_B: Tensor) -> Tensor:
    return torch.log_softmax(logits_BN, dim=-1).gather(-1, action_B[..., None])[..., 0]


def entropy(logits_BN: Tensor) -> Tensor:
    """Of each decision. Nodes that are no candidates have no part in it: their probability is 0, their logit finite."""
    log_BN = torch.log_softmax(logits_BN, dim=-1)
    return -(log_BN.exp() * log_BN).sum(dim=-1)


def advantages(rollout: Rollout, gamma: float, gae_lambda: float) -> Tensor:
    """Generalised advantage estimates: sums of gamma lambda-weighted temporal differences within an episode."""
    advantage_TB = torch.zeros_like(rollout.reward_TB)
    following_B, value_after_B = torch.zeros_like(rollout.last_value_B), rollout.last_value_B
    for t in reversed(range(len(advantage_TB))):
        goes_on_B = (~rollout.done_TB[t]).float()
        difference_B = rollout.reward_TB[t] + gamma * goes_on_B * value_after_B - rollout.value_TB[t]
        following_B = difference_B + gamma * gae_lambda * goes_on_B * following_B
        advantage_TB[t], value_after_B = following_B, rollout.value_TB[t]
    return advantage_TB


def normalised(advantage: Tensor) -> Tensor:
    return (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
