"""The kind of node that capacity planning adds: from amounts, from a manifest, or like a node that is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pilotage.model.cluster import MAX_AMOUNT, MAX_DEVICES, Node
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.resources import cpu_milli, parse_quantity, whole
from pilotage.workloads.nodespec import DEFAULT_PODS, HOSTNAME

OPTION = "--add-nodes"
FORMS = "cpu=96,memory=384Gi,gpus=8,model=G2,pods=110, or a file with one Node, or like=NAME of a node"
KEYS = ("cpu", "memory", "gpus", "model", "pods")
SUFFIXES = (".yaml", ".yml", ".json")


def parse(spec: str, nodes: Sequence[Node]) -> Node:
    """The template: `like=NAME` of one of `nodes`, a file with exactly one Node manifest, or amounts (see FORMS)."""
    if spec.startswith("like="):
        return _like(spec.removeprefix("like="), nodes)
    if spec.endswith(SUFFIXES):
        return _from_file(Path(spec))
    return _from_amounts(spec)


def copies(template: Node, count: int, taken: Sequence[Node] = ()) -> list[Node]:
    """`count` nodes like the template, called <template>-added-0001 and so on; names in use are passed over."""
    names = {node.name for node in taken}
    made: list[Node] = []
    number = 0
    while len(made) < count:
        number += 1
        name = f"{template.name}-added-{number:04d}"
        if name not in names:
            made.append(_named(template, name))
    return made


def _named(template: Node, name: str) -> Node:
    """Pods select nodes by the label of the host name as well, and no two nodes share it."""
    labels = tuple((key, name if key == HOSTNAME else value) for key, value in template.labels)
    return replace(template, name=name, labels=labels)


def _like(name: str, nodes: Sequence[Node]) -> Node:
    found = {node.name: node for node in nodes}
    if name not in found:
        raise UnknownNameError("node", name, found, field=OPTION)
    return found[name]


def _from_file(path: Path) -> Node:
    from pilotage.workloads.manifests import read_manifests

    nodes, workload = read_manifests(path)
    if len(nodes) != 1 or len(workload):
        problem = f"{len(nodes)} nodes and {len(workload)} pods"
        raise InputError(problem, file=path, field=OPTION, expected="exactly one Node and no pods")
    return nodes[0]


def _from_amounts(spec: str) -> Node:
    given: dict[str, str] = {}
    for entry in spec.split(","):
        key, equals, value = (part.strip() for part in entry.partition("="))
        if not equals or not value:
            raise InputError(f"{entry.strip()[:60]!r} says nothing", field=OPTION, expected=FORMS)
        if key not in KEYS:
            raise UnknownNameError("key", key, KEYS, field=OPTION)
        if key in given:
            raise InputError(f"{key} is given twice", field=OPTION, expected="each key once")
        given[key] = value
    for key in ("cpu", "memory"):
        if key not in given:
            raise InputError(f"{key} is missing", field=OPTION, expected=FORMS)
    gpus = _count(given, "gpus", MAX_DEVICES, 0)
    if "model" in given and not gpus:
        raise InputError("a model without gpus", field=OPTION, expected="gpus=1 or more beside it")
    return Node(
        name="node",
        cpu_milli=_amount(given, "cpu"),
        memory_bytes=_amount(given, "memory"),
        pods=_count(given, "pods", MAX_AMOUNT, DEFAULT_PODS),
        gpu_count=gpus,
        gpu_model=given.get("model", ""),
    )


def _amount(given: dict[str, str], key: str) -> int:
    try:
        amount = (cpu_milli if key == "cpu" else whole)(given[key])
    except InputError as error:
        raise InputError(error.problem, field=f"{OPTION} {key}", expected=error.expected) from error
    if amount > MAX_AMOUNT:
        raise InputError(f"{given[key]} is too much", field=f"{OPTION} {key}", expected=f"at most {MAX_AMOUNT}")
    return amount


def _count(given: dict[str, str], key: str, most: int, default: int) -> int:
    """Things that cannot be divided."""
    if key not in given:
        return default
    amount = _amount(given, key)
    if parse_quantity(given[key]) != amount or amount > most:
        raise InputError(given[key], field=f"{OPTION} {key}", expected=f"a whole number from 0 to {most}")
    return amount
