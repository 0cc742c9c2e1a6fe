"""The columns about a pod's gang: filled for each decision, for nobody else, and only where a policy reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.kernels.episode import step
from pilotage.kernels.features import (
    GANG_COLUMNS,
    GANG_IN_RACK,
    GANG_IN_ZONE,
    GANG_ON_NODE,
    GANG_RACK_ROOM,
    POD_GANG_COLUMNS,
    POD_GANG_LEFT,
    POD_GANG_PLACED,
)
from pilotage.kernels.scene import NOT_ARRIVED, RUNS, WAITS
from pilotage.model.cluster import Node
from pilotage.model.workload import Gang, Pod, PodShape, Workload
from pilotage.policies.registry import find_policy
from pilotage.sim.run import NodeEvent, Run, RunSettings
from pilotage.workloads.topology import labelled
from reference.machines import Machine, distance, rack_rooms
from reference.scores import pick_devices
from reference.strategies import NodeEvents, checked, gang_cases, node_lists, shapes, timed_cases

COLUMNS = [GANG_ON_NODE, GANG_IN_RACK, GANG_IN_ZONE, GANG_RACK_ROOM]
NOTHING = [0.0] * len(COLUMNS)


def machines_of(run: Run) -> list[Machine]:
    """The cluster as it is, put together from the pods that run."""
    scene = run.scene
    machines = [Machine(node, n, alive=bool(scene.cluster.alive_N[n])) for n, node in enumerate(run.state.nodes)]
    for p, pod in enumerate(run.workload):
        if scene.progress.state_P[p] == RUNS:
            devices = int(scene.progress.devices_P[p])
            taken = tuple(d for d in range(devices.bit_length()) if devices // 2**d % 2 == 1)
            machines[scene.progress.node_P[p]].running[p] = (pod.shape, taken)
    return machines


def expected(run: Run, pod: int) -> tuple[list[float], list[list[float]]]:
    """Pods of the gang placed and left; for each node those on it, in its rack, in its zone, and the rack's room."""
    pods, progress, nodes = list(run.workload), run.scene.progress, run.state.nodes
    gang = pods[pod].gang
    if gang is None:
        return [0, 0], [NOTHING] * len(nodes)
    members = [q for q, other in enumerate(pods) if other.gang == gang]
    mates = [nodes[progress.node_P[q]] for q in members if progress.state_P[q] == RUNS]
    apart_N = [[distance(node, mate) for mate in mates] for node in nodes]
    counts_N = [[sum(d <= reach for d in apart) for reach in range(3)] for apart in apart_N]
    rooms = rack_rooms(machines_of(run), pods[pod].shape)
    rows = [[float(count) for count in (*counts, room)] for counts, room in zip(counts_N, rooms, strict=True)]
    needing = [q for q in members if progress.state_P[q] in (NOT_ARRIVED, WAITS)]
    return [len(mates), len(needing)], rows


def shown(run: Run, pod: int) -> tuple[list[float], list[list[float]]]:
    row = run.scene.shapes.pod_SF[run.workload.shape_P[pod]]
    return row[[POD_GANG_PLACED, POD_GANG_LEFT]].tolist(), run.scene.node_NF[:, COLUMNS].tolist()


@pytest.mark.parametrize("retry", [True, False], ids=["whole gangs", "one by one"])
@given(
    st.one_of(timed_cases(pods=15, gangs=True), gang_cases()),
    st.sampled_from(["gang-locality", "gang-spread", "random+0*gang-spread"]),
)
@checked(40)
def test_columns_are_right_at_every_decision(
    retry: bool, case: tuple[list[Node], Workload, NodeEvents], text: str
) -> None:
    nodes, workload, events = case
    settings = RunSettings(retry=retry, timed=True, node_events=tuple(NodeEvent(*event) for event in events))
    run = Run(nodes, workload, find_policy(text), settings)
    pod = step(run.scene, run.tape, -1, -1, 0)
    while pod >= 0:
        assert shown(run, pod) == expected(run, pod)
        pod = step(run.scene, run.tape, pod, *run.interpreter.decision(pod))


@given(node_lists(most=3), shapes())
@checked(150)
def test_room_is_how_many_pods_can_come_one_after_the_other(nodes: list[Node], shape: PodShape) -> None:
    """Counted by amounts it may be more than can come, but only for parts of several devices."""
    for machine in (Machine(node, n) for n, node in enumerate(nodes)):
        room, came = machine.room(shape), 0
        while machine.fits(shape):
            machine.running[came] = (shape, pick_devices(shape, machine.lefts(), "best", 0.0))
            came += 1
        assert came <= room if shape.gpu_count > 1 and shape.gpu_milli < 1000 else came == room


def test_columns_about_gangs_are_these() -> None:
    """Policies that name one of them have them filled; a column that is not among them would stay zero."""
    assert GANG_COLUMNS == ("gang_on_node", "gang_in_rack", "gang_in_zone", "gang_rack_room")
    assert POD_GANG_COLUMNS == ("gang_placed", "gang_left")


def test_columns_stay_zero_for_policies_that_do_not_read_them() -> None:
    nodes = labelled([Node(f"n{i}", 1000, 1) for i in range(4)], servers_per_rack=2)
    workload = Workload.of(Pod(f"p{i}", PodShape(500), gang=Gang("g", 4)) for i in range(4))
    for name, wanted in (("best-fit", False), ("best-fit+0.5*gang-locality", True), ("gang-spread", True)):
        run = Run(nodes, workload, find_policy(name), RunSettings())
        run.advance()
        assert run.scene.neighbours.wanted is wanted
        assert bool(run.scene.node_NF[:, COLUMNS].any()) is wanted


def places(policy: str, cpus: list[int], size: int) -> list[int]:
    """Where a gang of pods of 500 milli goes on nodes with so much CPU, two to a rack, two racks to a zone."""
    nodes = labelled([Node(f"n{i}", cpu, 1) for i, cpu in enumerate(cpus)], servers_per_rack=2, racks_per_zone=2)
    workload = Workload.of(Pod(f"p{i}", PodShape(500), gang=Gang("g", size)) for i in range(size))
    run = Run(nodes, workload, find_policy(policy), RunSettings())
    run.advance()
    return [int(n) for n in run.scene.progress.node_P]


@pytest.mark.parametrize(
    ("policy", "expected_nodes"), [("gang-locality", [0, 0, 1, 1, 2, 2]), ("gang-spread", [0, 4, 2, 6, 1, 5])]
)
def test_gangs_gather_or_scatter(policy: str, expected_nodes: list[int]) -> None:
    assert places(policy, [1000] * 8, size=6) == expected_nodes


def test_the_first_pod_goes_where_its_rack_has_room_for_all() -> None:
    """Racks with room for two, three, four and four."""
    cpus = [500, 500, 1000, 500, 1000, 1000, 1000, 1000]
    assert places("gang-locality", cpus, size=2) == [0, 1]
    assert places("gang-locality", cpus, size=3) == [2, 2, 3]
    assert places("gang-locality", cpus, size=4) == [4, 4, 5, 5]
    assert places("gang-spread", cpus, size=2) == [0, 4]


def test_a_gang_larger_than_any_rack_starts_in_the_roomiest_and_spills_over_in_its_zone() -> None:
    """The roomiest rack (five) is in a zone without more; that the other zone would hold all is not seen."""
    assert places("gang-locality", [1000, 1500, 0, 0, 1000, 1000, 1000, 1000], size=8) == [0, 0, 1, 1, 1, 4, 4, 5]
    assert places("gang-locality", [1000, 1000, 1500, 1000, 0, 0, 0, 0], size=8) == [2, 2, 2, 3, 3, 0, 0, 1]
