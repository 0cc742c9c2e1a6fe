"""Room that is kept for pods that others were told to make place for (status.nominatedNodeName).

A claim takes room in the arrays as a pod would, so that nobody of the same or lower priority slips in while the others
leave. It counts for resources and devices, not for rules between pods. For a decision about a pod of higher priority,
and about the claimant itself, it is lifted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pilotage.kube.podview import PodView
from pilotage.model.cluster import ClusterState
from pilotage.model.workload import IntArray, PodShape


class Holder(Protocol):
    """The cache, as far as claims need it."""

    state: ClusterState

    def note_change(self, n: int) -> None: ...

    def devices_for(self, mask: int, shape: PodShape, n: int) -> int: ...


@dataclass
class Claim:
    """One of them."""

    node: str
    shape: PodShape
    devices: int = 0
    confirmed: bool = False  # the API server has it, too


def _key(uid: str) -> str:
    return f"claim of {uid}"


@dataclass
class Claims:
    """By uid of the pods that wait for their room."""

    holder: Holder
    known: dict[str, Claim] = field(default_factory=dict)

    def node_of(self, uid: str) -> str:
        claim = self.known.get(uid)
        return claim.node if claim is not None else ""

    def follow(self, pod: PodView) -> bool:
        """A pod that waits, as the API server has it. Whether room is free now that it had claimed."""
        claim = self.known.get(pod.uid)
        if claim is not None and claim.node == pod.nominated:
            claim.confirmed = True
        elif pod.nominated:
            self.set(pod, pod.nominated, confirmed=True)
            return claim is not None
        elif claim is not None and claim.confirmed:
            self.drop(pod.uid)
            return True
        return False

    def set(self, pod: PodView, node: str, devices: int = 0, *, confirmed: bool = False) -> None:
        self.drop(pod.uid)
        self.known[pod.uid] = Claim(node, pod.shape, devices, confirmed)
        self._lay(pod.uid)

    def drop(self, uid: str) -> None:
        if uid in self.known:
            self._lift(uid)
            del self.known[uid]

    def of(self, pods: Iterable[PodView]) -> dict[str, Claim]:
        """Those of these pods by uid, for `put_back` where the pods are only tried on nodes: assuming one drops its
        claim."""
        return {pod.uid: self.known[pod.uid] for pod in pods if pod.uid in self.known}

    def put_back(self, claims: Mapping[str, Claim]) -> None:
        for uid, claim in claims.items():
            self.drop(uid)
            self.known[uid] = claim
            self._lay(uid)

    def lay_again(self) -> None:
        """After the nodes changed: those whose node went and came back, or has other devices."""
        for uid in self.known:
            if self.holder.state.placement(_key(uid)) is None:
                self._lay(uid)

    @contextmanager
    def lifted_for(self, pod: PodView) -> Iterator[None]:
        """Without the claims that do not bind this pod: its own, and those of lower priority."""
        priority = pod.shape.priority
        away = [uid for uid, claim in self.known.items() if uid == pod.uid or claim.shape.priority < priority]
        for uid in away:
            self._lift(uid)
        try:
            yield
        finally:
            for uid in away:
                if uid in self.known:
                    self._lay(uid)

    def taken_on(self, n: int) -> tuple[IntArray, IntArray]:
        """Resources and devices of a node that are claimed and not used."""
        state = self.holder.state
        amount_R, amount_D = np.zeros(len(state.resources), np.int64), np.zeros_like(state.arrays.device_left_ND[n])
        for uid in self.known:
            placement = state.placement(_key(uid))
            if placement is not None and placement.node == n:
                amount_R += state.demand(placement.shape).request_R
                for d in range(len(amount_D)):
                    amount_D[d] += placement.shape.gpu_milli * ((placement.devices >> d) & 1)
        return amount_R, amount_D

    def _lay(self, uid: str) -> None:
        claim, state = self.known[uid], self.holder.state
        n = state.index.get(claim.node)
        if n is None or claim.shape.gpu_count > state.arrays.device_count_N[n]:
            return  # a claim on a node that is not there holds nothing
        state.add(_key(uid), claim.shape, n, self.holder.devices_for(claim.devices, claim.shape, n))
        self.holder.note_change(n)

    def _lift(self, uid: str) -> None:
        state = self.holder.state
        placement = state.placement(_key(uid))
        if placement is not None:
            state.remove(_key(uid))
            self.holder.note_change(placement.node)
