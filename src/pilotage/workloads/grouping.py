"""Some pods of a workload become gangs: they arrive together and run equally long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pilotage.model.errors import InputError
from pilotage.model.workload import Gang, IntArray, Workload


@dataclass(frozen=True, slots=True)
class Gangs:
    """Which gangs a workload has."""

    part: float = 0.0
    """Pods in gangs, of those that ask for one whole GPU; a fraction from 0 to 1."""
    sizes: tuple[int, ...] = (2, 4, 8, 16)
    """Numbers of pods, each as likely as any other."""

    def __post_init__(self) -> None:
        if not 0 <= self.part <= 1:
            raise InputError(f"bad value {self.part}", field="part", expected="a fraction from 0 to 1")
        if not self.sizes or min(self.sizes) < 2:
            raise InputError(f"bad sizes {self.sizes}", field="sizes", expected="numbers from 2 on")


def grouped(workload: Workload, gangs: Gangs, seed: int) -> Workload:
    """The pods in order of arrival, those of a gang side by side; names go by the new order.

    A gang takes pods of one shape. Its first pod, which is any of them, gives arrival and duration to the others, so
    how much arrives in all, when, and for how long stays what it was but for chance.
    """
    random = np.random.Generator(np.random.PCG64([seed, len(workload)]))
    gang_P = np.full(len(workload), -1, np.int64)
    leader_P = np.arange(len(workload))
    found: list[Gang] = []
    for rows in _rows_by_shape(workload):
        for members in _cut(random.permutation(rows)[: round(gangs.part * len(rows))], gangs.sizes, random):
            gang_P[members], leader_P[members] = len(found), members[0]
            found.append(Gang(f"gang-{len(found):04d}", len(members)))
    if not found:
        return workload
    arrival_P = workload.arrival_P[leader_P]
    order = np.lexsort((leader_P, arrival_P))
    return replace(
        workload,
        shape_P=workload.shape_P[order],
        arrival_P=arrival_P[order],
        duration_P=workload.duration_P[leader_P][order],
        gangs=tuple(found),
        gang_P=gang_P[order],
    )


def _cut(rows: IntArray, sizes: tuple[int, ...], random: np.random.Generator) -> Iterator[IntArray]:
    """Pieces of drawn sizes; what is left at the end is too short for any."""
    start = 0
    while possible := [size for size in sizes if size <= len(rows) - start]:
        end = start + int(random.choice(possible))
        yield rows[start:end]
        start = end


def _rows_by_shape(workload: Workload) -> list[IntArray]:
    """Pods that ask for one whole GPU, by shape."""
    wanted = [number for number, shape in enumerate(workload.shapes) if shape.kind == "whole"]
    return [np.flatnonzero(workload.shape_P == number) for number in wanted]
