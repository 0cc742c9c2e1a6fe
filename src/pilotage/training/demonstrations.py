"""Recorded decisions of any scheduler, with what it saw when it made them.

The recording is played again on the cluster it was made on: each pod goes where it went, when it went there. A recorded
cluster may have thousands of nodes, so of each decision the chosen node and a draw of the other candidates are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from pilotage.kernels.feasibility import feasible_some
from pilotage.kernels.features import RACK, ZONE
from pilotage.kernels.inputs import NODE_INPUTS, POD_INPUTS, encode_inputs
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.errors import InputError, PilotageError, UnknownNameError
from pilotage.model.workload import BoolArray, IntArray, PodShape
from pilotage.policies.encode import encode_nodes, encode_shapes
from pilotage.training.networks import rows_of
from pilotage.training.observation import Observation
from pilotage.workloads.parquet_reading import read_parquet

REQUESTS = ("cpu_milli", "memory_bytes", "gpu_milli", "gpu_count")
TIMES = ("placed_at", "ended_at")
ASKED = (*REQUESTS, "gpu_models")  # in the order of PodShape
COLUMNS = (*ASKED, "node", "devices", *TIMES)
LINE = "line"  # number of a row in the file, from 1: rows of pods without a node are left out
KINDS = (*["Int64"] * len(REQUESTS), "String", "String", "List(Int64)", *["Float64"] * len(TIMES))


@dataclass(frozen=True)
class Demonstrations:
    """Decisions to imitate: what was seen, and which of the kept nodes was chosen."""

    observation: Observation
    action_B: torch.Tensor
    digest: str  # of the recording

    def __len__(self) -> int:
        return len(self.action_B)


class _Event(NamedTuple):
    """A pod comes to its node or leaves it. In the order of the fields: at the same moment others leave first."""

    time: float
    own_moment: bool  # of its coming: also true of a pod's leaving if it stayed for no time
    row: int
    leaves: bool


def read_demonstrations(decisions: Path, nodes: tuple[Node, ...], candidates: int, seed: int) -> Demonstrations:
    """Decisions of `pilotage simulate --out`, played again on its nodes."""
    table = _read_table(decisions)
    state = ClusterState(nodes)
    shapes = [PodShape(*asked) for asked in zip(*(table[name] for name in ASKED), strict=True)]
    lines = table[LINE]
    chosen = [_position(state, name, decisions, line) for line, name in zip(lines, table["node"], strict=True)]
    devices = [sum(1 << d for d in bits or ()) for bits in table["devices"]]
    replay = _Playing(state, list(dict.fromkeys(shapes)), candidates, np.random.default_rng(seed))
    for event in _events(table, decisions):
        key, shape, node = str(event.row), shapes[event.row], chosen[event.row]
        if event.leaves:
            state.remove(key)
            continue
        replay.look(shape, node, decisions, lines[event.row])
        try:
            state.add(key, shape, node, devices[event.row])
        except PilotageError as error:
            raise InputError(str(error), file=decisions, row=lines[event.row]) from error
    if not replay.actions:
        raise InputError("has no pod that was placed", file=decisions)
    return replay.demonstrations(hashlib.sha256(decisions.read_bytes()).hexdigest())


class _Playing:
    """Writes down what is seen before each decision."""

    def __init__(
        self, state: ClusterState, shapes: list[PodShape], candidates: int, random: np.random.Generator
    ) -> None:
        self.state, self.candidates, self.random = state, candidates, random
        self.number = {shape: s for s, shape in enumerate(shapes)}
        self.shapes = encode_shapes(state, shapes)
        self.rank_N = np.arange(len(state.nodes))
        self.pods: list[np.ndarray] = []
        self.kept: list[tuple[np.ndarray, ...]] = []
        self.actions: list[int] = []

    def look(self, shape: PodShape, node: int, file: Path, line: int) -> None:
        N, s = len(self.state.nodes), self.number[shape]
        feasible_N = np.zeros(N, np.bool_)
        feasible_some(self.state.arrays, self.shapes, s, self.rank_N, feasible_N)
        if not feasible_N[node]:
            problem = f"pod went to {self.state.nodes[node].name!r}, where it does not fit"
            raise InputError(problem, file=file, row=line, field="node", expected="the nodes of the recording")
        node_NF = encode_nodes(self.state, self.rank_N)
        pod_I, node_NI = np.zeros(len(POD_INPUTS), np.float32), np.zeros((N, len(NODE_INPUTS)), np.float32)
        encode_inputs(self.shapes.pod_SF[s], node_NF, self.state.arrays.device_left_ND, pod_I, node_NI)
        keep = self._draw(feasible_N, node)
        self.pods.append(pod_I)
        self.kept.append((node_NI[keep], node_NF[keep, RACK].astype(np.int64), node_NF[keep, ZONE].astype(np.int64)))
        self.actions.append(int(np.flatnonzero(keep == node)[0]))

    def _draw(self, feasible_N: BoolArray, node: int) -> IntArray:
        """The chosen node and some others, in the order of nodes: the position tells nothing."""
        others = np.flatnonzero(feasible_N & (self.rank_N != node))
        some = self.random.choice(others, min(len(others), self.candidates - 1), replace=False)
        return np.sort(np.append(some, node))

    def demonstrations(self, digest: str) -> Demonstrations:
        B, N = len(self.actions), max(len(nodes) for nodes, _, _ in self.kept)
        node_BNI, mask_BN = torch.zeros(B, N, len(NODE_INPUTS)), torch.zeros(B, N, dtype=torch.bool)
        place_2BN = torch.full((2, B, N), -1)
        for b, (node_NI, *places) in enumerate(self.kept):
            node_BNI[b, : len(node_NI)] = torch.from_numpy(node_NI)
            mask_BN[b, : len(node_NI)] = True
            for place_BN, place_N in zip(place_2BN, places, strict=True):
                place_BN[b, : len(node_NI)] = torch.from_numpy(place_N)
        rows_BNI = rows_of(node_BNI, torch.from_numpy(np.stack(self.pods)))
        return Demonstrations(Observation(rows_BNI, mask_BN, *place_2BN), torch.tensor(self.actions), digest)


def _read_table(path: Path) -> dict[str, list[Any]]:
    """Columns of placed pods, in the types that `pilotage simulate` writes."""
    if not path.is_file():
        raise InputError("no such file", file=path, field="--decisions")
    table = read_parquet(path, COLUMNS)
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        wanted = "decisions.parquet of pilotage simulate --out"
        raise InputError(f"has no column {', '.join(missing)}", file=path, expected=wanted)
    for name, kind in zip(COLUMNS, KINDS, strict=True):
        if table[name].kind not in (kind, "Null"):
            raise InputError(f"is of type {table[name].kind}", file=path, field=name, expected=kind)
    rows = [row for row, node in enumerate(table["node"].values) if node is not None]
    placed = {name: [column.values[row] for row in rows] for name, column in table.items()}
    placed[LINE] = [row + 1 for row in rows]
    for name in ASKED:
        if None in placed[name]:
            raise InputError("is empty", file=path, row=placed[LINE][placed[name].index(None)], field=name)
    return placed


def _position(state: ClusterState, name: str, file: Path, line: int) -> int:
    if name not in state.index:
        raise UnknownNameError("node", name, state.index, file=file, row=line)
    return state.index[name]


def _events(table: dict[str, list[Any]], file: Path) -> Iterator[_Event]:
    """In order of time. Without times, pods came in the order of rows and stayed."""
    starts = [float(row) if start is None else start for row, start in enumerate(table["placed_at"])]
    events = [_Event(start, True, row, False) for row, start in enumerate(starts)]
    for row, (start, end) in enumerate(zip(starts, table["ended_at"], strict=True)):
        if end is None or not np.isfinite(end):
            continue
        if not end >= start:
            problem = f"is {end:g}, before the pod was placed"
            expected = f"{start:g} or later"
            raise InputError(problem, file=file, row=table[LINE][row], field="ended_at", expected=expected)
        events.append(_Event(end, end == start, row, True))
    yield from sorted(events)
