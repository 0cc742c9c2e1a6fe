"""The scheduler extender: kube-scheduler asks, by the format extender/v1.

It has filtered and knows what it has assumed; this service knows devices. So filter looks at GPU shares (and limits of
latency) alone, prioritize scores what is offered, and bind chooses the devices and writes them with the binding.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from pilotage.kernels.choosing import INFEASIBLE
from pilotage.kernels.feasibility import FITS, NOT_ELIGIBLE, obstacles
from pilotage.kube.binding import Binder
from pilotage.kube.cache import ClusterCache
from pilotage.kube.client import Client
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.kube.filters import LATENCY, too_slow
from pilotage.kube.podview import PodView, read_pod
from pilotage.model.errors import PolicyError, StateError
from pilotage.model.workload import BoolArray, IntArray, PodShape
from pilotage.policies.api import device_rule_of
from pilotage.policies.choose import devices_for
from pilotage.policies.encode import encode_shapes
from pilotage.serving.logs import log
from pilotage.serving.metrics import Metrics
from pilotage.serving.pods import FILTERED, offered_pod
from pilotage.serving.problems import invalid, not_ready
from pilotage.serving.scale import scaled
from pilotage.serving.showing import Scored
from pilotage.serving.v1 import Own
from pilotage.serving.wire import (
    BindingArgs,
    BindingResult,
    ExtenderArgs,
    FilterResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    Named,
    NodeList,
    PreemptionArgs,
    PreemptionResult,
)

TOP = 10  # MaxExtenderPriority
NOT_KNOWN = "not in the service's view of the cluster yet"
NO_MODEL = "no GPU of the requested model"
NO_GPU = "not enough GPU left on its devices"
NOT_BOUND = {
    "elsewhere": "the pod is on another node already",
    "gone": "the pod is gone",
    "failed": "the API server did not take the binding",
}
FORGOTTEN = ("gone", "failed")  # the room is free again; else the watch tells where the pod is
KNOWN = ("bound", *NOT_BOUND)
NOT_CERTAIN = "whether the API server took the binding is not known"
_named = msgspec.json.Decoder(Named)


@dataclass
class Extender:
    """The four verbs on the service's own view of the cluster."""

    own: Own
    binder: Binder | None  # None: of a cluster that is only looked at
    metrics: Metrics
    on_scored: Callable[[str, Scored], None] | None = None  # uid of the pod, and what is answered

    @property
    def cache(self) -> ClusterCache:
        return self.own.scoring.cache

    def filter(self, args: ExtenderArgs) -> FilterResult:
        names = self._ready_names(args)
        pod = offered_pod(args.Pod)
        if pod.problem:
            return _passed(args, names, [], dict.fromkeys(names, pod.problem), final=True)
        failed = dict(self._refusals(pod, names))
        return _passed(args, names, [name for name in names if name not in failed], failed)

    def prioritize(self, args: ExtenderArgs) -> list[HostPriority]:
        names = self._ready_names(args)
        pod = offered_pod(args.Pod)
        if pod.problem:
            return [HostPriority(name, 0) for name in names]
        said = self.own.scoring.verdict(pod, None)
        index = self.cache.state.index
        nodes = np.array([index.get(name, -1) for name in names], np.int64)
        total_C = np.full(len(names), INFEASIBLE)
        known_C = nodes >= 0
        if known_C.any():
            total_C[known_C] = said.of(nodes[known_C])
        if self.on_scored is not None:
            self.on_scored(pod.uid, Scored(said.policy.name, names, total_C))
        return [HostPriority(name, score) for name, score in zip(names, scaled(total_C, TOP).tolist(), strict=True)]

    async def bind(self, args: BindingArgs) -> BindingResult:
        """Takes the room, writes the binding with the devices in it, gives the room back when that fails."""
        result = await self._bound(args)
        self.metrics.binds.labels("failed" if result.Error else "bound").inc()
        level = logging.WARNING if result.Error else logging.INFO
        log(level, "bind", uid=args.PodUID, pod=f"{args.PodNamespace}/{args.PodName}", node=args.Node, why=result.Error)
        return result

    async def _bound(self, args: BindingArgs) -> BindingResult:
        problem = self.own.obstacle()
        if problem:
            raise not_ready(problem)
        if self.binder is None:
            return BindingResult("this service does not bind")
        pod = self.cache.pods.get(args.PodUID) or await self._fetched(self.binder.client, args)
        if pod is None or (pod.namespace, pod.name) != (args.PodNamespace, args.PodName):
            return BindingResult(f"there is no pod {args.PodNamespace}/{args.PodName} with uid {args.PodUID}")
        if pod.problem and pod.shape.gpu_count:
            return BindingResult(pod.problem)
        try:
            devices = self._taken(pod, args.Node)
        except (PolicyError, StateError) as error:
            return BindingResult(str(error))
        result = await self.binder.bind(pod, args.Node, devices)
        if result in FORGOTTEN:
            self.cache.forget(pod.uid)
        return BindingResult(NOT_BOUND.get(result, "") if result in KNOWN else NOT_CERTAIN)

    def preempt(self, args: PreemptionArgs) -> PreemptionResult:
        """Nodes where the devices would suffice without the victims; victims stay as kube-scheduler chose them."""
        problem = self.own.obstacle()
        if problem:
            raise not_ready(problem)
        self.cache.refresh()
        pod = offered_pod(args.Pod)
        offered = _victims(args)
        helped = {
            name: victims
            for name, victims in offered.items()
            if not pod.problem and self._room_without(pod.shape, name, victims.Pods or ())
        }
        return PreemptionResult(helped)

    def _ready_names(self, args: ExtenderArgs) -> list[str]:
        problem = self.own.obstacle()
        if problem:
            raise not_ready(problem)
        self.cache.refresh()
        if args.NodeNames is not None:
            return args.NodeNames
        if args.Nodes is None:
            raise invalid("Nodes, NodeNames: both are missing; expected one of them")
        return [_name(item) for item in args.Nodes.items or ()]

    def _refusals(self, pod: PodView, names: list[str]) -> Iterable[tuple[str, str]]:
        cache, index = self.cache, self.cache.state.index
        if not pod.shape.gpu_count and not pod.rules.latency[1]:
            return
        obstacle_N = self._device_obstacles(pod.shape)
        slow_N: BoolArray | None = too_slow(pod, cache) if pod.rules.latency[1] else None
        for name in names:
            n = index.get(name)
            if n is None:
                yield name, NOT_KNOWN
            elif obstacle_N[n] != FITS:
                yield name, NO_MODEL if obstacle_N[n] == NOT_ELIGIBLE else NO_GPU
            elif slow_N is not None and slow_N[n]:
                yield name, LATENCY

    def _device_obstacles(self, shape: PodShape) -> IntArray:
        """What stands against the shape's devices; CPU, memory and the rest are kube-scheduler's to judge."""
        state = self.cache.state
        obstacle_N = np.zeros(len(state.nodes), np.int64)
        shapes = encode_shapes(state, [_devices_only(shape)])
        shapes.request_SR[:] = 0
        obstacles(state.arrays, shapes, 0, obstacle_N)
        return obstacle_N

    async def _fetched(self, client: Client, args: BindingArgs) -> PodView | None:
        """A pod that the watch has not told of yet."""
        try:
            found = await client.get(f"/api/v1/namespaces/{args.PodNamespace}/pods/{args.PodName}")
        except (KubeError, UnreachableError):
            return None
        return read_pod(found) if found["metadata"]["uid"] == args.PodUID else None

    def _taken(self, pod: PodView, node: str) -> int:
        """Devices for the pod on the node, taken at once. Asked a second time, the same ones."""
        cache = self.cache
        cache.refresh()
        n = cache.state.index.get(node)
        before = cache.state.placement(pod.uid)
        if before is not None and before.node == n:
            return before.devices
        if before is not None:
            cache.forget(pod.uid)
        if not pod.shape.gpu_count:
            if n is not None:
                with suppress(StateError):  # kube-scheduler has made sure of the room; what is seen here may be older
                    cache.assume(pod, n, 0, self.own.scoring.asked)
            return 0
        if n is None:
            raise StateError(f"node {node}: {NOT_KNOWN}")
        shape = replace(pod.shape, constraints=FILTERED)
        said = self.own.scoring.verdict(replace(pod, shape=shape), None)
        if self._device_obstacles(shape)[n] != FITS:
            raise StateError(f"node {node}: {NO_GPU}")
        arrays, device = cache.state.arrays, int(said.row.row.device_N[n])
        count, rule = int(arrays.device_count_N[n]), device_rule_of(said.policy)
        devices = devices_for(shape, arrays.device_left_ND[n], count, device, rule, said.draw, said.policy.name)
        cache.assume(pod, n, devices, self.own.scoring.asked)
        return devices

    def _room_without(self, shape: PodShape, name: str, victims: Iterable[MetaPod]) -> bool:
        state = self.cache.state
        n = state.index.get(name)
        if n is None:
            return False
        if not shape.gpu_count:
            return True
        if not shape.accepts_model(state.nodes[n].gpu_model):
            return False
        left_D = state.arrays.device_left_ND[n].copy()
        for victim in victims:
            placement = state.placement(victim.UID)
            if placement is not None and placement.node == n:
                for d in range(len(left_D)):
                    left_D[d] += placement.shape.gpu_milli * ((placement.devices >> d) & 1)
        count = int(state.arrays.device_count_N[n])
        return bool((left_D[:count] >= shape.gpu_milli).sum() >= shape.gpu_count)


def _devices_only(shape: PodShape) -> PodShape:
    return PodShape(
        gpu_milli=shape.gpu_milli,
        gpu_count=shape.gpu_count,
        gpu_models=shape.gpu_models,
        gpu_devices=shape.gpu_devices,
        constraints=FILTERED,
    )


def _name(item: msgspec.Raw) -> str:
    try:
        return _named.decode(item).metadata.name
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(f"Nodes.items: {error}") from error


def _passed(
    args: ExtenderArgs, names: list[str], passed: list[str], failed: dict[str, str], *, final: bool = False
) -> FilterResult:
    """In the form of the question: names for names, objects for objects."""
    nothing: dict[str, str] = {}
    for_now, for_good = (nothing, failed) if final else (failed, nothing)
    if args.NodeNames is not None:
        return FilterResult(NodeNames=passed, FailedNodes=for_now, FailedAndUnresolvableNodes=for_good)
    kept = set(passed)
    items = args.Nodes.items or [] if args.Nodes is not None else []
    nodes = NodeList([item for name, item in zip(names, items, strict=True) if name in kept])
    return FilterResult(Nodes=nodes, FailedNodes=for_now, FailedAndUnresolvableNodes=for_good)


def _victims(args: PreemptionArgs) -> dict[str, MetaVictims]:
    if args.NodeNameToMetaVictims is not None:
        return {name: victims or MetaVictims() for name, victims in args.NodeNameToMetaVictims.items()}
    given = args.NodeNameToVictims or {}
    return {
        name: MetaVictims([MetaPod(pod.metadata.uid) for pod in (victims.Pods or ())], victims.NumPDBViolations)
        if victims is not None
        else MetaVictims()
        for name, victims in given.items()
    }
