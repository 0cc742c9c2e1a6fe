"""A recording to learn from: most of its decisions are shown, every tenth is kept for validation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.training.demonstrations import Demonstrations, read_demonstrations
from pilotage.training.observation import Observation, Random, best
from pilotage.training.settings import ImitationSettings
from pilotage.workloads import openb
from pilotage.workloads.trace import TABLE_SUFFIX, load_trace

HELD_OUT = 10  # one in so many


class Recording:
    """Draws from the decisions that are shown."""

    def __init__(self, settings: ImitationSettings) -> None:
        everything = demonstrations_of(settings)
        shown = torch.arange(len(everything)) % HELD_OUT != HELD_OUT - 1
        self.observation, self.action_B = everything.observation.at(shown), everything.action_B[shown]
        self.digest = everything.digest
        self.steps = 0

    def draw(self, decisions: int, random: Random) -> tuple[Observation, Tensor]:
        chosen = torch.randint(len(self.action_B), (decisions,), generator=random.generator)
        self.steps += decisions
        return self.observation.at(chosen), self.action_B[chosen]

    def take_figures(self) -> dict[str, float]:
        return {}

    def take_actions(self) -> Tensor:
        return self.action_B[:0]

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "digest": self.digest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state.get("digest", self.digest) != self.digest:
            raise InputError("the recording has changed since the training began")
        self.steps = state["steps"]


class Agreement:
    """How likely, and how often, a scorer chooses the recorded node in decisions it was not shown."""

    decides = "log_likelihood"

    def __init__(self, settings: ImitationSettings) -> None:
        everything = demonstrations_of(settings)
        kept = torch.arange(len(everything)) % HELD_OUT == HELD_OUT - 1
        self.observation, self.action_B = everything.observation.at(kept), everything.action_B[kept]
        self.data, self.data_hash = "recorded decisions", everything.digest
        self.seeds_used: dict[str, object] = {"settings": settings.seed}  # no environment is played

    @torch.no_grad()
    def measure(self, scorer: nn.Module) -> dict[str, float]:
        scores_BN = scorer(*self.observation)
        agreement = (best(scores_BN) == self.action_B).float().mean()
        return {"log_likelihood": -float(cross_entropy(scores_BN, self.action_B)), "agreement": float(agreement)}

    def references(self) -> dict[str, dict[str, float]]:
        candidates_B = self.observation.mask_BN.sum(dim=-1).float()
        log_likelihood, agreement = -candidates_B.log().mean(), (1 / candidates_B).mean()
        return {"random": {"log_likelihood": float(log_likelihood), "agreement": float(agreement)}}


def demonstrations_of(settings: ImitationSettings) -> Demonstrations:
    if not settings.recorded_nodes:
        raise InputError("is missing", field="--recorded-nodes", expected="the nodes the recording was made on")
    nodes = _nodes(settings.recorded_nodes)
    found = read_demonstrations(Path(settings.decisions), nodes, settings.candidates, settings.seed)
    if len(found) < HELD_OUT:
        raise InputError(f"has {len(found)} decisions", file=settings.decisions, expected=f"at least {HELD_OUT}")
    return found


def _nodes(text: str) -> tuple[Node, ...]:
    """Of a file, or of a shipped trace by name."""
    path = Path(text)
    if not path.exists():
        return load_trace(name=text).nodes
    if path.suffix == TABLE_SUFFIX:
        return openb.read_nodes(path)
    from pilotage.workloads.manifests import read_manifests

    return read_manifests(path)[0]
