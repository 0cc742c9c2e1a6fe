"""Which changes of a module are tried, by the operators of cosmic-ray."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    module: str  # its path below src/pilotage
    line: int
    operator: str
    before: str  # the line as it is
    after: str
    source: str  # of the whole module


def mutants(package: Path, module: str, left_out: list[str], count: int | None, seed: int) -> list[Mutant]:
    """All that the operators offer; or `count` of the places where they offer something, with one drawn at each."""
    source = (package / module).read_text()
    places = _places(source, left_out)
    if count is None:
        return [_mutant(source, module, *offer) for place in sorted(places) for offer in places[place]]
    draw = random.Random(f"{seed} {module}")  # noqa: S311, nothing secret
    chosen = sorted(draw.sample(sorted(places), min(count, len(places))))
    return [_mutant(source, module, *draw.choice(places[place])) for place in chosen]


def _places(source: str, left_out: list[str]) -> dict[tuple[int, int], list[tuple[str, int, int]]]:
    """(operator, occurrence, line) by line and column."""
    found: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
    nodes = list(ast_nodes(get_ast(source)))
    for name in _operators(left_out):
        operator = get_operator(name)()
        starts = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, (line, column) in enumerate(starts):
            found.setdefault((line, column), []).append((name, occurrence, line))
    return found


def _operators(left_out: list[str]) -> Iterator[str]:
    for name in operator_names():
        unused = any(re.fullmatch(pattern, name.partition("/")[2]) for pattern in left_out)
        if not unused and not get_operator(name).arguments():  # those with arguments need a setting each
            yield name


def _mutant(source: str, module: str, name: str, occurrence: int, line: int) -> Mutant:
    changed = mutate_code(source, get_operator(name)(), occurrence)
    before, after = source.splitlines(), changed.splitlines()
    differing = [n for n, (old, new) in enumerate(zip(before, after, strict=False)) if old != new]
    n = differing[0] if differing else line - 1
    return Mutant(module, n + 1, name.partition("/")[2], before[n].strip(), after[n].strip(), changed)
