"""The training loop, the same for all agents: advance, validate, keep the best, save, go on or end."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import torch

from pilotage.model.errors import InputError
from pilotage.policies.checkpoints import Origin, write_checkpoint
from pilotage.training.algorithms import make_learner, make_validation
from pilotage.training.events import Events, open_events
from pilotage.training.export import checkpoint_of
from pilotage.training.run_directory import RunDirectory
from pilotage.training.state import read_state, write_state


class Update(NamedTuple):
    """For who watches: how far it is, and the newest validation."""

    steps: int
    of: int
    score: float
    best: float


@dataclass
class Progress:
    """What the loop itself remembers; saved with the learner."""

    rows: list[dict[str, float]] = field(default_factory=list)  # of the curve
    best: float = -float("inf")
    best_step: int = 0
    without_better: int = 0  # validations since


def train(run: RunDirectory, watch: Callable[[Update], None]) -> dict[str, object]:
    """Carries a run to its end, from its newest state if it has one. Returns (and writes) the summary."""
    torch.set_num_threads(run.settings.threads)
    torch.use_deterministic_algorithms(True)
    with run.log() as log:
        training = Training(run, watch, log)
        with open_events(run.events, training.first_event) as events:
            training.to_the_end(events)
        return training.summary()


class Training:
    """One run, from its first validation to its last."""

    def __init__(self, run: RunDirectory, watch: Callable[[Update], None], log: logging.Logger) -> None:
        self.run, self.settings, self.watch, self.log = run, run.settings, watch, log
        self.learner = make_learner(run.settings)
        self.validation = make_validation(run.settings)
        self.progress = Progress()
        self.first_event = 0
        if run.state.exists():
            self._restore()
        log.info("%s from step %d: %s", run.agent, self.steps, json.dumps(asdict(run.settings)))

    @property
    def steps(self) -> int:
        return self.learner.experience.steps

    @property
    def ended(self) -> bool:
        if self.settings.patience and self.progress.without_better >= self.settings.patience:
            return True
        return bool(self.progress.rows) and self.progress.rows[-1]["step"] >= self.settings.steps

    def to_the_end(self, events: Events) -> None:
        if not self.progress.rows:
            self._validate(events)
        while not self.ended:
            goal = min(self.settings.steps, self._next_validation())
            while self.steps < goal:
                self.learner.advance()
                self.watch(Update(self.steps, self.settings.steps, self.score, self.progress.best))
            self._validate(events)

    @property
    def score(self) -> float:
        return self.progress.rows[-1][f"validation_{self.validation.decides}"] if self.progress.rows else -float("inf")

    def _next_validation(self) -> int:
        every = self.settings.evaluate_every
        return (self.steps // every + 1) * every

    def _validate(self, events: Events) -> None:
        """Measures, then writes curve, best checkpoint, events, and last the state: what follows it is done again."""
        progress, experience = self.progress, self.learner.experience
        found = self.validation.measure(self.learner.scorer)
        figures = {f"validation_{name}": value for name, value in found.items()}
        figures |= experience.take_figures() | self.learner.averages.take()
        progress.rows.append({"step": float(self.steps)} | figures)
        better = found[self.validation.decides] > progress.best
        progress.without_better = 0 if better else progress.without_better + 1
        if better:
            progress.best, progress.best_step = found[self.validation.decides], self.steps
            self._keep(found)
        self.run.write_curve(progress.rows)
        events.write(self.steps, figures, experience.take_actions())
        self._save()
        self.log.info("step %d %s", self.steps, " ".join(f"{name}={value:.6g}" for name, value in figures.items()))
        self.watch(Update(self.steps, self.settings.steps, self.score, progress.best))

    def _keep(self, scores: dict[str, float]) -> None:
        settings, agent = self.settings, self.run.agent
        origin = Origin(
            training={"agent": agent} | asdict(settings) | {"step": self.steps},
            seeds=self.validation.seeds_used,
            data_hash=self.validation.data_hash,
            scores={f"validation_{name}": value for name, value in scores.items()},
        )
        summary = f"{agent}, trained on {self.validation.data}"
        write_checkpoint(self.run.best, checkpoint_of(self.learner.scorer, f"{self.run.path.name}@1", summary, origin))

    def _save(self) -> None:
        learner = {name: part.state_dict() for name, part in self.learner.parts().items()}
        write_state(self.run.state, {"learner": learner, "progress": vars(self.progress)})

    def _restore(self) -> None:
        saved = read_state(self.run.state)
        try:
            for name, part in self.learner.parts().items():
                part.load_state_dict(saved["learner"][name])
            self.progress = Progress(**saved["progress"])
        except InputError as error:
            raise InputError(f"is a state of other settings: {error}", file=self.run.state) from error
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InputError("is a state of other settings", file=self.run.state) from error
        self.first_event = self.steps + 1
        self.run.write_curve(self.progress.rows)

    def summary(self) -> dict[str, object]:
        """How it ended, beside what random and greedy placement make of the same held-out episodes."""
        progress = self.progress
        best = next(row for row in progress.rows if row["step"] == progress.best_step)
        mark = "validation_"
        mine = {name.removeprefix(mark): value for name, value in best.items() if name.startswith(mark)}
        summary = {
            "agent": self.run.agent,
            "steps": self.steps,
            "best": progress.best,
            "best_step": progress.best_step,
            "checkpoint": self.run.best.name,
            "validation": {self.run.agent: mine} | self.validation.references(),
        }
        self.run.write_summary(summary)
        return summary
