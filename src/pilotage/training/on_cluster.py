"""Learning from what a cluster does: a copy of its policy is tuned to the recorded pods, and takes over only if better.

Better is judged on orders of arrival that the tuning has not seen: the whole interval of the mean difference has to be
above zero. What took over is a directory of its own; a link says which is in use, and moves by rename.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pilotage.model.errors import InputError, PilotageError
from pilotage.model.workload import FloatArray
from pilotage.sim.seeds import VALIDATION
from pilotage.sim.specs import TraceSource
from pilotage.sim.statistics import interval
from pilotage.training.evolution import CANDIDATE, EvolutionSettings, Workloads
from pilotage.training.evolution_directory import EvolutionDirectory
from pilotage.training.evolution_start import prepared_workloads, start_parameters
from pilotage.training.evolving import evolve
from pilotage.training.fitness import fitness
from pilotage.training.trials import BASELINES, Figures, Objective, Trial
from pilotage.training.workers import LocalWorkers

CURRENT = "current"  # the link
LOG = "learning.jsonl"
FIRST_JUDGE = 1000  # seeds before it in the range choose among the candidates of a tuning


class StoppedError(PilotageError):
    """An attempt without a verdict."""


@dataclass(frozen=True, slots=True)
class ClusterLearning:
    """How much is tried at a time."""

    objective: Objective = "packing"
    generations: int = 40
    population: int = 8
    seeds: int = 2  # of each candidate in a generation
    load: float = 1.3
    judges: int = 10  # orders of arrival by which the old and the new are compared
    fewest_pods: int = 50  # before that there is nothing to learn from
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one attempt."""

    number: int
    pods: int
    current: str
    difference: float  # of fitness, mean over the judging seeds; above 0: the copy is better
    low: float | None  # of its 95 % interval
    high: float | None
    taken_over: bool
    policy: str  # in use afterwards


def learn_once(
    recorded: Path,
    start: str,
    place: Path,
    settings: ClusterLearning = ClusterLearning(),
    stop: Callable[[], bool] = lambda: False,
) -> Verdict:
    """Tunes a copy of what is in use (at first: `start`) to the recorded trace, compares, and writes down what came."""
    link = place / CURRENT
    current = str(link.resolve()) if link.exists() else start
    number = attempts(place) + 1
    source = TraceSource(recorded / "nodes.csv", recorded / "pods.csv")
    pods = len(source.load().workload)
    if pods < settings.fewest_pods:
        problem = f"{pods} pods were recorded"
        raise InputError(problem, file=recorded / "pods.csv", expected=f"{settings.fewest_pods} or more")
    run = _tuning(source, current, place / "attempts" / f"learned-{number}", settings, number)
    with LocalWorkers(1) as workers:
        evolve(run, workers, stop=stop)
    if stop():
        raise StoppedError("told to end in the middle of an attempt")
    candidate = start_parameters(str(run.path / "best"), settings.objective)
    differences = judged(source, run.workloads, current, candidate, settings)
    found = interval(differences)
    better = found.low is not None and found.low > 0.0
    if better:
        take_over(run.path / "best", place, number)
    used = str(link.resolve()) if link.exists() else start
    verdict = Verdict(number, pods, current, found.mean, found.low, found.high, better, used)
    with (place / LOG).open("a") as stream:
        stream.write(json.dumps(asdict(verdict)) + "\n")
    return verdict


def _tuning(
    source: TraceSource, current: str, path: Path, settings: ClusterLearning, number: int
) -> EvolutionDirectory:
    evolution = EvolutionSettings(
        objective=settings.objective,
        generations=settings.generations,
        population=settings.population,
        load=settings.load,
        given=1,
        varied=0,
        seeds=settings.seeds,
        seed=(settings.seed + number) % 89,  # as many as there are ranges of training seeds
        validate_every=max(1, settings.generations // 4),
    )
    *_, workloads = prepared_workloads((source,), 0, evolution)
    shutil.rmtree(path, ignore_errors=True)  # of an attempt that was killed before its verdict
    path.parent.mkdir(parents=True, exist_ok=True)
    run = EvolutionDirectory(
        path, f"{path.name}@1", evolution, workloads, start_parameters(current, settings.objective, (source,))
    )
    run.create()
    return run


def judged(
    source: TraceSource, workloads: Workloads, current: str, new: FloatArray, settings: ClusterLearning
) -> FloatArray:
    """New minus what is in use (which may rehearse, or leave it to FGD), on each of some orders of arrival; neither was
    chosen by them."""
    yardstick = workloads.yardsticks[source]

    def figures(seed: int, policy: str, parameters: tuple[float, ...] = ()) -> Figures:
        return Trial(source, seed, settings.load, yardstick.forced_load, policy, parameters).carry_out()

    found = []
    for seed in VALIDATION[FIRST_JUDGE : FIRST_JUDGE + settings.judges]:
        baseline = figures(seed, BASELINES[settings.objective])
        before, after = (
            fitness(settings.objective, own, baseline, yardstick)
            for own in (figures(seed, current), figures(seed, CANDIDATE, tuple(new.tolist())))
        )
        found.append(after - before)
    return np.array(found)


def attempts(place: Path) -> int:
    """Verdicts so far."""
    log = place / LOG
    return len(log.read_text().splitlines()) if log.exists() else 0


def take_over(policy: Path, place: Path, number: int) -> None:
    """A copy that nobody changes any more, and the link to it. Whoever reads the link sees the old or the new."""
    kept = place / "policies" / f"{number:05d}"
    shutil.rmtree(kept, ignore_errors=True)
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(policy, kept)
    fresh = place / f".{CURRENT}.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(kept.relative_to(place))
    fresh.replace(place / CURRENT)
