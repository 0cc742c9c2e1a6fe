"""Orders, first decisions and final states that the reference prints, pod by pod."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from published import LISTS, LOAD, SEEDS, finished_default, trace

from pilotage.kernels.meters import AMOUNTS, DEVICES_USED, GPU_USED
from pilotage.policies.mix import typical_pods
from pilotage.sim.protocols import mix_of
from pilotage.sim.run import Run
from pilotage.workloads.arrivals import openb_arrival

pytestmark = pytest.mark.data

FIRST_PODS = ("0255", "1685", "6784", "4463", "0602", "1564")
# Node with its rank, device (-1: none), fragmented GPU milli afterwards.
FIRST_DECISIONS = {
    "fgd": (
        ("0000-0260", -1, 866232.55),
        ("0037-1080", 0, 865816.03),
        ("0000-0260", 0, 865680.05),
        ("0000-0260", 1, 865544.07),
        ("0000-0260", 2, 865408.10),
        ("0137-0292", 0, 864991.57),
    ),
    "best-fit": (
        ("0037-1080", -1, 866627.35),
        ("0137-0292", 0, 866210.83),
        ("0012-0016", 0, 866074.85),
        ("0006-0431", 0, 866397.54),
        ("0008-1052", 0, 866735.68),
        ("0008-1052", 1, 866228.28),
    ),
    "dot-product": (
        ("0006-0431", -1, 867083.70),
        ("0037-1080", 0, 866667.17),
        ("0012-0016", 0, 866531.20),
        ("0008-1052", 0, 866853.89),
        ("0009-0985", 0, 867192.03),
        ("0008-1052", 1, 866698.76),
    ),
    "gpu-packing": (
        ("0000-0260", -1, 866232.55),
        ("0037-1080", 0, 865816.03),
        ("0943-1032", 0, 865680.05),
        ("1197-1033", 0, 865544.07),
        ("0004-0882", 0, 865408.10),
        ("0004-0882", 1, 865460.80),
    ),
    "gpu-clustering": (
        ("0000-0260", -1, 866232.55),
        ("0037-1080", 0, 865816.03),
        ("0943-1032", 0, 865680.05),
        ("1197-1033", 0, 865544.07),
        ("0004-0882", 0, 865408.10),
        ("0137-0292", 0, 864991.57),
    ),
}
# Failed pods, used GPU milli, devices used; q1, q2, q3, q4, xl, xr, idle, fragmented (thousand milli); % of idle.
END_OF_RUN = {
    "fgd": (2532, 5_919_410, 6189, (138.43, 85.86, 1.23, 27.28, 6.06, 33.73, 292.59, 291.36), 99.58),
    "best-fit": (2676, 5_785_450, 6112, (214.46, 42.30, 4.19, 107.60, 4.60, 53.40, 426.55, 422.36), 99.02),
    "gpu-packing": (2794, 5_688_580, 5972, (155.46, 69.50, 5.02, 222.26, 7.61, 63.56, 523.42, 518.40), 99.04),
    "gpu-clustering": (2797, 5_686_120, 5942, (138.73, 71.29, 6.25, 238.10, 7.76, 63.75, 525.88, 519.63), 98.81),
    "dot-product": (2874, 5_624_470, 5964, (199.87, 37.79, 2.90, 267.07, 4.29, 75.60, 587.53, 584.63), 99.51),
}


def fragmented(amounts: list[float]) -> float:
    return sum(amounts) - amounts[2]


def amounts_after(run: Run, pod: int) -> list[float]:
    return [float(x) for x in run.tape.meter_PM[pod, AMOUNTS : AMOUNTS + 7]]


@pytest.mark.parametrize("pods", LISTS)
@pytest.mark.parametrize("seed", SEEDS)
def test_arrival_order_and_node_ranks_are_the_given_ones(openb_data: Path, pods: str, seed: int) -> None:
    given, read = np.load(openb_data / "orders" / f"{pods}.npz"), trace(openb_data, pods)
    found = openb_arrival(read.workload, read.nodes, LOAD, seed)
    by_name, order = sorted(read.workload.names), given[f"order_{seed}"]
    assert [name.partition("-tuned-")[0] for name in found.workload.names] == [by_name[row] for row in order]
    nodes_by_name = sorted(range(len(read.nodes)), key=lambda n: read.nodes[n].name)
    assert found.rank_N[nodes_by_name].tolist() == given[f"node_rank_{seed}"].tolist()


@pytest.mark.parametrize(("seed", "pods"), [(42, 10_866), (43, 10_793)])
def test_tuning_ends_with_the_published_number_of_pods(openb_data: Path, seed: int, pods: int) -> None:
    default = trace(openb_data, "default")
    arrived = openb_arrival(default.workload, default.nodes, LOAD, seed).workload
    assert len(arrived) == pods
    assert [name for name in arrived.names if "-tuned-" in name] == list(arrived.names[8152:])


def test_first_and_last_draws_of_seed_42_are_the_printed_ones(openb_data: Path) -> None:
    default = trace(openb_data, "default")
    found = openb_arrival(default.workload, default.nodes, LOAD, 42)
    numbers = [int(name.partition("-tuned-")[0][-4:]) for name in found.workload.names]
    assert numbers[:10] == [255, 1685, 6784, 4463, 602, 1564, 3882, 7257, 6545, 1541]
    assert numbers[8149:8152] == [1701, 4923, 538]
    assert numbers[8152:8162] == [3888, 5689, 2936, 788, 5416, 104, 5457, 3884, 409, 5943]
    assert found.workload.names[8152] == "openb-pod-3888-tuned-0"
    assert int(found.workload.gpu_milli_P.sum()) == 8_075_080
    assert found.rank_N[:10].tolist() == [601, 815, 450, 13, 731, 1143, 966, 834, 181, 1060]
    assert found.rank_N[-1] == 968


def test_a_pod_of_several_gpus_may_carry_the_load_past_its_target(openb_data: Path) -> None:
    default = trace(openb_data, "default")
    arrived = openb_arrival(default.workload, default.nodes, LOAD, 45).workload
    assert int(arrived.gpu_milli_P.sum()) == 8_082_190


def test_typical_pods_of_the_default_list_are_35_of_91_shapes(openb_data: Path) -> None:
    mix = mix_of(trace(openb_data, "default"))
    typical = typical_pods(mix)
    assert len({(s.cpu_milli, s.gpu_milli, s.gpu_count, s.gpu_models) for s in mix.shapes}) == 91
    assert len(typical.cpu_T) == 35
    assert (typical.cpu_T[0], typical.milli_T[0], typical.count_T[0]) == (3152, 810, 1)
    assert typical.weight_T[0] == pytest.approx(1047 / 7766)
    # Equal counts (120 and 72 pods): the larger shape first.
    assert typical.cpu_T[20:22].tolist() == [15400, 6000]
    assert typical.cpu_T[26:28].tolist() == [8000, 4152]


@pytest.mark.parametrize("policy", FIRST_DECISIONS)
def test_first_six_decisions_are_the_printed_ones(openb_data: Path, policy: str) -> None:
    run = finished_default(openb_data, policy)
    assert [name[-4:] for name in run.workload.names[:6]] == list(FIRST_PODS)
    found = []
    for pod in range(6):
        node, devices = int(run.scene.progress.node_P[pod]), int(run.scene.progress.devices_P[pod])
        place = f"{node:04d}-{run.state.nodes[node].name.removeprefix('openb-node-')}"
        found.append((place, devices.bit_length() - 1, round(fragmented(amounts_after(run, pod)), 2)))
        assert devices.bit_count() == (0 if pod == 0 else 1)
    assert tuple(found) == FIRST_DECISIONS[policy]


@pytest.mark.parametrize("policy", END_OF_RUN)
def test_end_of_the_run_is_the_printed_one(openb_data: Path, policy: str) -> None:
    run = finished_default(openb_data, policy)
    failed, used, devices, thousands, percent = END_OF_RUN[policy]
    amounts, last = amounts_after(run, len(run.workload) - 1), run.tape.meter_PM[-1]
    assert int((run.scene.progress.node_P < 0).sum()) == failed
    assert (last[GPU_USED], last[DEVICES_USED]) == (used, devices)
    q1, q2, q3, q4, xl, xr, no_access = amounts
    idle, frag = sum(amounts), fragmented(amounts)
    found = [f"{value / 1000:.2f}" for value in (q1, q2, q3, q4, xl, xr, idle, frag)]
    assert found == [f"{value:.2f}" for value in thousands]
    assert no_access == 0
    assert f"{100 * frag / idle:.2f}" == f"{percent:.2f}"
    assert idle == pytest.approx(6_212_000 - used)
