"""A node as the twins see it: what is free is always added up anew from the pods that run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pilotage.model.cluster import Node
from pilotage.model.workload import PodShape

WHOLE = 1000
MIB = 1024 * 1024
NO_RESOURCES_CPU, NO_RESOURCES_MEMORY = 100, 200 * MIB  # kube-scheduler, for scores, when nothing is asked for


def cpu_for_scores(shape: PodShape) -> int:
    return shape.cpu_milli if shape.cpu_milli != 0 else NO_RESOURCES_CPU


def memory_for_scores(shape: PodShape) -> int:
    return shape.memory_bytes if shape.memory_bytes != 0 else NO_RESOURCES_MEMORY


def tag(shape: PodShape) -> str | None:
    """The kind of GPU request, as GpuClustering calls it."""
    if shape.gpu_count == 0:
        return None
    if shape.gpu_count == 1 and shape.gpu_milli < WHOLE:
        return "share-gpu"
    return f"{shape.gpu_count}-gpu"


def may_use_model(wanted: str, model: str) -> bool:
    """`wanted` is "A|B" as written; nothing in it means any; a node without a model serves only those."""
    entries = [entry for entry in wanted.split("|") if entry != ""]
    return len(entries) == 0 or (model != "" and model in entries)


@dataclass
class View:
    """What a score may look at."""

    cpu_capacity: int
    memory_capacity: int
    cpu_free: int
    memory_free: int
    lefts: list[int]  # milli left, device by device
    model: str
    tags: set[str] = field(default_factory=set)
    cpu_scored: int = 0
    memory_scored: int = 0
    last_placed: int = 0
    rank: int = 0
    to_mates: list[int] = field(default_factory=list)  # distance to each placed pod of the gang of the pod in question
    mates_left: int = 0  # pods of that gang without a node
    rack_room: int = 0  # pods like the one in question for which its rack has room


@dataclass(frozen=True)
class Mates:
    """The gang of the pod in question; by default it has none."""

    nodes: Sequence[Node] = ()  # of its placed pods, one for each pod
    left: int = 0  # its pods without a node, the one in question among them


@dataclass
class Machine:
    node: Node
    rank: int
    running: dict[int, tuple[PodShape, tuple[int, ...]]] = field(default_factory=dict)  # by pod, with its devices
    alive: bool = True
    last_placed: int = 0

    def lefts(self) -> list[int]:
        left = [WHOLE] * self.node.gpu_count
        for shape, devices in self.running.values():
            for d in devices:
                left[d] -= shape.gpu_milli
        return left

    def free(self, resource: str) -> int:
        """Of "cpu", "memory", "pods" or an extended resource."""
        shapes = [shape for shape, _ in self.running.values()]
        if resource == "cpu":
            return self.node.cpu_milli - sum(shape.cpu_milli for shape in shapes)
        if resource == "memory":
            return self.node.memory_bytes - sum(shape.memory_bytes for shape in shapes)
        if resource == "pods":
            return self.node.pods - len(shapes)
        used = sum(dict(shape.extended).get(resource, 0) for shape in shapes)
        return dict(self.node.extended).get(resource, 0) - used

    def view(self, mates: Mates = Mates(), rack_room: int = 0) -> View:
        shapes = [shape for shape, _ in self.running.values()]
        return View(
            cpu_capacity=self.node.cpu_milli,
            memory_capacity=self.node.memory_bytes,
            cpu_free=self.free("cpu"),
            memory_free=self.free("memory"),
            lefts=self.lefts(),
            model=self.node.gpu_model,
            tags={name for name in map(tag, shapes) if name is not None},
            cpu_scored=sum(map(cpu_for_scores, shapes)),
            memory_scored=sum(map(memory_for_scores, shapes)),
            last_placed=self.last_placed,
            rank=self.rank,
            to_mates=[distance(self.node, mate) for mate in mates.nodes],
            mates_left=mates.left,
            rack_room=rack_room,
        )

    def fits(self, shape: PodShape) -> bool:
        free = {key: self.free(key) for key in ("cpu", "memory", "pods", *dict(self.node.extended))}
        return fits(self.node, self.alive, free, self.lefts(), shape)

    def room(self, shape: PodShape) -> int:
        """How many such pods the node could still take, by amounts: parts of devices are counted over all of them."""
        if not self.fits(shape):
            return 0
        asked = {"pods": 1, "cpu": shape.cpu_milli, "memory": shape.memory_bytes, **dict(shape.extended)}
        rooms = [self.free(key) // amount for key, amount in asked.items() if amount > 0]
        if shape.gpu_count > 0:
            rooms.append(sum(left // shape.gpu_milli for left in self.lefts()) // shape.gpu_count)
        return min(rooms)


def rack_rooms(machines: Sequence[Machine], shape: PodShape) -> list[int]:
    """For each machine the room in its rack; one that does not say where it stands is a rack of its own."""
    rooms = [machine.room(shape) for machine in machines]
    return [
        sum(room for room, other in zip(rooms, machines, strict=True) if distance(one.node, other.node) <= 1)
        for one in machines
    ]


def fits(node: Node, alive: bool, free: Mapping[str, int], lefts: Sequence[int], shape: PodShape) -> bool:
    if not alive or not allowed(node, shape) or free["pods"] < 1:
        return False
    asked = {"cpu": shape.cpu_milli, "memory": shape.memory_bytes, **dict(shape.extended)}
    if not all(enough(amount, free.get(key, 0)) for key, amount in asked.items()):
        return False
    return devices_fit(lefts, shape.gpu_milli, shape.gpu_count) and preset_devices_fit(lefts, shape)


def enough(asked: int, free: int) -> bool:
    """As kube-scheduler: what is not asked for cannot be lacking, even on an overcommitted node."""
    return asked == 0 or asked <= free


def devices_fit(lefts: Sequence[int], milli: int, count: int) -> bool:
    """Distinct devices. (The published simulator would put two parts on one device; no published pod asks for that.)"""
    return sum(1 for left in lefts if left >= milli) >= count


def preset(shape: PodShape) -> tuple[int, ...]:
    """The devices the pod must get, if it names them."""
    return tuple(d for d in range(shape.gpu_devices.bit_length()) if shape.gpu_devices // 2**d % 2 == 1)


def preset_devices_fit(lefts: Sequence[int], shape: PodShape) -> bool:
    return all(d < len(lefts) and lefts[d] >= shape.gpu_milli for d in preset(shape))


def distance(one: Node, other: Node) -> int:
    """0 same node, 1 same rack, 2 same zone, 3 further; a node that does not say where it stands is far from others."""
    if one.name == other.name:
        return 0
    if one.zone == other.zone and one.rack == other.rack != "":
        return 1
    return 2 if one.zone == other.zone != "" else 3


def allowed(node: Node, shape: PodShape) -> bool:
    """Constraints and GPU models, whatever is free."""
    if shape.gpu_count > 0 and (node.gpu_count == 0 or not may_use_model(shape.gpu_models, node.gpu_model)):
        return False
    return shape.constraints.allows(node.name, dict(node.labels), node.taints)
