"""What a pod asks for, from its spec into a `PodShape`, with kube-scheduler's semantics.

Containers run together, so their requests add up. Ordinary init containers run before, one at a time, so the largest
counts; restartable ones (sidecars) start in their place and stay, so they add to everything after them. Then what the
pod as a whole states, and its overhead. A limit stands in for a request that is missing, and amounts finer than a
milli are rounded up container by container, both as the API server does it.

GPUs are devices of 1000 milli: a share by the annotations `alibabacloud.com/gpu-milli` (per device), `gpu-count` and
`gpu-card-model`, or whole devices by the resources `nvidia.com/gpu` or `amd.com/gpu`.
"""

from __future__ import annotations

from math import ceil

from pilotage.model.cluster import MAX_DEVICES
from pilotage.model.resources import MAX_INT64
from pilotage.model.workload import GPU_MILLI, PodShape
from pilotage.workloads.affinity import read_constraints
from pilotage.workloads.fields import Field

SHARE_MILLI = "alibabacloud.com/gpu-milli"
SHARE_COUNT = "alibabacloud.com/gpu-count"
CARD_MODEL = "alibabacloud.com/gpu-card-model"
WHOLE_DEVICES = ("nvidia.com/gpu", "amd.com/gpu")

Amounts = dict[str, int]  # thousandths of each resource


def read_shape(spec: Field, annotations: Field) -> PodShape:
    """The shape of a pod, except for its priority, which may depend on other documents."""
    amounts = pod_requests(spec)
    gpu_milli, gpu_count = _gpus(amounts, spec, annotations)
    return PodShape(
        cpu_milli=bounded(amounts.pop("cpu", 0), spec, "cpu"),
        memory_bytes=bounded(units(amounts.pop("memory", 0)), spec, "memory"),
        gpu_milli=gpu_milli,
        gpu_count=gpu_count,
        gpu_models=annotations.get(CARD_MODEL).text("") if gpu_count else "",
        extended=extended_resources(amounts, spec),
        constraints=read_constraints(spec),
    )


def is_extended(name: str) -> bool:
    return "/" in name or name.startswith("hugepages-") or name == "ephemeral-storage"


def extended_resources(amounts: Amounts, place: Field) -> tuple[tuple[str, int], ...]:
    """Resources the model has no field for, in whole units, sorted by name; zeros say nothing and are left out."""
    return tuple((name, bounded(units(milli), place, name)) for name, milli in sorted(amounts.items()) if milli)


def read_amounts(resources: Field) -> Amounts:
    amounts = {}
    for name, entry in resources.items():
        amounts[name] = ceil(entry.quantity() * 1000)
        if "/" in name and amounts[name] % 1000:
            raise entry.error(f"{entry.value} is not whole", "a whole number: extended resources cannot be divided")
    return amounts


def units(milli: int) -> int:
    """Whole units, rounded up, as kube-scheduler counts what is asked for and what is offered."""
    return -(-milli // 1000)


def bounded(amount: int, place: Field, name: str) -> int:
    if amount > MAX_INT64:
        raise place.error(f"{name} adds up to {amount}", f"at most {MAX_INT64}")
    return amount


def pod_requests(spec: Field) -> Amounts:
    containers = list(spec.get("containers").elements())
    if not containers:
        raise spec.get("containers").wrong_kind("a list of at least one container")
    running: Amounts = {}
    for container in containers:
        running = _sum(running, _requests(container.get("resources")))
    running = _with_init_containers(running, spec.get("initContainers"))
    running = _with_pod_level(running, spec.get("resources"))
    return _sum(running, read_amounts(spec.get("overhead")))


def _requests(resources: Field) -> Amounts:
    requests = {**read_amounts(resources.get("limits")), **read_amounts(resources.get("requests"))}
    for name in requests:
        if name not in ("cpu", "memory") and not is_extended(name):
            known = "cpu, memory, ephemeral-storage, hugepages-SIZE or a name with a domain such as nvidia.com/gpu"
            raise resources.error(f"unknown resource {name!r}", known)
    return requests


def _with_init_containers(running: Amounts, init_containers: Field) -> Amounts:
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in init_containers.elements():
        requests = _requests(container.get("resources"))
        if container.get("restartPolicy").value == "Always":
            running, sidecars = _sum(running, requests), _sum(sidecars, requests)
            peak = _max(peak, sidecars)
        else:
            peak = _max(peak, _sum(sidecars, requests))
    return _max(running, peak)


def _with_pod_level(running: Amounts, resources: Field) -> Amounts:
    """What the pod states for all its containers replaces their sum, for the resources that may be stated so."""
    requests, limits = read_amounts(resources.get("requests")), read_amounts(resources.get("limits"))
    for name in requests.keys() | limits.keys():
        if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
            raise resources.error(f"{name!r} for the whole pod", "only cpu, memory and hugepages here")
    return {**limits, **running, **requests}


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in one | other}


def _max(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one | other}


def _gpus(amounts: Amounts, spec: Field, annotations: Field) -> tuple[int, int]:
    """Milli per device and number of devices; takes what it read out of `amounts`."""
    whole = whole_devices(amounts, spec)
    shares = {name: amounts.pop(name) // 1000 for name in (SHARE_MILLI, SHARE_COUNT) if name in amounts}
    for name in (SHARE_MILLI, SHARE_COUNT):
        if annotations.get(name).present:
            shares[name] = annotations.get(name).whole_quantity()
    if not shares:
        return (GPU_MILLI, whole) if whole else (0, 0)
    milli, count = shares.get(SHARE_MILLI, GPU_MILLI), shares.get(SHARE_COUNT, 1)
    if milli > GPU_MILLI:
        raise annotations.get(SHARE_MILLI).error(f"{milli} milli of one device", f"1 to {GPU_MILLI}, for each device")
    if count > MAX_DEVICES:
        raise annotations.get(SHARE_COUNT).error(f"{count} devices", f"at most {MAX_DEVICES}")
    if not milli or not count:
        milli = count = 0
    if whole and (milli, count) != (GPU_MILLI, whole):
        raise annotations.error(
            f"{count} x {milli} milli by annotation, but {whole} whole devices in the resources", "one or the other"
        )
    return milli, count


def whole_devices(amounts: Amounts, place: Field) -> int:
    """Devices given as an ordinary extended resource; takes them out of `amounts`."""
    found = {name: amounts.pop(name) // 1000 for name in WHOLE_DEVICES if name in amounts}
    given = [(name, count) for name, count in found.items() if count]
    if len(given) > 1:
        raise place.error(f"both {' and '.join(found)}", "one kind of GPU")
    if given and given[0][1] > MAX_DEVICES:
        raise place.error(f"{given[0][1]} of {given[0][0]}", f"at most {MAX_DEVICES}")
    return given[0][1] if given else 0
