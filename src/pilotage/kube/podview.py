"""What the scheduler needs to know of a pod, from its JSON. The JSON itself is not kept: memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import orjson

from pilotage.kube.client import Json
from pilotage.kube.pod_rules import NO_RULES, PodRules, read_rules
from pilotage.model.clock import parse_timestamp
from pilotage.model.constraints import ANYWHERE
from pilotage.model.errors import InputError
from pilotage.model.resources import parse_quantity
from pilotage.model.workload import PodShape
from pilotage.workloads.fields import Field
from pilotage.workloads.podsets import GROUP_LABELS
from pilotage.workloads.podspec import CARD_MODEL, SHARE_COUNT, SHARE_MILLI, read_shape

GPU_INDEX = "alibabacloud.com/gpu-index"
VOLCANO_GROUP = "scheduling.k8s.io/group-name"
MAX_DEVICE = 61

# What a shape is read from. The rest of a pod (images, commands, volumes) differs for no placement.
_CONTAINER_KEYS = ("resources", "restartPolicy")
_SPEC_KEYS = ("overhead", "resources", "nodeSelector", "tolerations")
_SHARE_KEYS = (SHARE_MILLI, SHARE_COUNT, CARD_MODEL)
SHAPES_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod as placements see it."""

    uid: str
    namespace: str
    name: str
    shape: PodShape
    scheduler: str = ""
    node: str = ""
    created: float = 0.0  # seconds since 1970
    version: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    devices: int = 0  # bit mask of gpu-index
    gated: bool = False
    deleting: bool = False
    finished: bool = False
    group: str = ""  # of its gang, without namespace
    rules: PodRules = NO_RULES
    extended: tuple[str, ...] = ()  # names of resources with a domain that it asks for, as the API server has them
    problem: str = ""  # why it cannot be read
    nominated: str = ""  # the node that others were told to leave for it
    preempts: bool = True  # whether others may be told to leave for it
    started: float = 0.0  # seconds since 1970, when its node took it
    bound_at: float = 0.0  # seconds since 1970
    owned: bool = False  # a controller makes another one when it goes
    condition: str = ""  # message of PodScheduled=False, as the API server has it

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def waits(self) -> bool:
        """Whether somebody has to decide where it goes."""
        return not (self.node or self.deleting or self.finished or self.gated)


def read_pod(found: Json) -> PodView:
    """Never fails: a pod that cannot be read carries the reason in `problem`."""
    metadata, spec, status = found["metadata"], found["spec"], found.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    shape, problem, extended = _shape(spec, status, annotations)
    rules = read_rules(spec, metadata)
    return PodView(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        shape=shape,
        scheduler=spec.get("schedulerName") or "",
        node=spec.get("nodeName") or "",
        created=_seconds(metadata["creationTimestamp"]),
        version=metadata["resourceVersion"],
        labels=labels,
        devices=device_mask(annotations.get(GPU_INDEX)),
        gated=bool(spec.get("schedulingGates")),
        deleting="deletionTimestamp" in metadata,
        finished=status.get("phase") in ("Succeeded", "Failed"),
        group=_group(spec, labels, annotations),
        rules=rules,
        extended=extended,
        problem=problem or rules.problem,
        nominated=status.get("nominatedNodeName") or "",
        preempts=spec.get("preemptionPolicy") != "Never",
        started=_seconds(status["startTime"]) if status.get("startTime") else 0.0,
        bound_at=_bound_at(status) if spec.get("nodeName") else 0.0,
        owned=any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()),
        condition=_condition(status),
    )


def device_mask(text: str | None) -> int:
    """ "0-2" is the first and the third device; 0 for what is no gpu-index."""
    try:
        numbers = {int(word) for word in text.split("-")} if text else set()
    except ValueError:
        return 0
    return sum(1 << number for number in numbers if 0 <= number <= MAX_DEVICE)


def gpu_index(devices: int) -> str:
    return "-".join(str(d) for d in range(devices.bit_length()) if (devices >> d) & 1)


def _group(spec: Json, labels: dict[str, str], annotations: dict[str, str]) -> str:
    native = (spec.get("schedulingGroup") or {}).get("podGroupName")
    labelled = next((labels[key] for key in GROUP_LABELS if labels.get(key)), "")
    return native or labelled or annotations.get(VOLCANO_GROUP) or ""


def _condition(status: Json) -> str:
    for entry in status.get("conditions") or ():
        if entry.get("type") == "PodScheduled" and entry.get("status") == "False":
            return entry.get("message") or ""
    return ""


def _bound_at(status: Json) -> float:
    for entry in status.get("conditions") or ():
        if entry.get("type") == "PodScheduled" and entry.get("status") == "True" and entry.get("lastTransitionTime"):
            return _seconds(entry["lastTransitionTime"])
    return 0.0


@lru_cache(maxsize=1024)  # times of pods are whole seconds, and many pods share one
def _seconds(timestamp: str) -> float:
    return parse_timestamp(timestamp).timestamp()


def _shape(spec: Json, status: Json, annotations: dict[str, str]) -> tuple[PodShape, str, tuple[str, ...]]:
    containers = [_reduced(container) for container in spec.get("containers") or ()]
    started = [_reduced(container) for container in spec.get("initContainers") or ()]
    if spec.get("nodeName"):
        _raise_to_resized(containers, spec.get("containers"), status.get("containerStatuses"))
        _raise_to_resized(started, spec.get("initContainers"), status.get("initContainerStatuses"))
    what: dict[str, Any] = {key: spec[key] for key in _SPEC_KEYS if spec.get(key)}
    what["containers"] = containers
    if started:
        what["initContainers"] = started
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    if node_affinity:
        what["affinity"] = {"nodeAffinity": node_affinity}
    shares = {key: annotations[key] for key in _SHARE_KEYS if key in annotations}
    written = orjson.dumps([what, shares], option=orjson.OPT_SORT_KEYS)
    return _read(written, spec.get("priority") or 0, bool(spec.get("nodeName")))


def _reduced(container: Json) -> Json:
    return {key: container[key] for key in _CONTAINER_KEYS if container.get(key)}


@lru_cache(maxsize=SHAPES_KEPT)
def _read(written: bytes, priority: int, placed: bool) -> tuple[PodShape, str, tuple[str, ...]]:
    """The shape, or as much of it as can be read and what is wrong; and the names of extended resources."""
    shape, problem, extended = _read_request(written)
    # Where it was allowed to go is of no interest any more once it is there, and shapes are few then.
    constraints = ANYWHERE if placed else shape.constraints
    return replace(shape, priority=priority, constraints=constraints), problem, extended


def _read_request(written: bytes) -> tuple[PodShape, str, tuple[str, ...]]:
    spec, annotations = orjson.loads(written)
    try:
        shape = read_shape(_field(spec, "spec"), _field(annotations, "metadata.annotations"))
        return shape, "", _extended(spec)
    except InputError as error:
        problem = f"{error.field}: {error.problem}" + (f"; expected {error.expected}" if error.expected else "")
    try:  # a pod that is bound all the same takes its CPU and memory
        return read_shape(_field({"containers": spec["containers"]}, "spec"), _field({}, "")), problem, ()
    except InputError:
        return PodShape(), problem, ()


def _extended(spec: Json) -> tuple[str, ...]:
    """Also those that are GPUs to us and have no name any more in a shape."""
    containers = (*spec["containers"], *(spec.get("initContainers") or ()))
    asked = [container.get("resources") or {} for container in containers]
    amounts = [*((one.get("limits") or {}) | (one.get("requests") or {}) for one in asked)]
    return tuple(sorted({name for one in amounts for name in one if "/" in name and str(one[name]) != "0"}))


def _field(value: object, path: str) -> Field:
    return Field(value, "the pod", 1, 1, path)


def _raise_to_resized(containers: list[Json], wanted_by: list[Json] | None, told: list[Json] | None) -> None:
    """While a pod is being resized, the largest of what is wanted, allocated and in use counts."""
    statuses = {entry.get("name"): entry for entry in told or ()}
    for reduced, container in zip(containers, wanted_by or (), strict=True):
        entry = statuses.get(container.get("name")) or {}
        others = (entry.get("allocatedResources"), (entry.get("resources") or {}).get("requests"))
        wanted = (container.get("resources") or {}).get("requests") or {}
        for other in others:
            for name, amount in (other or {}).items():
                if wanted.get(name, amount) != amount and parse_quantity(amount) > parse_quantity(wanted[name]):
                    wanted = {**wanted, name: amount}
        if wanted:
            reduced["resources"] = {**(container.get("resources") or {}), "requests": wanted}
