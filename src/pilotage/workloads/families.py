"""Shipped traces by name: those of a fixed list, and families whose members are numbered, such as varied-17."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from pilotage.model.cluster import Node
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import Workload
from pilotage.workloads.balance import MIXED, MOST_WORKERS, UNIFORM, balance_pods, workers
from pilotage.workloads.generate import SHIPPED, shipped
from pilotage.workloads.trace import Trace
from pilotage.workloads.variety import varied_trace

MOST_MEMBERS: Final = 1000  # that one text may name
_MEMBER = re.compile(r"(?P<family>[a-z]+(?:-[a-z]+)*)-(?P<first>\d{1,9})(?:\.\.(?P<last>\d{1,9}))?")


def _parts(trace: Trace) -> tuple[tuple[Node, ...], Workload]:
    return trace.nodes, trace.workload


class Family(NamedTuple):
    """Traces that differ in a number."""

    meaning: str
    make: Callable[[int], tuple[tuple[Node, ...], Workload]]
    numbers: range


FAMILIES: Final[dict[str, Family]] = {
    "varied": Family(
        "unlike any published trace: other GPU shares, nodes with up to 16 devices; N draws it",
        lambda seed: _parts(varied_trace(seed)),
        range(10**9),
    ),
    "balance": Family(
        "N workers of 64 CPU and 256Gi without GPU, 15 pods of 1 CPU and 2Gi for each",
        lambda count: (workers(count), balance_pods(count, UNIFORM)),
        range(1, MOST_WORKERS + 1),
    ),
    "balance-mixed": Family(
        "the same, the load in pods of 250m to 4 CPU and 0.5 to 8 GiB, not in proportion",
        lambda count: (workers(count), balance_pods(count, MIXED)),
        range(1, MOST_WORKERS + 1),
    ),
}


def trace_by_name(
    name: str, seed: int = 0, pods: int | None = None, nodes_scale: float = 1.0
) -> tuple[tuple[Node, ...], Workload]:
    """The nodes and pods of a shipped trace. The number in a member's name says everything about it."""
    if name in SHIPPED:
        return shipped(name, seed, pods, nodes_scale)
    match = _MEMBER.fullmatch(name)
    if match is None or match["family"] not in FAMILIES:
        raise UnknownNameError("trace", name, [*SHIPPED, *(f"{family}-N" for family in FAMILIES)])
    if match["last"] is not None:
        raise InputError(f"{name!r} names several traces", expected=f"one, such as {match['family']}-{match['first']}")
    if (seed, pods, nodes_scale) != (0, None, 1.0):
        raise InputError(f"{name!r} is fixed by its number", expected="no seed, number of pods or scale beside it")
    family, number = FAMILIES[match["family"]], int(match["first"])
    if number not in family.numbers:
        raise InputError(f"{name!r}", expected=f"a number from {family.numbers[0]} to {family.numbers[-1]}")
    return family.make(number)


def expanded(text: str) -> tuple[str, ...]:
    """The names that a text stands for: varied-0..19 is twenty of them, any other text itself."""
    match = _MEMBER.fullmatch(text)
    if match is None or match["last"] is None or match["family"] not in FAMILIES:
        return (text,)
    first, last = int(match["first"]), int(match["last"])
    if not first <= last < first + MOST_MEMBERS:
        raise InputError(f"{text!r}", field="--trace", expected=f"FIRST..LAST, at most {MOST_MEMBERS} traces")
    return tuple(f"{match['family']}-{number}" for number in range(first, last + 1))
