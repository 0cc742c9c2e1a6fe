"""ClusterState: every arrow of its state machine, those that are not there, and what a shape means to a cluster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pilotage.model.cluster import (
    CPU_AXIS,
    MAX_DEVICES,
    MEMORY_AXIS,
    PODS_AXIS,
    SCORED_CPU_MILLI,
    SCORED_MEMORY_BYTES,
    ClusterState,
    Node,
)
from pilotage.model.constraints import Constraints, Requirement, Taint, Toleration
from pilotage.model.errors import InputError, StateError
from pilotage.model.workload import PodShape

GIB = 2**30
SHARE = PodShape(2000, GIB, gpu_milli=300, gpu_count=1)
PAIR = PodShape(4000, 2 * GIB, gpu_milli=1000, gpu_count=2)
PLAIN = PodShape(1000, GIB)

Step = Callable[[ClusterState], None]


def cluster() -> ClusterState:
    return ClusterState(
        [
            Node("a", 8000, 16 * GIB, pods=10, gpu_count=4, gpu_model="T4"),
            Node("b", 16000, 32 * GIB, pods=20, gpu_count=1, gpu_model="G2"),
            Node("c", 4000, 8 * GIB, pods=5),
        ]
    )


def snapshot(state: ClusterState) -> tuple[object, ...]:
    """Everything a transition may change."""
    return (*(array.tolist() for array in state.arrays), sorted(state.placements(), key=lambda item: item[0]))


def assume(state: ClusterState) -> None:
    state.assume("p", SHARE, 0, devices=0b10)


def confirm(state: ClusterState) -> None:
    state.confirm("p")


def forget(state: ClusterState) -> None:
    state.forget("p")


def add(state: ClusterState) -> None:
    state.add("p", SHARE, 0, devices=0b10)


def remove(state: ClusterState) -> None:
    state.remove("p")


UNKNOWN: tuple[Step, ...] = ()
ASSUMED = (assume,)
BOUND = (assume, confirm)


def at(steps: tuple[Step, ...]) -> ClusterState:
    state = cluster()
    for step in steps:
        step(state)
    return state


# Arrows that exist


def test_assuming_takes_the_resources_at_once() -> None:
    state = at(ASSUMED)
    arrays = state.arrays
    assert arrays.free_NR[0].tolist() == [6000, 15 * GIB, 9]
    assert arrays.device_left_ND[0].tolist() == [1000, 700, 1000, 1000]
    assert arrays.kind_count_NT[0].tolist() == [1, 0, 0, 0, 0]
    assert arrays.scored_used_N2[0].tolist() == [2000, GIB]
    assert arrays.free_NR[1:].tolist() == arrays.capacity_NR[1:].tolist()
    placement = state.placement("p")
    assert placement is not None
    assert (placement.node, placement.devices, placement.shape) == (0, 0b10, SHARE)


def test_confirming_keeps_the_resources_taken() -> None:
    assert snapshot(at(BOUND)) == snapshot(at(ASSUMED))


def test_forgetting_gives_everything_back() -> None:
    assert snapshot(at((assume, forget))) == snapshot(cluster())


def test_removing_gives_everything_back() -> None:
    assert snapshot(at((assume, confirm, remove))) == snapshot(cluster())


def test_adding_a_pod_bound_elsewhere_takes_the_resources() -> None:
    assert snapshot(at((add,))) == snapshot(at(BOUND))


def test_an_added_pod_can_be_removed() -> None:
    assert snapshot(at((add, remove))) == snapshot(cluster())


@pytest.mark.parametrize("steps", [(assume, forget), (assume, confirm, remove), (add, remove)])
def test_a_pod_that_left_may_come_again(steps: tuple[Step, ...]) -> None:
    assert snapshot(at((*steps, assume))) == snapshot(at(ASSUMED))


# Arrows that do not exist


@pytest.mark.parametrize(
    ("before", "step"),
    [
        (UNKNOWN, confirm),
        (UNKNOWN, forget),
        (UNKNOWN, remove),
        (ASSUMED, assume),
        (ASSUMED, add),
        (ASSUMED, remove),
        (BOUND, assume),
        (BOUND, add),
        (BOUND, confirm),
        (BOUND, forget),
    ],
)
def test_any_other_transition_is_an_error_and_changes_nothing(before: tuple[Step, ...], step: Step) -> None:
    state = at(before)
    kept = snapshot(state)
    with pytest.raises(StateError, match="'p'"):
        step(state)
    assert snapshot(state) == kept
    # Still where it was: only an assumed pod can be forgotten, only a bound one removed.
    if before == ASSUMED:
        state.forget("p")
    elif before == BOUND:
        state.remove("p")
    assert state.placement("p") is None


def test_only_what_is_asked_for_must_be_there() -> None:
    """As for the kernels and kube-scheduler: a node that others overfilled takes a pod that asks for none of that."""
    state = cluster()
    state.add("large", PodShape(cpu_milli=2 * state.nodes[2].cpu_milli, memory_bytes=0), 2)
    state.assume("none", PodShape(cpu_milli=0, memory_bytes=1), 2)
    with pytest.raises(StateError, match="does not fit"):
        state.assume("some", PodShape(cpu_milli=1, memory_bytes=0), 2)


@pytest.mark.parametrize(
    ("shape", "node", "devices"),
    [
        (SHARE, 0, 0),  # a GPU pod without a device
        (SHARE, 0, 0b11),  # more devices than asked for
        (PAIR, 0, 0b1),  # fewer
        (SHARE, 1, 0b10),  # a device the node does not have
        (SHARE, 2, 0b1),  # a node without GPU
        (PLAIN, 0, 0b1),  # a device for a pod that asks for none
    ],
)
@pytest.mark.parametrize("way", ["assume", "add"])
def test_a_device_mask_that_does_not_match_is_an_error_and_changes_nothing(
    shape: PodShape, node: int, devices: int, way: str
) -> None:
    state = cluster()
    with pytest.raises(StateError, match="device mask"):
        getattr(state, way)("p", shape, node, devices)
    assert snapshot(state) == snapshot(cluster())


def test_whole_devices_are_counted_by_how_many_a_pod_has() -> None:
    state = cluster()
    state.add("pair", PAIR, 0, devices=0b101)
    state.add("share", SHARE, 0, devices=0b10)
    assert state.arrays.device_left_ND[0].tolist() == [0, 700, 0, 1000]
    assert state.arrays.kind_count_NT[0].tolist() == [1, 0, 1, 0, 0]


def test_every_placement_is_listed_once_whatever_its_state() -> None:
    state = at(BOUND)
    state.assume("q", PLAIN, 2)
    assert {key: placement.node for key, placement in state.placements()} == {"p": 0, "q": 2}


# A cluster's axes


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="same name"):
        ClusterState([Node("a", 1, 1), Node("a", 2, 2)])


def test_more_devices_than_a_mask_holds_are_refused_with_the_node() -> None:
    with pytest.raises(InputError, match="node 'big' has 63 GPUs"):
        ClusterState([Node("small", 1, 1), Node("big", 1, 1, gpu_count=MAX_DEVICES + 1)])


def test_devices_models_and_capacity_follow_the_nodes() -> None:
    state = cluster()
    assert state.models == ("G2", "T4")
    assert state.arrays.model_N.tolist() == [1, 0, -1]
    assert state.arrays.device_left_ND.tolist() == [[1000] * 4, [1000, 0, 0, 0], [0] * 4]
    assert state.gpu_capacity_milli == 5000


def test_a_model_without_devices_is_no_model() -> None:
    state = ClusterState([Node("a", 1, 1, gpu_model="T4")])
    assert state.models == ()
    assert state.arrays.model_N.tolist() == [-1]


def test_zone_and_rack_are_read_from_labels() -> None:
    labels = (("topology.kubernetes.io/zone", "z1"), ("topology.kubernetes.io/rack", "r7"))
    assert (Node("a", 1, 1, labels=labels).zone, Node("a", 1, 1, labels=labels).rack) == ("z1", "r7")
    assert (Node("b", 1, 1).zone, Node("b", 1, 1).rack) == ("", "")


# What a shape asks of a cluster


def extended_cluster() -> ClusterState:
    return ClusterState([Node("a", 8000, GIB, extended=(("fpga", 2),)), Node("b", 8000, GIB, extended=(("nic", 1),))])


def test_demand_puts_every_resource_on_its_axis() -> None:
    state = extended_cluster()
    assert state.resources == ("cpu", "memory", "pods", "fpga", "nic")
    asked = PodShape(1500, 512, extended=(("nic", 1),))
    assert state.demand(asked).request_R.tolist() == [1500, 512, 1, 0, 1]
    assert state.arrays.capacity_NR[:, 3:].tolist() == [[2, 0], [0, 1]]


def test_a_pod_takes_and_gives_back_extended_resources() -> None:
    state = extended_cluster()
    shape = PodShape(1000, 1, extended=(("fpga", 2),))
    state.add("p", shape, 0)
    assert state.arrays.free_NR[0].tolist() == [7000, GIB - 1, 109, 0, 0]
    state.remove("p")
    assert state.arrays.free_NR.tolist() == state.arrays.capacity_NR.tolist()


def test_a_resource_that_no_node_has_fits_nowhere() -> None:
    state = extended_cluster()
    request_R = state.demand(PodShape(1, 1, extended=(("tpu", 1),))).request_R
    assert not (request_R <= state.arrays.free_NR).all(axis=1).any()


def test_none_of_a_resource_that_no_node_has_is_no_obstacle() -> None:
    state = extended_cluster()
    request_R = state.demand(PodShape(1, 1, extended=(("tpu", 0),))).request_R
    assert (request_R <= state.arrays.free_NR).all()


def test_a_pod_without_requests_is_scored_as_kube_scheduler_does_but_takes_nothing() -> None:
    state = cluster()
    demand = state.demand(PodShape())
    assert demand.scored_2.tolist() == [SCORED_CPU_MILLI, SCORED_MEMORY_BYTES] == [100, 200 * 1024 * 1024]
    assert demand.request_R[[CPU_AXIS, MEMORY_AXIS, PODS_AXIS]].tolist() == [0, 0, 1]


# Where a shape may go


def allowed(state: ClusterState, shape: PodShape) -> list[str]:
    return [state.nodes[n].name for n in np.flatnonzero(state.eligible_N(shape))]


def varied() -> ClusterState:
    return ClusterState(
        [
            Node("t4", 1, 1, gpu_count=2, gpu_model="T4", labels=(("disk", "ssd"), ("cores", "16"))),
            Node("g2", 1, 1, gpu_count=8, gpu_model="G2", taints=(Taint("gpu", "reserved"),)),
            Node("bare", 1, 1, gpu_count=1, taints=(Taint("old", effect="PreferNoSchedule"),)),
            Node("cpu", 1, 1, labels=(("disk", "hdd"), ("cores", "64"))),
        ]
    )


def test_any_pod_may_use_every_node_without_taints_that_forbid() -> None:
    assert allowed(varied(), PodShape(1, 1)) == ["t4", "bare", "cpu"]


def test_a_gpu_pod_needs_devices() -> None:
    assert allowed(varied(), SHARE) == ["t4", "bare"]


@pytest.mark.parametrize(
    ("models", "nodes"),
    [
        ("", ["t4", "bare"]),
        ("T4", ["t4"]),
        ("T4|G2", ["t4"]),
        ("|T4||T4|", ["t4"]),
        ("|", ["t4", "bare"]),  # nothing is named
        ("T", []),  # not a prefix
        ("t4", []),  # not another case
    ],
)
def test_a_named_model_must_be_the_nodes_own(models: str, nodes: list[str]) -> None:
    assert allowed(varied(), PodShape(1, 1, 500, 1, models)) == nodes


def test_models_do_not_matter_to_a_pod_without_gpu() -> None:
    assert allowed(varied(), PodShape(1, 1, gpu_models="G2")) == ["t4", "bare", "cpu"]


def test_a_toleration_opens_a_tainted_node() -> None:
    rules = Constraints(tolerations=(Toleration("gpu", "Equal", "reserved"),))
    assert allowed(varied(), PodShape(1, 1, 1000, 1, constraints=rules)) == ["t4", "g2", "bare"]


def test_labels_and_models_both_have_to_allow_a_node() -> None:
    ssd = Constraints(terms=((Requirement("disk", "In", ("ssd",)),),))
    assert allowed(varied(), PodShape(1, 1, constraints=ssd)) == ["t4"]
    assert allowed(varied(), PodShape(1, 1, 500, 1, "G2", constraints=ssd)) == []


def test_a_fixed_node_is_the_only_one() -> None:
    assert allowed(varied(), PodShape(1, 1, constraints=Constraints(node_name="cpu"))) == ["cpu"]
    assert allowed(varied(), PodShape(1, 1, constraints=Constraints(node_name="gone"))) == []


def test_eligibility_ignores_what_is_free() -> None:
    state = cluster()
    state.add("p", PodShape(4000, 8 * GIB), 2)
    assert allowed(state, PLAIN) == ["a", "b", "c"]
