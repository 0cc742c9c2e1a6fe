"""A run: cluster, arrivals and policy put together, carried out, and what came of it.

Nodes are reordered so that a node's position is its rank in the order that breaks ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pilotage.kernels.devices import DEVICE_RULES
from pilotage.kernels.episode import empty_tape, run_episode
from pilotage.kernels.scene import SEQUENCE, Scene, Timeline
from pilotage.model.cluster import ClusterState, Node
from pilotage.model.errors import InputError
from pilotage.model.workload import IntArray, PodShape, Workload
from pilotage.policies.api import Policy, WorkloadMix, compiled_rules, device_rule_of, prepared
from pilotage.policies.scenes import arrivals_only, scene_of, series_over
from pilotage.sim.first_compile import share_first_compile
from pilotage.sim.interpreted import Interpreter


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod that is there before the run begins, and stays."""

    shape: PodShape
    node: str
    devices: int = 0  # bit mask


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A node fails or recovers."""

    time: float
    node: str
    up: bool


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How a run goes, whatever the policy."""

    retry: bool = False  # pods that do not fit wait; False: they are refused for good
    timed: bool = False  # pods come and go at their times (always, with retries); False: they stay (OpenB protocol)
    seed: int = 0  # of random choices
    until: float = float("inf")  # seconds; the clock stops here
    measure: tuple[float, float] = (0.0, 0.0)  # window of time-weighted means, seconds
    samples: int = 0  # points of the time series over the window
    node_events: tuple[NodeEvent, ...] = field(default=())
    tape: bool = True  # figures after each decision; only without retries
    reasons: bool = False  # why pods were not placed; costs a look at every node per such pod


class Run:
    """One policy on one arrival order. `advance` carries it out; afterwards the arrays hold the outcome."""

    def __init__(
        self,
        nodes: Sequence[Node],
        workload: Workload,
        policy: Policy,
        settings: RunSettings = RunSettings(),
        *,
        rank_N: IntArray | None = None,
        mix: WorkloadMix | None = None,
        placed: Sequence[Placed] = (),
    ) -> None:
        if not nodes:
            raise InputError("the cluster has no node")
        if not len(workload):
            raise InputError("the trace has no pod")
        share_first_compile()
        order = np.argsort(rank_N) if rank_N is not None else np.arange(len(nodes))
        self.settings, self.workload = settings, workload
        asked = {name for shape in workload.shapes for name, _ in shape.extended}
        asked |= {name for pod in placed for name, _ in pod.shape.extended}
        self.position_N = np.argsort(order)  # of each given node, in the order that breaks ties
        self.state = ClusterState([nodes[n] for n in order], asked)
        for number, pod in enumerate(placed):
            self.state.add(f"placed-{number}", pod.shape, self.state.index[pod.node], pod.devices)
        self.mix = (mix or WorkloadMix.of(workload)).on(self.state)
        self.policy = prepared(policy, self.mix)
        self.device_rule = DEVICE_RULES.index(device_rule_of(self.policy))
        decisions = len(workload) if settings.tape and not settings.retry else 0
        self.tape = empty_tape(decisions, len(workload) if settings.reasons else 0)
        self.rules = compiled_rules(self.policy)
        self.scene = self._scene()
        self.interpreter = Interpreter(self.scene, workload, self.policy, settings.seed)

    def _scene(self) -> Scene:
        settings = self.settings
        return scene_of(
            self.state,
            self.workload.shapes,
            self.mix,
            self.rules,
            self._timeline(),
            series_over(*settings.measure, settings.samples),
            about_gangs=self.policy.features.about_gangs,
        )

    def _timeline(self) -> Timeline:
        state, settings, workload = self.state, self.settings, self.workload
        events = sorted(settings.node_events, key=lambda event: event.time)
        for event in events:
            if event.node not in state.index:
                raise InputError(f"node event names an unknown node {event.node!r}")
        timed = settings.timed or settings.retry
        order = np.argsort(workload.arrival_P, kind="stable") if timed else None
        if order is not None and (np.diff(order) < 0).any():
            raise InputError("pods are not in order of arrival")
        gangs, plain = gang_members(workload, whole=settings.retry), arrivals_only(workload.shape_P)
        return plain._replace(
            arrival_P=workload.arrival_P if timed else plain.arrival_P,
            duration_P=workload.duration_P.copy() if timed else plain.duration_P,
            gang_P=workload.gang_P if gangs else plain.gang_P,
            whole_gangs=settings.retry,
            gang_start_G=np.cumsum([0, *(len(members) for members in gangs)], dtype=np.int64),
            gang_member_Q=np.concatenate([np.zeros(0, np.int64), *gangs]),
            event_time_E=np.array([event.time for event in events], np.float64),
            event_node_E=np.array([state.index[event.node] for event in events], np.int64),
            event_up_E=np.array([event.up for event in events], np.bool_),
            retry=settings.retry,
            until=settings.until,
        )

    def advance_to(self, moment: float) -> None:
        """Carries the run on to a moment; a later call goes on from there."""
        scene = self.scene
        self.scene = scene._replace(timeline=scene.timeline._replace(until=moment))
        self.interpreter.scene = self.scene
        self.advance()

    def advance(self, stop_at: int = -1) -> int:
        """Carries the run on to its end (-1), or to the first decision about pod `stop_at`, which is left open."""
        if self.rules is None:
            return self.interpreter.advance(self.tape, stop_at)
        seed = self.settings.seed
        return int(run_episode(self.scene, self.rules, self.device_rule, seed, self.tape, stop_at))

    @property
    def decisions(self) -> int:
        """Decisions so far; a pod that is tried again counts again."""
        return int(self.scene.progress.counter_X[SEQUENCE])


def gang_members(workload: Workload, *, whole: bool) -> tuple[IntArray, ...]:
    """Rows of each gang's pods, in order of arrival. A gang that starts whole can never start with a pod missing."""
    if not len(workload.gang_P):
        return ()
    order = np.argsort(workload.gang_P, kind="stable")
    rows = tuple(np.split(order, np.searchsorted(workload.gang_P[order], np.arange(len(workload.gangs)))))[1:]
    if not whole:
        return rows
    for gang, members in zip(workload.gangs, rows, strict=True):
        if len(members) != gang.size:
            raise InputError(
                f"gang {gang.name!r} has {len(members)} pods in the trace", expected=f"its size {gang.size}"
            )
    return rows
