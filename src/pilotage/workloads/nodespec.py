"""What a node offers, from its manifest into a `Node`: allocatable (or capacity), labels, taints."""

from __future__ import annotations

from typing import Literal, cast, get_args

from pilotage.model.cluster import MAX_DEVICES, Node
from pilotage.model.constraints import Taint
from pilotage.workloads.fields import Field
from pilotage.workloads.podspec import (
    CARD_MODEL,
    SHARE_COUNT,
    SHARE_MILLI,
    bounded,
    extended_resources,
    is_extended,
    read_amounts,
    units,
    whole_devices,
)

DEFAULT_PODS = 110  # what a kubelet allows when nobody says otherwise
HOSTNAME = "kubernetes.io/hostname"  # a label that a kubelet gives its node
MODEL_LABELS = (CARD_MODEL, "nvidia.com/gpu.product", "amd.com/gpu.product-name")
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


def read_node(item: Field) -> Node:
    metadata, status = item.get("metadata"), item.get("status")
    offered = status.get("allocatable") if status.get("allocatable").present else status.get("capacity")
    for name in ("cpu", "memory"):
        if not offered.get(name).present:
            raise offered.get(name).wrong_kind("what the node offers, in status.allocatable or status.capacity")
    amounts = read_amounts(offered)
    gpu_count = _devices(amounts, offered)
    model, labels = _model_and_labels(metadata)
    return Node(
        name=metadata.get("name").name(),
        cpu_milli=bounded(amounts["cpu"], offered, "cpu"),
        memory_bytes=bounded(units(amounts["memory"]), offered, "memory"),
        pods=bounded(units(amounts["pods"]), offered, "pods") if "pods" in amounts else DEFAULT_PODS,
        gpu_count=gpu_count,
        gpu_model=model,
        extended=extended_resources({name: amount for name, amount in amounts.items() if is_extended(name)}, offered),
        labels=tuple(sorted(labels.items())),
        taints=_taints(item.get("spec")),
    )


def _devices(amounts: dict[str, int], offered: Field) -> int:
    """Number of GPUs; `gpu-milli` only repeats it (in total or for one device), so it is taken out and not used."""
    amounts.pop(SHARE_MILLI, None)
    whole = whole_devices(amounts, offered)
    if SHARE_COUNT not in amounts:
        return whole
    count = amounts.pop(SHARE_COUNT) // 1000
    if count > MAX_DEVICES:
        raise offered.get(SHARE_COUNT).error(f"{count} devices", f"at most {MAX_DEVICES}")
    if whole and whole != count:
        raise offered.get(SHARE_COUNT).error(f"{count} devices, but {whole} by another resource", "the same number")
    return count


def model_of(labels: dict[str, str]) -> str:
    return next((labels[key] for key in MODEL_LABELS if key in labels), "")


def _model_and_labels(metadata: Field) -> tuple[str, dict[str, str]]:
    """The annotation of the same name is ours: the label was added when writing and is no label of the node."""
    labels = metadata.get("labels").strings()
    annotation = metadata.get("annotations").get(CARD_MODEL)
    if not annotation.present:
        return model_of(labels), labels
    model = annotation.text()
    if labels.get(CARD_MODEL) == model:
        del labels[CARD_MODEL]
    return model, labels


def _taints(spec: Field) -> tuple[Taint, ...]:
    taints = tuple(_taint(entry) for entry in spec.get("taints").elements())
    if spec.get("unschedulable").boolean() and CORDONED not in taints:
        taints += (CORDONED,)
    return taints


def _taint(entry: Field) -> Taint:
    effect = cast(Effect, entry.get("effect").choice(get_args(Effect)))
    return Taint(entry.get("key").text(), entry.get("value").text(""), effect)
