"""Search for the parameters of a policy that prices leftovers: many cheap runs instead of gradients.

A generation tries its candidates on a few workloads and fresh seeds, the same for all. Now and then the favourite of
the strategy is tried on validation seeds; the best of those is what the training leaves behind.

Every generation's fitness values are written down. They determine everything: a training that was interrupted replays
them, which takes seconds, and goes on exactly as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from pilotage.model.errors import InputError
from pilotage.model.workload import BoolArray, FloatArray
from pilotage.policies.priced import LAYOUT
from pilotage.sim.seeds import TRAINING, VALIDATION
from pilotage.sim.specs import TraceSource
from pilotage.training.fitness import Around, fitness, fitness_near, share_of_room
from pilotage.training.strategies import Method, Strategy, strategy_of
from pilotage.training.trials import BASELINES, Figures, Objective, Trial, Yardstick, mean_figures
from pilotage.training.workers import Task, Workers

BALANCE_PARTS = ("weights", "cpu_share", "memory_share")
CANDIDATE = "candidate@1"
Run = tuple[TraceSource, int]  # workload and seed
SEEDS_OF_A_TRAINING = 10_000  # trainings of other seeds take others


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """How to search. The same settings, workloads and start give the same parameters."""

    objective: Objective = "packing"
    method: Method = "coordinates"
    generations: int = 300
    population: int = 24
    spread: float = 0.05  # first standard deviation or step
    load: float = 1.3
    always: int = 1  # of the given workloads, so many are in every generation
    given: int = 5  # given workloads in a generation
    varied: int = 3  # varied workloads in a generation
    seeds: int = 2  # of each given workload in a generation; varied ones have one
    seed: int = 0
    validate_every: int = 20
    validation_seeds: int = 3

    def parts(self) -> tuple[str, ...]:
        """Which parameters are searched; the others stay as they are."""
        if self.objective == "balance":
            return BALANCE_PARTS
        return tuple(name for name in LAYOUT if name not in ("cpu_share", "memory_share"))

    def searched(self) -> BoolArray:
        """The same, parameter by parameter."""
        parts = self.parts()
        return np.concatenate([np.full(size, name in parts) for name, size in LAYOUT.items()])


@dataclass(frozen=True)
class Workloads:
    """What is trained on: given ones, and varied ones for breadth."""

    given: tuple[TraceSource, ...]
    varied: tuple[TraceSource, ...]
    yardsticks: dict[TraceSource, Yardstick]

    def __post_init__(self) -> None:
        if not self.given and not self.varied:
            raise InputError("no workload to train on", expected="--trace, --pods or --varied")

    def of_generation(self, settings: EvolutionSettings, generation: int) -> list[TraceSource]:
        random = np.random.Generator(np.random.PCG64([settings.seed, generation]))
        always, others = self.given[: settings.always], self.given[settings.always :]
        wanted = min(max(settings.given - len(always), 0), len(others))
        chosen = [others[i] for i in random.choice(len(others), wanted, replace=False)] if wanted else []
        breadth = min(settings.varied, len(self.varied))
        spice = [self.varied[i] for i in random.choice(len(self.varied), breadth, replace=False)] if breadth else []
        return [*always, *chosen, *spice]


@dataclass(frozen=True, slots=True)
class Generation:
    """What is written down of a generation; `validation` only where the mean was tried."""

    number: int
    values: tuple[float, ...]  # of the candidates, lower is better, as the strategy asked
    spread: float
    validation: float | None = None
    shares: tuple[float, ...] = ()  # of the room, by given workload (packing)


@dataclass
class Evolution:
    """A search in progress. `generations` yields what to write down; `best` is what it would leave behind now."""

    start: FloatArray
    workloads: Workloads
    settings: EvolutionSettings
    workers: Workers
    past: Sequence[Generation] = ()
    steps: FloatArray | None = None  # of each parameter (training.steps), for methods that want to know
    best: FloatArray = field(init=False)
    best_validation: float = field(init=False, default=-np.inf)
    last_look: Generation | None = field(init=False, default=None)  # a validation because of `stop`

    def generations(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Generation]:
        """Replays the past silently, then goes on to the last generation or until `stop` says so (one at least)."""
        self.best, settings = self.start, self.settings
        searched = settings.searched()
        first, steps = self.start[searched], None if self.steps is None else self.steps[searched]
        strategy = strategy_of(settings.method, first, settings.spread, settings.population, settings.seed, steps)
        for number in range(self.settings.generations + 1):
            known = self.past[number] if number < len(self.past) else None
            if known is None and number > 0 and stop():
                # What was found since the last validation is not to be lost.
                validation, shares = self._validated(self._whole(strategy.favourite))
                self.last_look = Generation(number, (), strategy.spread, validation, shares)
                self._judge(strategy, self.last_look)
                return
            done = self._generation(strategy, number, known)
            self._judge(strategy, done)
            if number < self.settings.generations:
                strategy.tell(self._asked, done.values)
            if known is None:
                yield done

    def _judge(self, strategy: Strategy, done: Generation) -> None:
        if done.validation is not None and done.validation > self.best_validation:
            self.best, self.best_validation = self._whole(strategy.favourite), done.validation

    def _generation(self, strategy: Strategy, number: int, known: Generation | None) -> Generation:
        """Asks for candidates and finds their values, or takes those that are known."""
        last = number == self.settings.generations
        in_pairs = strategy.in_pairs
        self._asked = [] if last else strategy.ask()
        if known is not None:
            return self._fitting(known)
        values: tuple[float, ...] = ()
        if not last:
            values = (self._values_in_pairs if in_pairs else self._values)(self._asked, number)
        validation: float | None = None
        shares: tuple[float, ...] = ()
        if last or number % self.settings.validate_every == 0:
            validation, shares = self._validated(self._whole(strategy.favourite))
        return Generation(number, values, strategy.spread, validation, shares)

    def _fitting(self, known: Generation) -> Generation:
        """A generation that was written down, when it is one of this search."""
        values, shares = len(self._asked), 0 if known.validation is None else len(self.workloads.given)
        if (len(known.values), len(known.shares)) != (values, shares):
            problem = f"generation {known.number} was written down with {len(known.values)} values"
            problem += f" and {len(known.shares)} shares"
            raise InputError(problem, expected=f"{values} and {shares}: a history that was not changed")
        return known

    def _values(self, asked: Sequence[FloatArray], number: int) -> tuple[float, ...]:
        """Each candidate is tried on all runs of the generation."""
        runs = self._runs(number)
        baseline, *found = self._figures([(runs, None), *((runs, candidate) for candidate in asked)])
        return tuple(-self._fitness(runs, own, baseline) for own in found)

    def _values_in_pairs(self, asked: Sequence[FloatArray], number: int) -> tuple[float, ...]:
        """Each candidate is tried once on each workload, as many seeds after the other as there are."""
        runs, half = self._runs(number), len(asked) // 2
        by_source: dict[TraceSource, list[int]] = {}
        for source, seed in runs:
            by_source.setdefault(source, []).append(seed)
        own_runs = [[(source, seeds[k % len(seeds)]) for source, seeds in by_source.items()] for k in range(half)] * 2
        all_runs, *found = self._figures([(runs, None), *zip(own_runs, asked, strict=True)])
        baseline = dict(zip(runs, all_runs, strict=True))
        around = {
            source: Around(
                mean_figures([own[i] for own in found]), mean_figures([baseline[source, seed] for seed in seeds])
            )
            for i, (source, seeds) in enumerate(by_source.items())
        }
        weights = [len(seeds) for seeds in by_source.values()]
        values = []
        for tried, own in zip(own_runs, found, strict=True):
            near = [
                fitness_near(
                    self.settings.objective,
                    figures,
                    baseline[run],
                    self.workloads.yardsticks[run[0]],
                    around[run[0]],
                    given=self._given(run[0]),
                )
                for run, figures in zip(tried, own, strict=True)
            ]
            values.append(-float(np.average(near, weights=weights)))
        return tuple(values)

    def _runs(self, number: int) -> list[Run]:
        """Of a generation: given workloads with all of its seeds, others with one."""
        sources, seeds = self.workloads.of_generation(self.settings, number), seeds_of(self.settings, number)
        return [(source, seed) for source in sources for seed in seeds[: None if self._given(source) else 1]]

    def _figures(self, tried: Sequence[tuple[Sequence[Run], FloatArray | None]]) -> list[list[Figures]]:
        """What candidates come to on runs; None is the baseline."""
        return self.workers.figures(
            [self._task(runs, None if own is None else self._whole(own)) for runs, own in tried]
        )

    def _given(self, source: TraceSource) -> bool:
        return source in self.workloads.given

    def _validated(self, parameters: FloatArray) -> tuple[float, tuple[float, ...]]:
        """Fitness and shares of the room on seeds that no generation has seen."""
        sources = [*self.workloads.given, *self.workloads.varied[: self.settings.varied]]
        runs = [(source, seed) for source in sources for seed in islice(VALIDATION, self.settings.validation_seeds)]
        found = self.workers.figures([self._task([run], who) for who in (None, parameters) for run in runs])
        figures = [one for (one,) in found]
        baseline, own = figures[: len(runs)], figures[len(runs) :]
        means = zip(_by_workload(runs, own).items(), _by_workload(runs, baseline).values(), strict=True)
        shares = [share_of_room(o, base, self.workloads.yardsticks[s]) for (s, o), base in means if self._given(s)]
        return self._fitness(runs, own, baseline), tuple(shares)

    def _fitness(self, runs: Sequence[Run], own: Sequence[Figures], baseline: Sequence[Figures]) -> float:
        """Of what it came to on each workload on the mean, as failed pods of one run are chance; workloads with more
        runs count more."""
        owns, baselines = _by_workload(runs, own), _by_workload(runs, baseline)
        values = [
            fitness(
                self.settings.objective,
                owns[source],
                baselines[source],
                self.workloads.yardsticks[source],
                given=self._given(source),
            )
            for source in owns
        ]
        weights = [sum(source == of for of, _ in runs) for source in owns]
        return float(np.average(values, weights=weights))

    def _task(self, runs: Sequence[tuple[TraceSource, int]], parameters: FloatArray | None) -> Task:
        name = BASELINES[self.settings.objective] if parameters is None else CANDIDATE
        vector = () if parameters is None else tuple(parameters.tolist())
        return [
            Trial(source, seed, self.settings.load, self.workloads.yardsticks[source].forced_load, name, vector)
            for source, seed in runs
        ]

    def _whole(self, searched: FloatArray) -> FloatArray:
        parameters = self.start.copy()
        parameters[self.settings.searched()] = searched
        return parameters


def _by_workload(runs: Sequence[Run], figures: Sequence[Figures]) -> dict[TraceSource, Figures]:
    """The mean of the runs on each."""
    found: dict[TraceSource, list[Figures]] = {}
    for (source, _), own in zip(runs, figures, strict=True):
        found.setdefault(source, []).append(own)
    return {source: mean_figures(own) for source, own in found.items()}


def seeds_of(settings: EvolutionSettings, generation: int) -> list[int]:
    """Of a generation; they begin anew only after all seeds of a training have been used."""
    first = settings.seed * SEEDS_OF_A_TRAINING
    numbers = range(generation * settings.seeds, (generation + 1) * settings.seeds)
    return [TRAINING[first + number % SEEDS_OF_A_TRAINING] for number in numbers]
