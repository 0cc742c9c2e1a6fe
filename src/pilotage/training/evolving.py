"""An evolution from its directory: fresh or resumed, with everything written that others look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pilotage.training.events import open_events
from pilotage.training.evolution import Evolution, Generation
from pilotage.training.evolution_directory import EvolutionDirectory
from pilotage.training.run_directory import alone_in
from pilotage.training.workers import Workers


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an evolution ended."""

    generations: int
    validation: float
    start: Generation  # what it began with
    best: Generation  # the generation whose mean is the policy


def evolve(
    directory: EvolutionDirectory,
    workers: Workers,
    watch: Callable[[Generation], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Goes on from what the directory holds. `stop` ends it early, between generations."""
    with alone_in(directory.path):
        return _evolve(directory, workers, watch, stop)


def _evolve(
    directory: EvolutionDirectory, workers: Workers, watch: Callable[[Generation], None], stop: Callable[[], bool]
) -> Outcome:
    done = directory.past()
    evolution = Evolution(
        directory.start, directory.workloads, directory.settings, workers, tuple(done), directory.steps
    )
    with open_events(directory.events, len(done)) as events:
        for generation in evolution.generations(stop):
            directory.write_down(generation)
            done.append(generation)
            events.write(generation.number, directory.figures(generation))
            if generation.validation is not None:
                directory.write_curve(done)
                directory.write_best(evolution.best, evolution.best_validation, generation.number)
            watch(generation)
    tried = [generation for generation in done if generation.validation is not None]
    # Once more: a process may have been killed after it wrote a generation down and before it wrote what came of it.
    directory.write_curve(done)
    if evolution.last_look is not None:
        tried.append(evolution.last_look)
    directory.write_best(evolution.best, evolution.best_validation, tried[-1].number)
    best = max(tried, key=lambda generation: generation.validation or 0.0)
    return Outcome(done[-1].number, evolution.best_validation, tried[0], best)
