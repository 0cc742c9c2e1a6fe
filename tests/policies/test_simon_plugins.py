"""Score plugins of simon that have no compiled rule, against the definition and against worked examples."""

from __future__ import annotations

from math import tanh

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kernels.features import NODE_FEATURES, POD_FEATURES
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError, UnknownNameError
from pilotage.model.workload import FloatArray, IntArray, Pod, PodShape, Workload
from pilotage.policies.api import DecisionBatch, Policy
from pilotage.policies.checking import check_policy
from pilotage.policies.simon_plugins import (
    DIM_EXTS,
    NORMS,
    SCORE_PLUGINS,
    BalancedAllocation,
    DotProduct,
    RandomNode,
    SimonShare,
    plugin_policy,
    score_policy,
)
from pilotage.sim.run import Run
from reference.strategies import checked

MACHINE = {"cpu_capacity": 96000.0, "memory_capacity": 1000.0}


def batch_of(pod: dict[str, float], nodes: list[dict[str, float]], left_ND: list[list[int]]) -> DecisionBatch:
    D = max(len(left) for left in left_ND)
    pod_BF = np.array([[pod.get(name, 0.0) for name in POD_FEATURES]])
    counted = [{"gpu_count": float(len(left)), **node} for node, left in zip(nodes, left_ND, strict=True)]
    return DecisionBatch(
        pod_BF=pod_BF,
        node_BNF=np.array([[[node.get(name, 0.0) for name in NODE_FEATURES] for node in counted]]),
        device_left_BND=np.array([[left + [0] * (D - len(left)) for left in left_ND]], np.int64),
        feasible_BN=np.ones((1, len(nodes)), np.bool_),
    )


def scored(policy: Policy, batch: DecisionBatch) -> tuple[FloatArray, IntArray]:
    out_BN = np.zeros(batch.feasible_BN.shape)
    device_BN = np.full(batch.feasible_BN.shape, -1, np.int64)
    policy.score(batch, out_BN, device_BN)
    return out_BN[0], device_BN[0]


def matched(policy: Policy, cpu: float, left: list[int], pod: tuple[float, float, float]) -> tuple[float, int]:
    request = dict(zip(("cpu_milli", "gpu_milli", "gpu_count"), pod, strict=True))
    score_N, device_N = scored(policy, batch_of(request, [{**MACHINE, "cpu_free": cpu}], [left]))
    return float(score_N[0]), int(device_N[0])


# DotProductScore


@pytest.mark.parametrize(
    ("dim_ext", "norm", "expected"),
    [
        # 32 of 128 CPUs and 1.5 of 8 GPUs left; asked for: 16 CPUs and 0.25 GPU.
        ("merge", "max", (int(100 * (1 - (0.25 * 0.125 + 0.1875 * 0.03125) / 2)), -1)),
        # The half-used device alone, or the idle one: (0.25, 0.0625) beats (0.25, 0.125).
        ("share", "max", (int(100 * (1 - (0.25 * 0.125 + 0.0625 * 0.03125) / 2)), 0)),
        # CPU in proportion: a third of it goes with the half-used device.
        ("divide", "max", (int(100 * (1 - (0.25 / 3 * 0.125 + 0.0625 * 0.03125) / 2)), 0)),
        # One vector of CPU, half-used device, idle device; the pod at either place: 3 entries.
        ("extend", "max", (int(100 * (1 - (0.25 * 0.125 + 0.0625 * 0.03125) / 3)), 0)),
        ("share", "node", (int(100 * (1 - (32 / 96 * 16 / 96 + 0.25 * 0.125) / 2)), 0)),
        ("share", "pod", (int(100 * (1 - tanh((2.0 + 2.0) / 2 / 10))), 0)),
    ],
)
def test_worked_examples(dim_ext: str, norm: str, expected: tuple[float, int]) -> None:
    policy = DotProduct(dim_ext, norm)  # type: ignore[arg-type]
    assert matched(policy, 32000.0, [500, 1000], (16000.0, 250.0, 1.0)) == expected


@pytest.mark.parametrize("dim_ext", ["share", "divide", "extend"])
def test_whole_devices_match_the_idle_ones_together(dim_ext: str) -> None:
    policy = DotProduct(dim_ext, "max")  # type: ignore[arg-type]
    assert matched(policy, 32000.0, [500, 1000, 1000], (1000.0, 1000.0, 2.0))[1] == 1
    assert matched(policy, 32000.0, [500, 400], (1000.0, 1000.0, 1.0)) == (0.0, -1)  # nothing to match: score 0


def naive(dim_ext: str, norm: str, cpu: int, left: list[int], asked: tuple[float, float]) -> float:
    """From the definition, with lists of groups; fits in one page on purpose."""
    asked_cpu, asked_gpu = asked
    idle, total = sum(1 for milli in left if milli == 1000), sum(left)
    groups: list[tuple[list[float], list[float]]] = []
    if cpu < asked_cpu:
        return 0.0
    if dim_ext == "merge":
        groups.append(([cpu, total], [asked_cpu, asked_gpu]))
    elif dim_ext == "extend":
        entries = [milli for milli in left if 0 < milli < 1000] + ([1000 * idle] if idle else [])
        for i, entry in enumerate(entries):
            if entry >= asked_gpu:
                groups.append(
                    ([cpu, *entries], [asked_cpu] + [asked_gpu if i == j else 0 for j in range(len(entries))])
                )
    else:
        offers = [milli for milli in left if asked_gpu <= milli < 1000 and asked_gpu < 1000]
        offers += [1000 * idle] if asked_gpu <= 1000 * idle else []
        for offer in offers:
            part = (offer / total if total else 0.0) if dim_ext == "divide" else 1.0
            groups.append(([cpu * part, offer], [asked_cpu, asked_gpu]))
    by = {"node": (96000, 1000 * len(left)), "pod": (asked_cpu, asked_gpu), "max": (128000, 8000)}[norm]
    best = None
    for node, pod in groups:
        scales = [by[0]] + [by[1]] * (len(pod) - 1)
        dot = 0.0
        for n, p, scale in zip(node, pod, scales, strict=True):
            dot += (n / scale) * (p / scale) if scale else 0.0
        mean = dot / len(pod)
        value = 1 - (tanh(mean / 10) if norm == "pod" else mean)
        best = value if best is None or value > best else best
    return 0.0 if best is None else float(int(100 * best))


@checked(300)
@given(
    dim_ext=st.sampled_from(DIM_EXTS),
    norm=st.sampled_from(NORMS),
    cpu=st.integers(0, 96) | st.just(96),
    left=st.lists(st.sampled_from([0, 200, 250, 500, 999, 1000, 1000]), min_size=1, max_size=8),
    asked=st.tuples(st.integers(0, 96), st.sampled_from([0, 200, 250, 500, 1000, 2000, 4000])),
)
def test_general_form_is_the_definition(
    dim_ext: str, norm: str, cpu: int, left: list[int], asked: tuple[int, int]
) -> None:
    request = asked[0] * 1000, asked[1]
    found, device = DotProduct(dim_ext, norm).best_match(cpu * 1000.0, 96000.0, left, request)  # type: ignore[arg-type]
    assert found == naive(dim_ext, norm, cpu * 1000, left, request)
    assert device == -1 or asked[1] > 1000 or left[device] >= asked[1]


@checked(100)
@given(
    cpu=st.integers(0, 200),
    left=st.lists(st.integers(0, 1000), min_size=1, max_size=8),
    pod=st.tuples(st.integers(0, 100), st.integers(0, 1000), st.integers(0, 2)),
)
def test_merged_form_is_the_compiled_rule(cpu: int, left: list[int], pod: tuple[int, int, int]) -> None:
    request = {"cpu_milli": 1000.0 * min(pod[0], cpu), "gpu_milli": float(pod[1]), "gpu_count": float(pod[2])}
    node = {**MACHINE, "cpu_free": 1000.0 * cpu, "gpu_free": float(sum(left))}
    batch = batch_of(request, [node], [left])
    assert scored(DotProduct(), batch)[0] == scored(score_policy("DotProductScore"), batch)[0]


# Simon, NodeResourcesBalancedAllocation, RandomScore


def test_share_of_what_a_node_offers() -> None:
    nodes = [
        {"cpu_capacity": 8000.0, "memory_capacity": 1000.0},  # 2/6 of CPU, 500/500 of memory
        {"cpu_capacity": 4000.0, "memory_capacity": 10000.0},  # 2/2 of CPU
        {"cpu_capacity": 2000.0, "memory_capacity": 10000.0},  # all of the CPU: 1, not infinite
        {"cpu_capacity": 34000.0, "memory_capacity": 4500.0},  # 2/32 and 500/4000: 12.5 rounds up
    ]
    batch = batch_of({"cpu_milli": 2000.0, "memory_bytes": 500.0}, nodes, [[0]] * 4)
    assert scored(SimonShare(), batch)[0].tolist() == [100.0, 100.0, 100.0, 13.0]
    assert SimonShare().normalise == "minmax"


def test_a_pod_that_asks_for_nothing_takes_everything_of_simon() -> None:
    assert scored(SimonShare(), batch_of({}, [MACHINE], [[0]]))[0].tolist() == [100.0]


@pytest.mark.parametrize(
    ("used", "asked", "score"),
    [
        ((0.0, 0.0), (48000.0, 500.0), 100.0),
        ((48000.0, 0.0), (24000.0, 500.0), 75.0),
        ((95000.0, 0.0), (1000.0, 500.0), 0.0),  # full: never preferred
        ((0.0, 0.0), (32000.0, 0.0), 66.0),  # 66.66 cut off
    ],
)
def test_balance_of_version_1_20(used: tuple[float, float], asked: tuple[float, float], score: float) -> None:
    node = {**MACHINE, "cpu_scored": used[0], "memory_scored": used[1]}
    batch = batch_of({"cpu_scored": asked[0], "memory_scored": asked[1]}, [node], [[0]])
    assert scored(BalancedAllocation(), batch)[0].tolist() == [score]


def test_balance_without_any_capacity_is_full() -> None:
    assert scored(BalancedAllocation(), batch_of({}, [{}], [[0]]))[0].tolist() == [0.0]


@checked(50)
@given(feasible=st.lists(st.booleans(), min_size=1, max_size=9), step=st.integers(0, 2**48 - 1))
def test_one_candidate_is_drawn(feasible: list[bool], step: int) -> None:
    batch = batch_of({"draw": step / 2**48}, [{"rank": float(n)} for n in range(len(feasible))], [[0]] * len(feasible))
    batch = DecisionBatch(batch.pod_BF, batch.node_BNF, batch.device_left_BND, np.array([feasible]))
    score_N, _ = scored(RandomNode(), batch)
    assert sorted(score_N[feasible].tolist(), reverse=True)[:1] == [100.0] * any(feasible)
    assert score_N.sum() == 100.0 * any(feasible)
    assert not score_N[~np.array(feasible)].any()


# Plugins put together


@pytest.mark.parametrize(
    "policy",
    [
        *(DotProduct(dim_ext, norm) for dim_ext in DIM_EXTS for norm in NORMS),
        SimonShare(),
        BalancedAllocation(),
        RandomNode(),
        plugin_policy([("BestFitScore", 1)], "DotProductScore", DotProduct(), DotProduct("share")),
    ],
    ids=lambda policy: str(policy.name),
)
def test_the_contract_of_policies_is_kept(policy: Policy) -> None:
    check_policy(policy)


def test_every_score_plugin_has_a_policy() -> None:
    assert [score_policy(name).name for name in SCORE_PLUGINS] == [
        "fgd@1",
        "best-fit@1",
        "gpu-packing@1",
        "gpu-clustering@1",
        "least-allocated@1",
        "dot-product@1",
        "random@1",
        "simon-share@1",
        "balanced-allocation-1.20@1",
    ]
    with pytest.raises(UnknownNameError, match="did you mean 'FGDScore'"):
        score_policy("FGDscore")


NODES = (Node("a", 8000, 10**9, gpu_count=2), Node("b", 8000, 10**9, gpu_count=2))
PARTS = PodShape(1000, 0, 300, 1), PodShape(1000, 0, 200, 1)


@pytest.mark.parametrize(
    ("gpu_sel", "devices"),
    [("best", [0, 0, 0]), ("worst", [0, 1, 1]), ("DotProductScore", [0, 0, 0])],
)
def test_devices_by_selection_method(gpu_sel: str, devices: list[int]) -> None:
    pods = Workload.of(Pod(f"p{i}", PARTS[i > 0]) for i in range(3))
    policy = plugin_policy([], gpu_sel, DotProduct(), DotProduct("share"))  # no score: the first node takes all
    run = Run(NODES, pods, policy)
    run.advance()
    assert run.scene.progress.node_P.tolist() == [0, 0, 0]
    assert [mask.bit_length() - 1 for mask in run.scene.progress.devices_P.tolist()] == devices


def test_unknown_or_impossible_selection_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="gpuSelMethod 'bests'; did you mean 'best'"):
        plugin_policy([], "bests", DotProduct(), DotProduct())
    with pytest.raises(InputError, match="names no device"):
        plugin_policy([], "DotProductScore", DotProduct(), DotProduct())
