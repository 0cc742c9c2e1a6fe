"""Seeds of the whole project, fixed once: what is learned, what is chosen by and what is reported never share one.

A policy is trained on TRAINING seeds, settings and checkpoints are chosen on VALIDATION seeds, and results are reported
on TEST seeds, which nothing before that has seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

RangeName = Literal["test", "training", "validation", "outside"]

TEST: Final = range(10_000)
TRAINING: Final = range(10_000, 900_000)
VALIDATION: Final = range(900_000, 1_000_000)
RANGES: Final[dict[RangeName, range]] = {"test": TEST, "training": TRAINING, "validation": VALIDATION}

REPORTED: Final = tuple(range(42, 52))  # those of the project's own results


def range_of(seed: int) -> RangeName:
    """The range a seed is in; "outside" is none of them."""
    return next((name for name, seeds in RANGES.items() if seed in seeds), "outside")


def by_range(seeds: Iterable[int]) -> dict[RangeName, tuple[int, ...]]:
    """The seeds of each range, ranges without any left out."""
    found: dict[RangeName, list[int]] = {}
    for seed in seeds:
        found.setdefault(range_of(seed), []).append(seed)
    return {name: tuple(members) for name, members in found.items()}


def seeds_text(seeds: Iterable[int]) -> str:
    """Seeds as people write them, such as 42-51 or 1,5-7."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][1] + 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
