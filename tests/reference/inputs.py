"""What learned scorers see, by name and in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

Named = dict[str, float]
WHOLE = 1000


def share(free: float, capacity: float, more: float = 0.0) -> float:
    return (capacity - free + more) / capacity if capacity else 0.0


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def cpu_use(node: Named, more: float = 0.0) -> float:
    return share(node["cpu_free"], node["cpu_capacity"], more)


def memory_use(node: Named, more: float = 0.0) -> float:
    return share(node["memory_free"], node["memory_capacity"], more)


def gpu_use(node: Named, more: float = 0.0) -> float:
    return share(node["gpu_free"], WHOLE * node["gpu_count"], more)


def pod_inputs(pod: Named, nodes: list[Named]) -> Named:
    there = [node for node in nodes if node["pods_capacity"]]
    return {
        "cpu": pod["cpu_milli"] / max(1.0, mean([node["cpu_capacity"] for node in there])),
        "memory": pod["memory_bytes"] / max(1.0, mean([node["memory_capacity"] for node in there])),
        "gpu": pod["gpu_milli"] * pod["gpu_count"] / WHOLE / 8,
        "gpu_part": pod["gpu_milli"] / WHOLE if pod["gpu_milli"] < WHOLE else 0.0,
        "several": float(pod["gpu_count"] > 1),
        "gang_left": pod["gang_left"] / 8,
    }


def node_inputs(pod: Named, nodes: list[Named], n: int, lefts: list[int]) -> Named:
    """Of a node that takes pods."""
    node, there = nodes[n], [node for node in nodes if node["pods_capacity"]]
    gpu, count = pod["gpu_milli"] * pod["gpu_count"], node["gpu_count"]
    taking = [left for left in lefts if left >= pod["gpu_milli"]]
    part = pod["gpu_count"] == 1 and pod["gpu_milli"] < WHOLE
    return {
        "cpu_used": cpu_use(node),
        "cpu_used_after": cpu_use(node, pod["cpu_milli"]),
        "memory_used": memory_use(node),
        "memory_used_after": memory_use(node, pod["memory_bytes"]),
        "pods_used_after": share(node["pods_free"], node["pods_capacity"], 1),
        "gpu_used": gpu_use(node),
        "gpu_used_after": gpu_use(node, gpu),
        "gpu_idle": lefts.count(WHOLE) / count if count else 0.0,
        "gpu_largest": max(lefts, default=0) / WHOLE,
        "device_left": (min(taking) - pod["gpu_milli"]) / WHOLE if part and taking else 0.0,
        "has_gpu": float(count > 0),
        "load": node["load"],
        "gang_in_rack": node["gang_in_rack"] / pod["gang_placed"] if pod["gang_placed"] else 0.0,
        "cpu_above_mean": cpu_use(node, pod["cpu_milli"]) - mean([cpu_use(one) for one in there]),
        "memory_above_mean": memory_use(node, pod["memory_bytes"]) - mean([memory_use(one) for one in there]),
        "gpu_above_mean": gpu_use(node, gpu) - mean([gpu_use(one) for one in there if one["gpu_count"]])
        if count
        else 0.0,
        "load_above_mean": node["load"] - mean([one["load"] for one in there]),
        "size": node["cpu_capacity"] / max(1.0, mean([one["cpu_capacity"] for one in there])),
    }
