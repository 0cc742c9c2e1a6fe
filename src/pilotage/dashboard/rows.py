"""Tables as the page holds them: rows by key, and what changed in them since they were last looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import TypedDict

import numpy as np

from pilotage.dashboard.source import Decision, NodeTable, PendingPod, condition_of, used_devices
from pilotage.model.workload import IntArray

MIB = 2**20
PENDING_SHOWN = 300  # the oldest; all are counted
REASONS_SHOWN = 20

Row = list[object]


class Changes(TypedDict, total=False):
    """Of one table."""

    set: list[Row]  # the first cell is the key
    gone: list[str]


def changes_of(before: Mapping[str, Row], after: Mapping[str, Row]) -> Changes:
    found = Changes()
    if changed := [row for key, row in after.items() if before.get(key) != row]:
        found["set"] = changed
    if gone := [key for key in before if key not in after]:
        found["gone"] = gone
    return found


@dataclass
class NodeRows:
    """Rows of nodes: name, condition, model, zone, CPU milli, used, MiB, used, pods, used, used milli by device."""

    rows: dict[str, Row] = field(default_factory=dict)
    _epoch: int = -1
    _seen_NK: IntArray = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def take(self, table: NodeTable) -> Changes:
        """Costs the nodes that changed, as long as their set is the same."""
        now_NK = np.hstack([table.capacity_N3, table.used_N3, used_devices(table)])
        if table.epoch != self._epoch:
            before, self.rows = self.rows, {}
            for n in range(len(table.nodes)):
                self._put(table, n, now_NK[n].tolist())
            found = changes_of(before, self.rows)
        else:
            changed = np.flatnonzero((now_NK != self._seen_NK).any(axis=1)).tolist()
            found = Changes(set=[self._put(table, n, now_NK[n].tolist()) for n in changed]) if changed else Changes()
        self._epoch, self._seen_NK = table.epoch, now_NK
        return found

    def _put(self, table: NodeTable, n: int, amounts: Sequence[int]) -> Row:
        node = table.nodes[n]
        cpu, memory, pods, cpu_used, memory_used, pods_used, *devices = amounts
        row: Row = [node.name, condition_of(node), node.gpu_model, node.zone]
        row += [cpu, cpu_used, memory // MIB, memory_used // MIB, pods, pods_used]
        row.append(devices[: int(table.device_count_N[n])])
        self.rows[node.name] = row
        return row


def pending_rows(pods: Sequence[PendingPod]) -> dict[str, Row]:
    """The oldest ones: uid, pod, scheduler, request, since, reason."""
    oldest = sorted(pods, key=attrgetter("since", "pod"))
    return {p.uid: [p.uid, p.pod, p.profile, p.request, p.since, p.reason] for p in islice(oldest, PENDING_SHOWN)}


def pending_reasons(pods: Iterable[PendingPod]) -> list[tuple[str, int]]:
    """How many pods wait for each reason, most first; a pod counts for every one it was given."""
    counted = Counter(reason for pod in pods for reason, _ in parse_reasons(pod.reason))
    return counted.most_common(REASONS_SHOWN)


@lru_cache(maxsize=10_000)
def parse_reasons(message: str) -> tuple[tuple[str, int], ...]:
    """The counted reasons of a scheduler's message: "0/5 nodes are available: 2 Insufficient cpu, 3 ...".

    A message of another form is one reason, counted 0.
    """
    if not message:
        return (("not decided yet", 0),)
    head, _, rest = message.partition(" nodes are available: ")
    if not rest or not head.replace("/", "").isdigit():
        return ((message, 0),)
    listed = rest.partition(". ")[0].rstrip(".")  # then comes what was tried to make room, and why in vain
    found = []
    for text in listed.split(", "):
        count, _, reason = text.partition(" ")
        found.append((reason, int(count)) if count.isdigit() and reason else (text, 0))
    return tuple(found)


def decision_row(decision: Decision) -> Row:
    return [
        decision.number,
        decision.time,
        decision.pod,
        decision.profile,
        decision.policy,
        decision.request,
        decision.node,
        decision.devices,
        decision.message,
        decision.waited,
        decision.advised,
    ]
