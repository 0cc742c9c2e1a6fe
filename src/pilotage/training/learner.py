"""What the training loop asks of an algorithm."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from pilotage.training.networks import GraphScorer, Scorer


class Stateful(Protocol):
    """Anything that can be saved and restored: networks, optimisers, random numbers, clusters, replay."""

    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any, /) -> Any: ...


class Averages:
    """Means of named numbers since they were asked for last."""

    def __init__(self) -> None:
        self.sums: dict[str, tuple[float, int]] = {}

    def add(self, **values: Tensor) -> None:
        for name, value in values.items():
            total, count = self.sums.get(name, (0.0, 0))
            self.sums[name] = total + float(value.detach()), count + 1

    def take(self) -> dict[str, float]:
        means = {name: total / count for name, (total, count) in self.sums.items()}
        self.sums.clear()
        return means


class Experience(Protocol):
    """Where decisions to learn from come from."""

    @property
    def steps(self) -> int: ...  # decisions so far

    def take_figures(self) -> dict[str, float]: ...  # means since they were asked for last
    def take_actions(self) -> Tensor: ...  # numbers of the chosen nodes since they were asked for last


class Learner(Protocol):
    """An algorithm and its experience. Saving its parts saves all that the rest of the training depends on."""

    @property
    def experience(self) -> Experience: ...
    @property
    def averages(self) -> Averages: ...
    @property
    def scorer(self) -> Scorer | GraphScorer: ...  # higher is better: what is validated and kept

    def advance(self) -> None:
        """One round: some decisions, and what is learned from them."""
        ...

    def parts(self) -> dict[str, Stateful]: ...


class Validation(Protocol):
    """Judges a scorer on what it never learned from."""

    @property
    def decides(self) -> str: ...  # the figure by which the best scorer is found; higher is better
    @property
    def data(self) -> str: ...  # the workload or recording in a word or two
    @property
    def data_hash(self) -> str: ...  # of the workload or recording
    @property
    def seeds_used(self) -> dict[str, object]: ...  # of the training too, by use

    def measure(self, scorer: Scorer | GraphScorer) -> dict[str, float]: ...
    def references(self) -> dict[str, dict[str, float]]: ...  # by name: what simple policies make of the same
