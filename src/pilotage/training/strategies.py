"""How an evolution chooses what to try next: CMA-ES, or one coordinate after the other.

Both are asked for candidates and told their values, lower is better; candidates of one generation are tried on the same
workloads and seeds, so that their values can be compared.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from pilotage.model.workload import FloatArray, IntArray

Method = Literal["coordinates", "cma"]
AVERAGED = 60  # generations
FURTHEST = 1.5  # steps that a coordinate is moved at once
LONGER, SHORTER = 1.3, 0.75  # a coordinate's next step where it is moved by a whole one, by less than half of one
RANGE_OF_STEPS = (0.2, 20.0)  # times the first one
OF_ITS_SIZE = 0.25  # a first step is at least this part of the parameter


class Strategy(Protocol):
    """A search in progress."""

    @property
    def favourite(self) -> FloatArray:
        """What it would answer now."""

    @property
    def spread(self) -> float: ...
    def ask(self) -> Sequence[FloatArray]: ...
    def tell(self, asked: Sequence[FloatArray], values: Sequence[float]) -> None: ...


def strategy_of(method: Method, start: FloatArray, spread: float, population: int, seed: int) -> Strategy:
    random = np.random.Generator(np.random.PCG64(seed))
    if method == "cma":
        return Cma(start, spread, population, random)
    return Coordinates(start, spread, population, random)


class Cma:
    """CMA-ES. Its favourite is the mean of the last generations' means, because each one's workloads pull it about."""

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
