"""Measurements as columns: age, what is missing, what is stale, and the policies that read them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT
from kube.objects import a_pod
from pilotage.kernels.features import LOAD, LOAD_AGE, LOAD_CPU, LOAD_RECEIVE, NODE_FEATURES, POD_FEATURES
from pilotage.kube.cache import ClusterCache
from pilotage.kube.filters import by_rules
from pilotage.kube.podview import read_pod
from pilotage.load.columns import LoadColumns
from pilotage.load.settings import OWN_NETWORK, PRESETS, LoadSettings, preset, read_load_settings
from pilotage.model.clock import VirtualClock
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray
from pilotage.policies.api import DecisionBatch
from pilotage.policies.choose import score_candidates
from pilotage.policies.registry import find_policy

NODES = tuple(Node(name, 4000, 2**33) for name in "abc")


def columns(clock: VirtualClock) -> LoadColumns:
    return LoadColumns(LoadSettings("http://127.0.0.1:9", stale_seconds=60.0), clock)


def filled(found: LoadColumns) -> FloatArray:
    node_NF = np.zeros((3, len(NODE_FEATURES)))
    found.fill(NODES, node_NF)
    return node_NF


def test_a_node_that_is_not_measured_has_the_mean_of_the_others() -> None:
    found = columns(VirtualClock(100.0))
    found.take("cpu", {"a": 0.2, "b": 0.6}, age=0.0)
    node_NF = filled(found)
    assert node_NF[:, LOAD_CPU].tolist() == pytest.approx([0.2, 0.6, 0.4])
    assert node_NF[:, LOAD_AGE].tolist() == [0.0, 0.0, -1.0]


def test_what_is_too_old_is_as_good_as_not_measured() -> None:
    clock = VirtualClock(100.0)
    found = columns(clock)
    found.take("cpu", {"a": 0.2, "b": 0.6}, age=5.0)
    clock.seconds += 50
    assert filled(found)[:, LOAD_AGE].tolist() == [55.0, 55.0, -1.0]
    clock.seconds += 10
    node_NF = filled(found)
    assert not node_NF[:, LOAD_CPU].any()
    assert node_NF[:, LOAD_AGE].tolist() == [-1.0, -1.0, -1.0]
    assert found.fresh_nodes() == 0


def test_the_busiest_of_cpu_and_network_is_the_load() -> None:
    found = columns(VirtualClock())
    found.take("cpu", {"a": 0.2, "b": 0.6, "c": 0.1}, age=0.0)
    found.take("receive", {"a": 1.25e9 / 2, "b": 0.0, "c": 9e9}, age=0.0)
    assert filled(found)[:, LOAD].tolist() == pytest.approx([0.5, 0.6, 1.0])


def batch(node_NF: FloatArray, **pod: float) -> DecisionBatch:
    pod_BF = np.array([[pod.get(name, 0.0) for name in POD_FEATURES]])
    return DecisionBatch(pod_BF, node_NF[None], np.zeros((1, 3, 1), np.int64), np.ones((1, 3), np.bool_))


@pytest.mark.parametrize(
    ("policy", "column"),
    [("least-network", "load_transmit"), ("least-connections", "load_connections"), ("least-load", "load")],
)
def test_the_node_with_the_least_is_preferred(policy: str, column: str) -> None:
    node_NF = np.zeros((3, len(NODE_FEATURES)))
    node_NF[:, NODE_FEATURES.index(column)] = [5.0, 1.0, 3.0]
    assert score_candidates(find_policy(policy), batch(node_NF)).totals().argsort().tolist() == [0, 2, 1]


def test_latency_counts_from_the_soft_limit_to_the_hard_one_and_beyond() -> None:
    node_NF = np.zeros((3, len(NODE_FEATURES)))
    node_NF[:, NODE_FEATURES.index("load_latency")] = [0.010, 0.040, 0.500]
    total_N = score_candidates(find_policy("latency"), batch(node_NF, latency_soft=0.02, latency_hard=0.06)).totals()
    assert total_N[0] == 1.0  # below the soft limit
    assert total_N[1] == pytest.approx(0.5)
    assert total_N[2] < 0.0


def test_without_measurements_every_policy_is_neutral() -> None:
    node_NF = filled(columns(VirtualClock()))
    for name in ("least-network", "least-load", "least-connections", "latency"):
        assert len(set(score_candidates(find_policy(name), batch(node_NF)).raw_N)) == 1


def test_a_hard_limit_of_latency_takes_slow_nodes_out_and_no_others() -> None:
    clock = VirtualClock()
    found = columns(clock)
    cache = ClusterCache()
    cache.measured = found.fill
    cache.set_nodes(NODES)
    found.take("latency", {"a": 0.01, "b": 0.2}, age=0.0)
    cache.measure()
    pod = read_pod(a_pod("p", annotations={"pilotage.dev/latency-hard": "100ms"}))
    [(reason, out_N)] = by_rules(pod, cache)
    assert out_N.tolist() == [False, True, False]  # c is not measured
    assert "latency" in reason


def test_a_limit_that_cannot_be_read_is_said() -> None:
    pod = read_pod(a_pod("p", annotations={"pilotage.dev/latency-soft": "soon"}))
    assert "pilotage.dev/latency-soft is 'soon'" in pod.problem


def test_settings_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "load.yaml"
    path.write_text(
        "address: http://127.0.0.1:9090/\npresets: [node-exporter, dcgm]\nintervalSeconds: 5\n"
        "queries: {latency: probe_duration_seconds}\nnodeLabels: [host]\n"
    )
    found = read_load_settings(path)
    assert found.address == "http://127.0.0.1:9090"
    assert found.interval_seconds == 5.0
    assert found.labels == ("host",)
    assert set(found.queries) == {
        "cpu", "memory", "receive", "transmit", "connections", "gpu", "gpu_memory", "latency"
    }  # fmt: skip
    assert "[60s]" in found.query("receive")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("address: ftp://x", "no address"),
        ("address: http://x\nqueries: {speed: up}", "speed"),
        ("address: http://x\npresets: [node]", "node-exporter"),
        ("address: http://x\nintervalSeconds: 0", "intervalSeconds"),
        ("address: http://x\ninterval: 5", "intervalSeconds"),
        ("presets: [dcgm]", "address"),
        ("address: http://x\ninterfaces: 'eth0\"}'", "interfaces"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "load.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=named) as error:
        read_load_settings(path)
    assert error.value.file == str(path)


def test_interfaces_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "load.yaml"
    path.write_text("address: http://x\n")
    assert 'device!~"lo|veth.*' in read_load_settings(path).query("receive")
    path.write_text("address: http://x\ninterfaces: eth1\n")
    expected = 'sum by (node, instance) (rate(node_network_transmit_bytes_total{device=~"eth1"}[60s]))'
    assert read_load_settings(path).query("transmit") == expected


@pytest.mark.parametrize(
    "address", ["prometheus", "ftp://x", "http://", "http://[", "http://x:y", "http://x:0", "http://x?y"]
)
def test_what_is_no_address_is_refused_by_its_option(address: str) -> None:
    with pytest.raises(InputError, match=r"^--prometheus: .* is no address"):
        preset(address, "node-exporter")


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(InputError, match="dcgm"):
        preset("http://127.0.0.1:9090", "gpu")


def test_new_measurements_reach_scores_that_are_kept() -> None:
    clock = VirtualClock()
    found = columns(clock)
    cache = ClusterCache()
    cache.measured = found.fill
    cache.set_nodes(NODES)
    seen = cache.changes
    found.take("receive", {"a": 1.0}, age=0.0)
    cache.measure()
    assert cache.node_NF[0, LOAD_RECEIVE] == 1.0
    assert cache.changes - seen > len(NODES)  # more than a row can take in one by one: all is scored afresh


def test_the_presets_are_those_of_the_documentation() -> None:
    text = (ROOT / "docs" / "load.md").read_text()
    for name, queries in PRESETS.items():
        for measure, query in queries.items():
            assert f"| `{name}` | `{measure}` | `{query}` |" in text


@pytest.mark.parametrize(
    "device", ["lo", "veth1a2b", "cali0", "lxc_health", "cilium_host", "kube-ipvs0", "vxlan.calico"]
)
def test_what_is_not_the_nodes_own_network_does_not_count(device: str) -> None:
    pattern = OWN_NETWORK.removeprefix('device!~"').removesuffix('"')
    assert re.fullmatch(pattern, device)
    assert not any(re.fullmatch(pattern, own) for own in ("eth0", "ens5", "enp3s0f1", "bond0", "ib0", "eno1.100"))
