"""What the DaemonSets of a simon configuration take of a node that capacity planning adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import PodShape
from pilotage.workloads.manifests import DAEMON_TOLERATIONS
from pilotage.workloads.node_template import OPTION
from pilotage.workloads.simon_survey import Survey


def daemons_on(node: Node, surveys: Iterable[Survey]) -> dict[str, PodShape]:
    """The DaemonSets that would make a pod for this node, by name, without those whose pods are marked to fail."""
    found: dict[str, PodShape] = {}
    for survey in surveys:
        for name, shape in survey.daemons.items():
            special, rules = survey.specials.get(name), shape.constraints
            tolerant = replace(rules, tolerations=(*rules.tolerations, *DAEMON_TOLERATIONS))
            if not (special and special.unscheduled) and tolerant.allows(node.name, dict(node.labels), node.taints):
                found[name] = shape
    return found


def beside_daemons(template: Node, daemons: Mapping[str, PodShape]) -> Node:
    """The template with what such pods leave to others. A part of a device counts as the whole one.

    Where they do not fit, every added node would bring a pod without a place: an error.
    """
    shapes = daemons.values()
    extended = Counter(dict(template.extended))
    for shape in shapes:
        extended.subtract(dict(shape.extended))
    left = replace(
        template,
        cpu_milli=template.cpu_milli - sum(shape.cpu_milli for shape in shapes),
        memory_bytes=template.memory_bytes - sum(shape.memory_bytes for shape in shapes),
        pods=template.pods - len(daemons),
        gpu_count=template.gpu_count - sum(shape.gpu_count for shape in shapes),
        extended=tuple(sorted(extended.items())),
    )
    amounts = {"cpu": left.cpu_milli, "memory": left.memory_bytes, "places for pods": left.pods, "GPUs": left.gpu_count}
    short = [what for what, amount in (*amounts.items(), *left.extended) if amount < 0]
    if any(shape.gpu_count and not shape.accepts_model(template.gpu_model) for shape in shapes):
        short.append("GPUs of the right model")
    if short:
        problem = f"such a node has not enough {' and '.join(short)} for the pods of DaemonSets: {', '.join(daemons)}"
        raise InputError(problem, field=OPTION, expected="a larger node, or one that these DaemonSets keep off")
    return left
