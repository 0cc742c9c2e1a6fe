"""What can be set, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from pilotage.envs.settings import DEFAULTS, EnvSettings, parse_nodes
from pilotage.envs.worlds import source_of
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import Pod, PodShape, Workload
from pilotage.workloads.trace import Trace


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": (5, 3)}, "bad numbers"),
        ({"nodes": (0, 3)}, "bad numbers"),
        ({"nodes": (2.5, 3)}, "bad numbers"),
        ({"nodes": "3-4"}, "bad numbers"),
        ({"nodes": True}, "bad numbers"),
        ({"nodez": 3}, "unknown setting 'nodez'; did you mean 'nodes'"),
        ({"pods_per_node": 0}, "pods_per_node"),
        ({"pods_per_node": "many"}, "pods_per_node"),
        ({"pods_per_node": 2e6}, "pods_per_node"),
        ({"node_changes": 1.5}, "node_changes"),
        ({"traffic": -0.1}, "traffic"),
        ({"penalty": float("nan")}, "penalty"),
        ({"objectives": {"balence": 1.0}}, "unknown objective 'balence'; did you mean 'balance'"),
        ({"objectives": {"balance": float("inf")}}, "bad weight"),
        ({"objectives": {"balance": "1"}}, "bad weight"),
        ({"objectives": "balance"}, "objectives"),
        ({"workload": 5}, "unknown workload '5'"),
        ({"workload": "mixd"}, "unknown workload 'mixd'; did you mean 'mixed'"),
    ],
)
def test_bad_values_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        EnvSettings.of("balance", **changes)


def test_an_unknown_environment_is_refused() -> None:
    with pytest.raises(InputError, match="unknown environment 'packin'; did you mean 'packing'"):
        EnvSettings.of("packin")


@pytest.mark.parametrize("name", DEFAULTS)
def test_settings_can_be_sent_to_other_processes(name: str) -> None:
    settings = EnvSettings.of(name)
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301
    assert settings.environment == name


def test_a_trace_brings_its_numbers() -> None:
    nodes = [Node(f"n{n}", 4000, 4000) for n in range(3)]
    trace = Trace.of("mine", nodes, Workload.of(Pod(f"p{p}", PodShape(1000)) for p in range(12)))
    settings = EnvSettings.of("packing", workload=trace)
    assert (settings.nodes, settings.pods_per_node) == ((3, 3), 4.0)
    assert EnvSettings.of("packing", workload=trace, nodes=(1, 2)).nodes == (1, 2)
    with pytest.raises(InputError, match="4 nodes wanted of 3"):
        source_of(EnvSettings.of("packing", workload=trace, nodes=(4, 4)))


def test_one_number_of_nodes_will_do() -> None:
    assert EnvSettings.of("balance", nodes=7).nodes == EnvSettings.of("balance", nodes=np.int64(7)).nodes == (7, 7)
    assert parse_nodes("7") == (7, 7)
    assert parse_nodes("3-50") == (3, 50)


@pytest.mark.parametrize("text", ["", "3-", "-3", "3 to 5", "1e3", "3-5-7"])
def test_ranges_of_nodes_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--nodes"):
        parse_nodes(text)
