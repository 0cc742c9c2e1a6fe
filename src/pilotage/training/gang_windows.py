"""Learning when to divide anew: a small network is bred (CMA-ES) on training rows of a job.

A generation tries its candidates on the same episodes, each a stretch of rows at a penalty of its own; what counts is
the time against that of the plan alone on the same episode. Now and then the favourite is tried on later rows that no
generation sees; the best of those is kept, and the search ends when nothing better has come for a while. The start is
the plan's own judgement, so nothing has to be learned twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from pilotage.gang.training_ground import Episode, Ground
from pilotage.gang.window_policy import HIDDEN, architecture, moment_for, network_from
from pilotage.kernels.gang_windows import INPUTS, run_learned
from pilotage.model.workload import FloatArray
from pilotage.policies.checkpoints import Checkpoint, Origin
from pilotage.training.strategies import strategy_of


@dataclass(frozen=True)
class WindowTraining:
    """How to search. The same settings and training rows give the same network."""

    generations: int = 80
    population: int = 16
    episodes: int = 36  # of a generation: with a third of them its noise is larger than what there is to gain
    shortest: int = 150  # rows of an episode
    longest: int = 250
    spread: float = 0.2  # first standard deviation
    validate_every: int = 5
    patience: int = 6  # validations without anything better
    seed: int = 0


@dataclass(frozen=True)
class Learned:
    """What came of it: the parameters, the part of the plan's time that is saved on rows that were not learned from
    (the best of several looks, so a little too good), and how many generations there were."""

    parameters: FloatArray
    validation: float
    generations: int = 0


def plan_alone() -> FloatArray:
    """Parameters with which the plan decides; inner weights are not zero, so that all can be learned."""
    parameters = np.zeros(1 + HIDDEN * INPUTS + 2 * HIDDEN)
    parameters[0] = 1.0
    parameters[1 : 1 + HIDDEN * INPUTS] = np.random.default_rng(0).normal(0.0, 0.5, HIDDEN * INPUTS)
    return parameters


def train_windows(
    ground: Ground, settings: WindowTraining, advance: Callable[[int, int], None] = lambda done, total: None
) -> Learned:
    random = np.random.default_rng([settings.seed, 1])
    shut = ground.held_out()
    start = plan_alone()
    strategy = strategy_of("cma", start, settings.spread, settings.population, settings.seed)
    plan_shut = _totals(ground, shut, start)
    best = Learned(start, 0.0)
    for generation in range(1, settings.generations + 1):
        drawn = [ground.draw(random, settings.shortest, settings.longest) for _ in range(settings.episodes)]
        plan = _totals(ground, drawn, start)
        asked = strategy.ask()
        strategy.tell(asked, [float(np.mean(_totals(ground, drawn, one) / plan)) for one in asked])
        if generation % settings.validate_every == 0 or generation == settings.generations:
            favourite = strategy.favourite
            gain = float(1.0 - np.mean(_totals(ground, shut, favourite) / plan_shut))
            if gain > best.validation:
                best = Learned(np.array(favourite), gain, generation)
        advance(generation, settings.generations)
        if generation - best.generations >= settings.patience * settings.validate_every:
            break
    return best


def _totals(ground: Ground, episodes: list[Episode], parameters: FloatArray) -> FloatArray:
    network = network_from(np.asarray(parameters, np.float64))
    found = []
    for episode in episodes:
        known = ground.stretches[episode.stretch]
        action_T = np.zeros(episode.length, np.int64)
        found.append(
            run_learned(known, episode.first, episode.length, episode.penalty, network, moment_for(known), action_T)
        )
    return np.array(found)


def checkpoint_of(learned: Learned, settings: WindowTraining, job: str, data_hash: str) -> Checkpoint:
    tensors = network_from(learned.parameters)._asdict()
    return Checkpoint(
        "gang-window@1",
        architecture(),
        tensors,
        "when a synchronous job divides its budget anew, bred on training rows",
        Origin(
            training={"agent": "gang-window", "job": job, **asdict(settings)},
            seeds={"training": settings.seed},
            data_hash=data_hash,
            scores={"validation_gain": learned.validation},
        ),
    )
