"""Findings about a trace: what will surprise whoever runs it, each with a code that the documentation explains.

Pods are checked by shape and nodes by configuration, so that a million pods cost no more than their few shapes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal, NamedTuple, TypeVar

import numpy as np

from pilotage.model.cluster import Node
from pilotage.model.workload import GPU_MILLI, MIB, BoolArray, IntArray, PodShape, Workload

Want = TypeVar("Want", bound=Hashable)
Offer = TypeVar("Offer", bound=Hashable)
Severity = Literal["error", "warning", "info"]
SHOWN_PER_CODE: Final = 100  # a broken trace has the same finding a million times
_CHUNK: Final = 1 << 22  # cells of shapes x nodes looked at together: bounds memory
_LEGAL_NAME: Final = re.compile(r"([a-z0-9-]+/)?(?=.{1,253}\Z)[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z")  # namespace/name
_NUMBERED_NAME: Final = re.compile(r"(.*?)(\d+)\Z", re.DOTALL)


class Code(NamedTuple):
    """What a finding means and what to do about it, in one line each."""

    severity: Severity
    meaning: str
    advice: str


CODES: Final[dict[str, Code]] = {
    "P0001": Code("error", "A pod fits on no node, even an empty one.", "Correct the request or add a node for it."),
    "P0002": Code("error", "A pod names GPU models of which no node has one.", "Correct the model or add such nodes."),
    "P0003": Code(
        "warning", "A pod wants a part of several devices.", "Check gpu_milli: several devices are mostly whole ones."
    ),
    "P0004": Code("warning", "A pod asks for nothing.", "Give requests: it fits anywhere and no policy can weigh it."),
    "P0005": Code("info", "Demand of all pods in percent of capacity.", "Nothing; it tells how full the cluster gets."),
    "P0006": Code(
        "warning",
        "All pods together want more than the cluster has.",
        "Nothing if overload is meant; else fewer pods or more nodes.",
    ),
    "P0007": Code("warning", "A pod runs for no time.", "Check the times: it is placed and gone in the same moment."),
    "P0008": Code(
        "info",
        "Pods are not in order of arrival.",
        "Nothing; timed runs take them by time, others shuffle them.",
    ),
    "P0009": Code(
        "error", "A gang is larger than the empty cluster can hold.", "Make the gang smaller or the cluster larger."
    ),
    "P0010": Code("error", "A gang has fewer pods than its size.", "Add pods or correct its size: it never starts."),
    "P0011": Code("info", "Nodes without GPU in a trace with GPU pods.", "Nothing; only CPU pods can use them."),
    "P0012": Code(
        "warning", "Names end in numbers of different width.", "Pad with zeros: name order is not number order."
    ),
    "P0013": Code("error", "Two nodes have the same name.", "Rename one of them."),
    "P0014": Code("error", "Two pods have the same name.", "Rename one of them."),
    "P0015": Code(
        "warning", "A name that Kubernetes would refuse.", "Use lower case letters, digits, '-' and '.' to convert it."
    ),
    "P0016": Code("warning", "A node that can hold nothing.", "Give it CPU, memory and room for pods, or remove it."),
    "P0017": Code("warning", "One of several named GPU models exists on no node.", "Check its spelling."),
    "P0018": Code(
        "warning", "A GPU node without model while pods name models.", "Give its model: such pods never go there."
    ),
    "P0019": Code("error", "There are no nodes, or no pods.", "Check that the right files were given."),
    "P0020": Code("info", "A pod asks for CPU or GPU but no memory.", "Check that memory was recorded."),
    "P0021": Code(
        "warning",
        "A gang has more pods than its size.",
        "Correct its size: pods of a gang start together.",
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a trace, and which pod, node, gang or resource it is about."""

    code: str
    severity: Severity
    where: str
    message: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def check(nodes: Sequence[Node], workload: Workload) -> list[Finding]:
    """All findings, errors first, then by code; of very many with the same code only the first are given."""
    if not nodes or not len(workload):
        return [_finding("P0019", "trace", f"{len(nodes)} nodes and {len(workload)} pods")]
    trace = _Trace.of(nodes, workload)
    found = [finding for rule in _RULES for finding in _limited(rule(trace))]
    rank = {"error": 0, "warning": 1, "info": 2}
    return sorted(found, key=lambda finding: (rank[finding.severity], finding.code))


def _limited(findings: Iterator[Finding]) -> Iterator[Finding]:
    by_code: dict[str, int] = defaultdict(int)
    for finding in findings:
        by_code[finding.code] += 1
        if by_code[finding.code] <= SHOWN_PER_CODE:
            yield finding
    for code, number in by_code.items():
        if number > SHOWN_PER_CODE:
            yield _finding(code, "trace", f"and {number - SHOWN_PER_CODE} more like these")


def _finding(code: str, where: str, message: str) -> Finding:
    return Finding(code, CODES[code].severity, where, message)


@dataclass(frozen=True)
class _Trace:
    """A trace as the rules look at it: used shapes (S) with their pods, distinct nodes (D) with their number."""

    nodes: Sequence[Node]
    workload: Workload
    shapes: tuple[PodShape, ...]
    pods_S: IntArray
    first_S: IntArray
    kinds: tuple[Node, ...]
    nodes_D: IntArray

    @classmethod
    def of(cls, nodes: Sequence[Node], workload: Workload) -> _Trace:
        used, first_S, pods_S = np.unique(workload.shape_P, return_index=True, return_counts=True)
        shapes = tuple(workload.shapes[s] for s in used)
        named = any(shape.constraints.node_name for shape in shapes)
        kinds: dict[Node, int] = defaultdict(int)
        for node in nodes:
            kinds[node if named else replace(node, name="")] += 1
        return cls(nodes, workload, shapes, pods_S, first_S, tuple(kinds), np.array(list(kinds.values())))

    def where(self, s: int) -> str:
        others = int(self.pods_S[s]) - 1
        return f"pod {self.workload.names[self.first_S[s]]}" + (f" and {others} of the same shape" if others else "")

    def models(self) -> set[str]:
        return {node.gpu_model for node in self.kinds if node.gpu_count}


# Pods against nodes


def _misfits(trace: _Trace) -> Iterator[Finding]:
    models = trace.models()
    rows = max(1, _CHUNK // len(trace.kinds))
    for start in range(0, len(trace.shapes), rows):
        tests = _tests(trace.shapes[start : start + rows], trace.kinds)
        fits_SD = np.logical_and.reduce(list(tests.values()))
        for row in np.flatnonzero(~fits_SD.any(axis=1)):
            shape, where = trace.shapes[start + row], trace.where(start + int(row))
            if not any(shape.accepts_model(model) for model in models) and models and shape.gpu_count:
                yield _finding(
                    "P0002", where, f"wants {shape.gpu_models}; nodes have {', '.join(sorted(filter(None, models)))}"
                )
                continue
            lacking = [what for what, ok_SD in tests.items() if not ok_SD[row].any()]
            yield _finding("P0001", where, _reason(shape, lacking, trace.kinds))


def _tests(shapes: Sequence[PodShape], kinds: Sequence[Node]) -> dict[str, BoolArray]:
    """For every kind of need, on which empty nodes (D) it is met for each shape (S)."""
    tests = {
        "CPU": _enough([s.cpu_milli for s in shapes], [n.cpu_milli for n in kinds]),
        "memory": _enough([s.memory_bytes for s in shapes], [n.memory_bytes for n in kinds]),
        "GPUs": _enough([s.gpu_count for s in shapes], [n.gpu_count for n in kinds]),
        "room for pods": _enough([1] * len(shapes), [n.pods for n in kinds]),
        "GPU model": _by_pair(
            [s.gpu_models if s.gpu_count else "" for s in shapes],
            [n.gpu_model for n in kinds],
            lambda wanted, model: PodShape(gpu_models=wanted).accepts_model(model),
        ),
        "a node that its constraints allow": _by_pair(
            [s.constraints for s in shapes],
            kinds,
            lambda constraints, node: constraints.allows(node.name, dict(node.labels), node.taints),
        ),
    }
    for name in sorted({name for shape in shapes for name, _ in shape.extended}):
        needs, offers = [dict(s.extended).get(name, 0) for s in shapes], [dict(n.extended).get(name, 0) for n in kinds]
        tests[name] = _enough(needs, offers)
    return tests


def _enough(needs: Sequence[int], offers: Sequence[int]) -> BoolArray:
    enough: BoolArray = np.array(needs, np.int64)[:, None] <= np.array(offers, np.int64)
    return enough


def _by_pair(wanted: Sequence[Want], offered: Sequence[Offer], accepts: Callable[[Want, Offer], bool]) -> BoolArray:
    """`accepts` for all pairs, called once for each distinct pair."""
    wants, offers = list(dict.fromkeys(wanted)), list(dict.fromkeys(offered))
    table = np.array([[accepts(want, offer) for offer in offers] for want in wants], bool)
    want_number, offer_number = ({item: i for i, item in enumerate(items)} for items in (wants, offers))
    rows, columns = [want_number[want] for want in wanted], [offer_number[offer] for offer in offered]
    pairs: BoolArray = table[np.ix_(rows, columns)]
    return pairs


def _reason(shape: PodShape, lacking: Sequence[str], kinds: Sequence[Node]) -> str:
    if not lacking:
        return f"no node has all it needs at once: {_request(shape)}"
    amounts = {
        "CPU": (f"{shape.cpu_milli} milli of CPU", max(n.cpu_milli for n in kinds)),
        "memory": (f"{shape.memory_bytes / MIB:.0f} MiB of memory", round(max(n.memory_bytes for n in kinds) / MIB)),
        "GPUs": (f"{shape.gpu_count} GPUs", max(n.gpu_count for n in kinds)),
    }
    said = [f"no node has {what}" for what in lacking if what not in amounts]
    said += [f"needs {amounts[w][0]}, the largest node has {amounts[w][1]}" for w in lacking if w in amounts]
    return "; ".join(said)


def _request(shape: PodShape) -> str:
    gpu = f", {shape.gpu_count} x {shape.gpu_milli} milli of GPU {shape.gpu_models}".rstrip() if shape.gpu_count else ""
    return f"{shape.cpu_milli} milli of CPU, {shape.memory_bytes / MIB:.0f} MiB{gpu}"


def _model_names(trace: _Trace) -> Iterator[Finding]:
    models = trace.models()
    seen: set[str] = set()
    for s, shape in enumerate(trace.shapes):
        accepted = {entry for entry in shape.gpu_models.split("|") if entry}
        if shape.gpu_count and accepted & models:
            for entry in sorted(accepted - models - seen):
                seen.add(entry)
                yield _finding("P0017", trace.where(s), f"no node has a GPU {entry!r}, wanted as {shape.gpu_models!r}")
    wanted = any(shape.gpu_models and shape.gpu_count for shape in trace.shapes)
    for node in trace.nodes if wanted and "" in models else ():
        if node.gpu_count and not node.gpu_model:
            yield _finding("P0018", f"node {node.name}", f"has {node.gpu_count} GPUs of unknown model")


# Pods


def _requests(trace: _Trace) -> Iterator[Finding]:
    for s, shape in enumerate(trace.shapes):
        if shape.gpu_count > 1 and shape.gpu_milli < GPU_MILLI:
            yield _finding("P0003", trace.where(s), f"wants {shape.gpu_milli} milli of {shape.gpu_count} devices each")
        if not (shape.cpu_milli or shape.memory_bytes or shape.gpu_count or shape.extended):
            yield _finding("P0004", trace.where(s), "asks for no CPU, memory, GPU or other resource")
        elif not shape.memory_bytes:
            yield _finding("P0020", trace.where(s), f"asks for {_request(shape)}")


def _demand(trace: _Trace) -> Iterator[Finding]:
    pods = list(zip(trace.shapes, trace.pods_S.tolist(), strict=True))
    for what, wanted, offered in _totals(pods, list(zip(trace.kinds, trace.nodes_D.tolist(), strict=True))):
        if offered:
            percent = 100 * wanted / offered
            yield _finding("P0005", what, f"all pods together ask for {percent:.1f} % of the nodes' capacity")
            if percent > 100 and not trace.workload.timed:
                yield _finding("P0006", what, f"{percent:.1f} % of capacity and no pod ever leaves")


def _totals(pods: Sequence[tuple[PodShape, int]], nodes: Sequence[tuple[Node, int]]) -> Iterator[tuple[str, int, int]]:
    """What all pods ask for and all nodes have, in Python's numbers: many bytes pass what an int64 holds."""
    yield "CPU", sum(s.cpu_milli * n for s, n in pods), sum(node.cpu_milli * n for node, n in nodes)
    yield "memory", sum(s.memory_bytes * n for s, n in pods), sum(node.memory_bytes * n for node, n in nodes)
    yield "GPU", sum(s.total_gpu_milli * n for s, n in pods), sum(node.gpu_count * GPU_MILLI * n for node, n in nodes)


def _times(trace: _Trace) -> Iterator[Finding]:
    workload = trace.workload
    if not workload.timed:
        return
    zero = np.flatnonzero(workload.duration_P == 0)
    if len(zero):
        yield _finding("P0007", f"pod {workload.names[zero[0]]}", f"{len(zero)} pods have a duration of 0 seconds")
    back = np.flatnonzero(np.diff(workload.arrival_P) < 0) + 1
    if len(back):
        message = f"arrives before the pod above it, as do {len(back) - 1} others"
        yield _finding("P0008", f"pod {workload.names[back[0]]}", message)


# Gangs


def _gangs(trace: _Trace) -> Iterator[Finding]:
    workload = trace.workload
    if not workload.gangs:
        return
    member_rows = np.flatnonzero(workload.gang_P >= 0)
    order = member_rows[np.argsort(workload.gang_P[member_rows], kind="stable")]
    size_G = np.bincount(workload.gang_P[order], minlength=len(workload.gangs))
    slots: dict[int, int] = {}
    capacity = list(zip(trace.kinds, trace.nodes_D.tolist(), strict=True))
    for gang, rows in zip(workload.gangs, np.split(order, np.cumsum(size_G)[:-1]), strict=True):
        where = f"gang {gang.name}"
        if len(rows) != gang.size:
            code = "P0010" if len(rows) < gang.size else "P0021"
            yield _finding(code, where, f"has {len(rows)} pods, its size is {gang.size}")
        numbers, counts = np.unique(workload.shape_P[rows[: gang.size]], return_counts=True)
        members = [(workload.shapes[n], c) for n, c in zip(numbers.tolist(), counts.tolist(), strict=True)]
        for number, (shape, count) in zip(numbers.tolist(), members, strict=True):
            if number not in slots:
                slots[number] = _slots(trace, shape)
            if 0 < slots[number] < count:  # none at all is P0001
                room = f"the empty cluster has room for {slots[number]}"
                yield _finding("P0009", where, f"needs {count} times {_request(shape)}; {room}")
        for what, wanted, offered in _totals(members, capacity) if len(members) > 1 else ():
            if wanted > offered:
                yield _finding("P0009", where, f"needs {100 * wanted / max(offered, 1):.1f} % of the cluster's {what}")


def _slots(trace: _Trace, shape: PodShape) -> int:
    """How many pods of one shape the empty cluster holds."""
    fits = np.logical_and.reduce([ok_SD[0] for ok_SD in _tests([shape], trace.kinds).values()])
    return sum(
        _slots_on(node, shape) * int(number)
        for node, number, ok in zip(trace.kinds, trace.nodes_D, fits, strict=True)
        if ok
    )


def _slots_on(node: Node, shape: PodShape) -> int:
    room = [node.pods]
    needs = [(shape.cpu_milli, node.cpu_milli), (shape.memory_bytes, node.memory_bytes)]
    if shape.gpu_count:  # devices of one pod are distinct, so each takes a slot on gpu_count of them
        needs.append((shape.gpu_count, node.gpu_count * (GPU_MILLI // max(shape.gpu_milli, 1))))
    needs += [(amount, dict(node.extended).get(name, 0)) for name, amount in shape.extended]
    return min(room + [offer // need for need, offer in needs if need])


# Nodes and names


def _empty_nodes(trace: _Trace) -> Iterator[Finding]:
    for node in trace.nodes:
        if not (node.cpu_milli and node.memory_bytes and node.pods):
            message = f"cpu {node.cpu_milli} milli, memory {node.memory_bytes} bytes, room for {node.pods} pods"
            yield _finding("P0016", f"node {node.name}", message)
    without = sum(int(number) for node, number in zip(trace.kinds, trace.nodes_D, strict=True) if not node.gpu_count)
    if without and any(shape.gpu_count for shape in trace.shapes):
        yield _finding("P0011", "nodes", f"{without} of {len(trace.nodes)} nodes have no GPU")


def _names(trace: _Trace) -> Iterator[Finding]:
    node_names = [node.name for node in trace.nodes]
    for what, duplicate, names in (("node", "P0013", node_names), ("pod", "P0014", trace.workload.names)):
        seen: set[str] = set()
        widths: dict[str, int] = {}
        uneven = ""
        for name in names:
            if name in seen:
                yield _finding(duplicate, f"{what} {name}", "the name is used more than once")
            seen.add(name)
            if not _LEGAL_NAME.match(name):
                yield _finding("P0015", f"{what} {name}", "is not a DNS-1123 subdomain")
        for name in names if len({len(name) for name in names}) > 1 else ():
            numbered = _NUMBERED_NAME.match(name)
            if numbered and widths.setdefault(numbered[1], len(numbered[2])) != len(numbered[2]):
                uneven = uneven or name
        if uneven:
            yield _finding("P0012", f"{what} {uneven}", f"has more or fewer digits than other {what}s of this prefix")


_RULES: Final = (_misfits, _model_names, _requests, _demand, _times, _gangs, _empty_nodes, _names)
