"""How an evolution chooses what to try next: along a slope, one coordinate after the other, or CMA-ES.

All are asked for candidates and told their values, lower is better; candidates of one generation are tried on the same
workloads and seeds, so that their values can be compared.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

import numpy as np

from pilotage.model.workload import FloatArray, IntArray

Method = Literal["slope", "coordinates", "cma"]
AVERAGED = 60  # generations
FURTHEST = 1.5  # steps that a coordinate is moved at once
LONGER, SHORTER = 1.3, 0.75  # a coordinate's next step where it is moved by a whole one, by less than half of one
RANGE_OF_STEPS = (0.2, 20.0)  # times the first one
OF_ITS_SIZE = 0.25  # a first step is at least this part of the parameter
FAR = (2.0, 4.0, 8.0, 16.0, 32.0)  # places along a slope, in spreads
KEPT_SLOPE = 0.6  # how much of the slope before counts beside the newest
OUTLIER = 4.0  # times the median of the differences: more says no more


class Strategy(Protocol):
    """A search in progress."""

    @property
    def in_pairs(self) -> bool:
        """Whether the next candidates are so many, and so near each other, that each is tried on one seed only, the
        same for its partner in the other half."""

    @property
    def favourite(self) -> FloatArray:
        """What it would answer now."""

    @property
    def spread(self) -> float: ...
    def ask(self) -> Sequence[FloatArray]: ...
    def tell(self, asked: Sequence[FloatArray], values: Sequence[float]) -> None: ...


def strategy_of(
    method: Method, start: FloatArray, spread: float, population: int, seed: int, step_P: FloatArray | None = None
) -> Strategy:
    """`step_P`: how far each parameter is moved at once, where that is known; `slope` does not move those with 0."""
    random = np.random.Generator(np.random.PCG64(seed))
    if method == "cma":
        return Cma(start, spread, population, random)
    if method == "slope":
        return Slope(start, np.ones(len(start)) if step_P is None else step_P, spread, population, random)
    return Coordinates(start, spread, population, random)


@dataclass
class Slope:
    """A generation tries all parameters at once, a random step and the same one backwards, many times: the differences
    tell the slope. The next tries places along it, each on all seeds, beside the last two places, and goes to the best.

    A run is noisy, and what one parameter changes is less than the noise; here every run tells something of each of
    them. That needs steps that matter equally (training.steps)."""

    place: FloatArray
    step_P: FloatArray
    spread: float
    population: int
    random: np.random.Generator
    in_pairs: bool = field(init=False, default=True)
    before: FloatArray = field(init=False)
    _slope_P: FloatArray = field(init=False, repr=False)
    _drawn_KP: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.place = self.before = np.array(self.place)
        self._slope_P = np.zeros(len(self.place))

    @property
    def favourite(self) -> FloatArray:
        """The place that was better than another on seeds it was not made from."""
        return self.before

    def ask(self) -> Sequence[FloatArray]:
        if not self.in_pairs:
            return [self.before, self.place, *(self.place + far * self._unit() for far in FAR)]
        self._drawn_KP = self.random.normal(size=(max(self.population // 2, 2), len(self.place)))
        moves_KP = self.spread * self.step_P * self._drawn_KP
        return [*(self.place + moves_KP), *(self.place - moves_KP)]

    def tell(self, asked: Sequence[FloatArray], values: Sequence[float]) -> None:
        if not self.in_pairs:
            self.before, self.place = asked[int(values[1] <= values[0])], asked[int(np.argmin(values))]
            self.in_pairs = True
            return
        up_K, down_K = np.split(np.array(values), 2)
        lower_K = (down_K - up_K) / 2
        told_K = lower_K[lower_K != 0]  # on a small cluster many moves change nothing
        most = OUTLIER * float(np.median(np.abs(told_K))) if len(told_K) else 0.0
        self._slope_P = KEPT_SLOPE * self._slope_P + np.clip(lower_K, -most, most) @ self._drawn_KP / len(lower_K)
        self.in_pairs = False

    def _unit(self) -> FloatArray:
        """A move of one spread down the slope."""
        slope_P = self._slope_P * (self.step_P > 0)
        length = float(np.linalg.norm(slope_P))
        return self.spread * self.step_P * (slope_P / length if length else slope_P)


class Cma:
    """CMA-ES. Its favourite is the mean of the last generations' means, because each one's workloads pull it about."""

    in_pairs = False

    def __init__(self, start: FloatArray, spread: float, population: int, random: np.random.Generator) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it misses matplotlib, for figures that nobody asks for
            import cma

        options = {
            "popsize": population,
            "CMA_diagonal": True,  # hundreds of generations are too few to learn which of 200 parameters go together
            "randn": lambda *shape: random.standard_normal(shape),  # numpy's global generator belongs to the caller
            "seed": np.nan,
            "verbose": -9,
        }
        self._search = cma.CMAEvolutionStrategy(start, spread, options)
        self._means: deque[FloatArray] = deque([np.array(start)], maxlen=AVERAGED)

    @property
    def favourite(self) -> FloatArray:
        """Of the later half at most: the first generations are far from where the search is now."""
        newest = [*self._means]
        if len(newest) < AVERAGED:
            newest = newest[-max(1, len(newest) // 2) :]
        mean: FloatArray = np.mean(newest, axis=0)
        return mean

    @property
    def spread(self) -> float:
        return float(self._search.sigma)

    def ask(self) -> Sequence[FloatArray]:
        asked: Sequence[FloatArray] = self._search.ask()
        return asked

    def tell(self, asked: Sequence[FloatArray], values: Sequence[float]) -> None:
        self._search.tell(list(asked), list(values))
        self._means.append(np.array(self._search.result.xfavorite))


@dataclass
class Coordinates:
    """A generation tries a few coordinates, each a step up and a step down, and moves each to the lowest point of the
    parabola through the three values. Whether that was right the next generation decides, on other workloads and
    seeds: it tries the place before and half the way as well, and goes on from the best."""

    place: FloatArray
    first_step: float
    population: int
    random: np.random.Generator
    in_pairs: ClassVar = False
    before: FloatArray = field(init=False)
    step_P: FloatArray = field(init=False)
    _first_P: FloatArray = field(init=False, repr=False)
    _turn: list[int] = field(init=False, default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.place = self.before = np.array(self.place)
        self._first_P = np.maximum(self.first_step, OF_ITS_SIZE * np.abs(self.place))
        self.step_P = self._first_P.copy()

    @property
    def favourite(self) -> FloatArray:
        """The place that was better than another on workloads it was not made from."""
        return self.before

    @property
    def spread(self) -> float:
        return float(np.median(self.step_P))

    def ask(self) -> Sequence[FloatArray]:
        self._tried_K = self._next(max(1, (self.population - 3) // 2))
        moves = [sign * self.step_P[p] * _unit(p, len(self.place)) for p in self._tried_K for sign in (1.0, -1.0)]
        return [self.before, (self.before + self.place) / 2, self.place, *(self.place + move for move in moves)]

    def _next(self, wanted: int) -> list[int]:
        """Every coordinate once before any of them comes again; never one twice at once."""
        if not self._turn:
            self._turn = self.random.permutation(len(self.place)).tolist()
        taken, self._turn = self._turn[:wanted], self._turn[wanted:]
        return taken

    def tell(self, asked: Sequence[FloatArray], values: Sequence[float]) -> None:
        here, others = values[2], values[3:]
        self.before = asked[2 - int(np.argmin(values[2::-1]))]  # the furthest among equals
        tried_K: IntArray = np.array(self._tried_K)
        steps_K = lowest_points(np.array(others[1::2]), here, np.array(others[::2]))
        self.place = self.before.copy()
        self.place[tried_K] += steps_K * self.step_P[tried_K]
        factor_K = np.select([np.abs(steps_K) >= 1, np.abs(steps_K) < 0.5], [LONGER, SHORTER], 1.0)
        least, most = (times * self._first_P[tried_K] for times in RANGE_OF_STEPS)
        self.step_P[tried_K] = np.clip(self.step_P[tried_K] * factor_K, least, most)


def lowest_points(down_K: FloatArray, here: float, up_K: FloatArray) -> FloatArray:
    """Of the parabolas through values a step down, here and a step up; in steps, no further than FURTHEST."""
    slope_K, bend_K = (up_K - down_K) / 2, up_K + down_K - 2 * here
    far_K = -FURTHEST * np.sign(slope_K)
    lowest_K = np.divide(-slope_K, bend_K, out=far_K, where=bend_K > 0)
    return np.clip(lowest_K, -FURTHEST, FURTHEST)


def _unit(p: int, size: int) -> FloatArray:
    unit = np.zeros(size)
    unit[p] = 1.0
    return unit
