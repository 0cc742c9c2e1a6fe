"""Many clusters that take one action each, in compiled code and in arrays that the caller owns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pilotage.envs.settings import EnvSettings
from pilotage.envs.worlds import rules_of, source_of, world_of
from pilotage.kernels.env_state import (
    FIGURES,
    NODES,
    PODS,
    SEED,
    Buffers,
    empty_buffers,
    fresh_copies,
)
from pilotage.kernels.env_step import FIRST, STARTED, reset_copies, step_copies
from pilotage.model.cluster import ClusterArrays, Node
from pilotage.model.errors import InputError
from pilotage.model.workload import Gang, IntArray, Pod, Workload
from pilotage.policies.api import DecisionBatch

__all__ = ["FIGURES", "Buffers", "VectorCluster", "empty_buffers"]

ENDLESS = 2**40  # episodes: more than anybody plays


class VectorCluster:
    """`copies` clusters of one environment. Episodes have the seeds `seed`, `seed + 1`, ... in the order they begin.

    So copy b begins with the episode of seed + b. After `episodes` of them the first seed comes again: a training stays
    within its range of seeds. An episode in which no pod fits anywhere is passed over.
    """

    def __init__(
        self,
        settings: EnvSettings,
        copies: int,
        seed: int,
        buffers: Buffers | None = None,
        *,
        episodes: int = ENDLESS,
    ) -> None:
        if copies < 1 or episodes < 1:
            raise InputError(f"{copies} copies, {episodes} episodes", expected="at least one of each")
        self.settings, self.copies, self.nodes = settings, copies, settings.nodes[1]
        self.source = source_of(settings)
        self.world, self.rules = world_of(self.source), rules_of(settings)
        most_pods = max(1, int(settings.pods_per_node * self.nodes + 0.5))
        self.state_of_copies = fresh_copies(self.world, copies, self.nodes, most_pods)
        self.buffers = empty_buffers(copies, self.nodes) if buffers is None else self._checked(buffers)
        self._seeds_3 = np.array([seed, episodes, 0], np.int64)

    def _checked(self, buffers: Buffers) -> Buffers:
        wanted_arrays, given_arrays = empty_buffers(self.copies, self.nodes)._asdict(), buffers._asdict()
        for name, wanted in wanted_arrays.items():
            given = given_arrays[name]
            if given.shape != wanted.shape or given.dtype != wanted.dtype or not given.flags.c_contiguous:
                problem = f"shape {given.shape}, {given.dtype}"
                raise InputError(problem, field=name, expected=f"contiguous, shape {wanted.shape}, {wanted.dtype}")
        return buffers

    def reset(self, seed: int | None = None) -> Buffers:
        """New episodes in all copies; `seed` is that of the first, without it the count goes on."""
        if seed is not None:
            self._seeds_3[FIRST], self._seeds_3[STARTED] = seed, 0
        self._expect(reset_copies(self.world, self.rules, self.state_of_copies, self.buffers, self._seeds_3))
        return self.buffers

    def step(self, action_B: npt.ArrayLike) -> Buffers:
        """One action, the number of a node, in every copy. An action without room costs the penalty and the pod."""
        action_B = np.ascontiguousarray(action_B, np.int64)
        if action_B.shape != (self.copies,):
            raise InputError(f"actions of shape {action_B.shape}", expected=f"one for each of {self.copies} copies")
        going = step_copies(self.world, self.rules, self.state_of_copies, self.buffers, self._seeds_3, action_B)
        self._expect(going)
        return self.buffers

    def _expect(self, going: bool) -> None:
        if not going:
            raise InputError("no pod of the workload fits on any node", field="workload")

    def decisions(self) -> DecisionBatch:
        """The decisions that are due, as policies see them. Views: they change with the next step."""
        copies = self.state_of_copies
        return DecisionBatch(copies.pod_F, copies.node_NF, copies.cluster.device_left_ND, self.buffers.mask_BN)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything that changes, copied: with it `restore` goes on exactly from here."""
        return {name: array.copy() for name, array in self._arrays().items()}

    def restore(self, state: dict[str, npt.NDArray[np.generic]]) -> None:
        mine = self._arrays()
        if mine.keys() != state.keys() or any(mine[name].shape != array.shape for name, array in state.items()):
            raise InputError("a state of other settings or another number of copies")
        for name, array in state.items():
            mine[name][...] = array

    def _arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        copies = self.state_of_copies
        rest = copies._asdict()
        del rest["cluster"]
        parts = (("cluster", copies.cluster._asdict()), ("copy", rest), ("buffer", self.buffers._asdict()))
        arrays = {f"{part}.{name}": array for part, named in parts for name, array in named.items()}
        return {**arrays, "seeds": self._seeds_3}

    def cluster(self, copy: int) -> ClusterArrays:
        """The cluster of one copy as it is now."""
        return ClusterArrays(*(array[copy] for array in self.state_of_copies.cluster))

    def episode(self, copy: int) -> tuple[list[Node], Workload]:
        """Nodes and pods of the episode that is played in a copy, to repeat it in the simulator."""
        copies, shapes = self.state_of_copies, self.source.workload.shapes
        counter_X = copies.counter_X[copy]
        nodes = [self.source.nodes[k] for k in copies.kind_N[copy, : counter_X[NODES]]]
        pods = []
        for p in range(counter_X[PODS]):
            start, end = int(copies.gang_start_P[copy, p]), int(copies.gang_end_P[copy, p])
            gang = Gang(f"gang-{start}", end - start) if end > start else None
            pods.append(Pod(f"pod-{p}", shapes[copies.shape_P[copy, p]], gang=gang))
        return nodes, Workload.of(pods)

    def placements(self, copy: int) -> tuple[IntArray, IntArray]:
        """Node (-1: not decided yet, -2: none) and devices of every pod of the episode that is played in a copy."""
        copies = self.state_of_copies
        pods = copies.counter_X[copy, PODS]
        return copies.node_P[copy, :pods].copy(), copies.devices_P[copy, :pods].copy()

    @property
    def seed_B(self) -> IntArray:
        """Seeds of the episodes that are played now."""
        return self.state_of_copies.counter_X[:, SEED].copy()
