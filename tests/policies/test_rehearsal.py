"""Which valuation a policy of several takes: the one that fills a cluster like the real one best, varied until it does
better still."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pilotage.model.cluster import ClusterState, Node
from pilotage.model.workload import PodShape
from pilotage.policies import practice, rehearsed
from pilotage.policies.api import WorkloadMix
from pilotage.policies.practice import PATIENCE, TOGETHER, practised, usual_orders, usual_runs
from pilotage.policies.priced import LAYOUT, Priced
from pilotage.policies.refusals import Refusals
from pilotage.policies.registry import find_policy
from pilotage.policies.rehearsal import STRICTER, Rehearsal, race
from pilotage.policies.rehearsed import KEPT, Rehearsed

NODES = [Node(f"n{i}", 96_000, 2**39, 110, 8 if i % 3 else 4, "A") for i in range(24)]
SHAPES = (
    PodShape(3000, 2**30, 250, 1),
    PodShape(3000, 2**30, 400, 1),
    PodShape(3000, 2**30, 600, 1),
    PodShape(16_000, 2**32, 1000, 2),
    PodShape(1000, 2**30),
)
COUNTS = np.array([60, 60, 60, 8, 40])


def mix_on(nodes: list[Node], shapes: tuple[PodShape, ...] = SHAPES, counts: np.ndarray = COUNTS) -> WorkloadMix:
    return WorkloadMix(shapes, counts).on(ClusterState(nodes))


@pytest.fixture(scope="module")
def good() -> Priced:
    known = find_policy("pilotage-pack")
    return known.valuations[0] if isinstance(known, Rehearsed) else known  # type: ignore[return-value]


@pytest.fixture(scope="module")
def bad(good: Priced) -> Priced:
    """Seeks the opposite of what the good one does."""
    return replace(good, parameters=-good.parameters)


def winner(policies: tuple[Priced, ...], mix: WorkloadMix) -> int:
    return race(policies, Rehearsal(mix))[0]


def test_the_better_valuation_is_found_wherever_it_stands(good: Priced, bad: Priced) -> None:
    assert winner((bad, good), mix_on(NODES)) == 1
    assert winner((good, bad), mix_on(NODES)) == 0


def test_fgd_decides_where_it_is_better_than_all(bad: Priced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsed, "usual_runs", lambda rehearsal: 0)  # enough practice betters even this one
    ready = Rehearsed("both@1", (bad, bad)).prepare(mix_on(NODES))
    assert (ready.name, ready.device_rule) == ("both@1", "fgd")


def test_the_first_of_equals_is_taken(good: Priced) -> None:
    assert winner((good, good, good), mix_on(NODES)) == 0


def test_practice_never_ends_below_its_start_and_is_repeatable(good: Priced, bad: Priced) -> None:
    rehearsal = Rehearsal(mix_on(NODES))
    before = rehearsal.value([rehearsal.try_out(bad, order) for order in range(12)])
    found, value = practised(bad, (good, bad), rehearsal, 120, 6)
    assert value > before  # there is much to better
    assert value == rehearsal.value([rehearsal.try_out(found, order) for order in range(12)])
    again, _ = practised(bad, (good, bad), Rehearsal(mix_on(NODES)), 120, 6)
    assert (again.parameters == found.parameters).all()


class Watched(Rehearsal):
    """Tells which orders it was asked for."""

    def __init__(self, mix: WorkloadMix) -> None:
        super().__init__(mix)
        self.asked: list[int] = []

    def try_out(self, policy: Priced, order: int) -> Refusals:
        self.asked.append(order)
        return super().try_out(policy, order)


@pytest.mark.parametrize("helpful", [1e9, -1e9])
def test_practice_ends_when_nothing_has_helped_for_long(
    helpful: float, good: Priced, bad: Priced, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, orders = 200, 4
    monkeypatch.setattr(practice, "HELPFUL", helpful)
    rehearsal = Watched(mix_on(NODES))
    practised(good, (bad, good), rehearsal, runs, orders)
    whole = runs if helpful < 0 else PATIENCE * runs
    practised_on = [order for order in rehearsal.asked if order < orders]  # later ones are those of the last trial
    assert whole <= len(practised_on) <= whole + 2 * orders
    assert {orders, 2 * orders - 1} <= set(rehearsal.asked)


def test_variants_that_are_clearly_behind_are_not_tried_on_all_orders(good: Priced, bad: Priced) -> None:
    rehearsal, orders = Watched(mix_on(NODES)), 8
    practised(good, (bad, bad), rehearsal, 200, orders)
    begun, ended = rehearsal.asked.count(0), rehearsal.asked.count(orders - 1)
    assert begun > 2 * ended


def test_every_parameter_but_those_of_balance_belongs_to_one_group() -> None:
    grouped = [name for names in TOGETHER for name in names]
    assert sorted(grouped) == sorted(set(LAYOUT) - {"cpu_share", "memory_share"})


def test_values_are_those_of_whole_runs(good: Priced) -> None:
    """A stage is used many times: nothing of a run may stay behind in it."""
    rehearsal = Rehearsal(mix_on(NODES))
    first = rehearsal.try_out(good, 0)
    rehearsal.try_out(replace(good, parameters=-good.parameters), 0)
    assert rehearsal.try_out(good, 0) == first == Rehearsal(mix_on(NODES)).try_out(good, 0)


def test_nodes_of_a_rehearsal_take_as_many_pods_as_the_real_ones(good: Priced) -> None:
    """With fewer, pods would fail for want of places that are there."""
    roomy = [replace(node, pods=2000) for node in NODES]
    tiny = (PodShape(10, 2**20), PodShape(100, 2**20, 250, 1))
    found = Rehearsal(mix_on(roomy, tiny, np.array([4000, 160])))._stage(0)
    assert found.by_fgd.failed_cpu == 0
    assert Rehearsal(mix_on(NODES, tiny, np.array([4000, 160])))._stage(0).by_fgd.failed_cpu > 0


def test_failed_pods_cost_by_their_mean_over_the_orders() -> None:
    """More of them in one order and fewer in another are chance."""
    rehearsal = Rehearsal(mix_on(NODES))
    by_fgd = [rehearsal._stage(order).by_fgd for order in range(2)]
    moved = [replace(by_fgd[0], failed_multi=by_fgd[0].failed_multi + 3)]
    moved += [replace(by_fgd[1], failed_multi=by_fgd[1].failed_multi - 3)]
    assert rehearsal.value(moved) == pytest.approx(0.0)
    assert rehearsal.value(moved[:1]) < -0.1


def test_refusals_cost_more_in_a_stricter_rehearsal(good: Priced) -> None:
    rehearsal = Rehearsal(mix_on(NODES))
    by_fgd, own = rehearsal._stage(0).by_fgd, rehearsal.try_out(good, 0)
    wasteful = replace(by_fgd, lost=by_fgd.lost + 2)
    assert rehearsal.value([wasteful]) < -1
    assert rehearsal.stricter().value([wasteful]) == pytest.approx(STRICTER * rehearsal.value([wasteful]))
    cost = rehearsal.cost_of_refusals(good, 1)
    assert rehearsal.value([own]) == pytest.approx(own.allocation - by_fgd.allocation - cost)


@pytest.mark.parametrize("costly", [True, False])
def test_what_refuses_pods_that_fgd_places_practises_on(
    costly: bool, good: Priced, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def noted(
        start: Priced, others: Sequence[Priced], rehearsal: Rehearsal, runs: int, orders: int
    ) -> tuple[Priced, float]:
        calls.append((runs, rehearsal.value([Refusals(0.0, 1000.0, 0, 0)])))
        return start, 1.0

    monkeypatch.setattr(rehearsed, "practised", noted)
    monkeypatch.setattr(rehearsed, "COSTLY", -1.0 if costly else 1e9)
    Rehearsed("both@1", (good, good)).prepare(mix_on(NODES))
    assert len(calls) == (2 if costly else 1)
    if costly:
        (runs, value), (more, lower) = calls
        assert more == runs
        assert lower < value


def test_the_order_of_nodes_plays_no_part(good: Priced, bad: Priced) -> None:
    assert mix_on(NODES).cluster == mix_on(NODES[::-1]).cluster


def test_the_order_in_which_pods_were_seen_plays_no_part(good: Priced, bad: Priced) -> None:
    """Shapes that differ in what a rehearsal does not look at are one."""
    policy, tied = Rehearsed("both@1", (bad, good)), tuple(replace(shape, priority=7) for shape in SHAPES)
    one = policy.prepare(mix_on(NODES))
    assert policy.prepare(mix_on(NODES, SHAPES[::-1], COUNTS[::-1])) is one
    assert policy.prepare(mix_on(NODES, SHAPES + tied, np.concatenate([COUNTS // 2, COUNTS - COUNTS // 2]))) is one


@pytest.mark.parametrize(
    ("nodes", "shapes", "counts"),
    [
        ([Node("n", 96_000, 2**39)], SHAPES, COUNTS),
        (NODES, SHAPES[4:], COUNTS[4:]),
        (NODES, SHAPES, np.array([0, 0, 0, 0, 7])),
    ],
    ids=["no GPU in the cluster", "no pod with GPU", "none that comes"],
)
def test_the_first_is_taken_where_there_is_nothing_to_fill(
    good: Priced, bad: Priced, nodes: list[Node], shapes: tuple[PodShape, ...], counts: np.ndarray
) -> None:
    mix = mix_on(nodes, shapes, counts)
    assert not Rehearsal(mix).anything_to_fill
    ready = Rehearsed("both@1", (bad, good)).prepare(mix)
    assert isinstance(ready, Priced)
    assert (ready.parameters == bad.parameters).all()


def test_a_prepared_policy_comes_from_the_chosen_valuation_and_is_kept(good: Priced, bad: Priced) -> None:
    policy, mix = Rehearsed("both@1", (bad, good)), mix_on(NODES)
    ready = policy.prepare(mix)
    assert isinstance(ready, Priced)
    rehearsal = Rehearsal(mix)
    found, _ = practised(good, (bad, good), rehearsal, usual_runs(rehearsal), usual_orders(rehearsal))
    assert (ready.prices == found.prepare(mix).prices).all()
    assert ready.summary.endswith("from valuation 2 of 2")
    assert policy.prepare(mix_on(NODES)) is ready


def test_only_the_newest_choices_are_kept(good: Priced) -> None:
    policy = Rehearsed("one@1", (good,))
    for pods in range(1, KEPT + 5):
        policy.prepare(mix_on(NODES[:1], counts=np.array([0, 0, 0, 0, pods])))
    assert len(policy.ready) == KEPT


def test_parameters_of_every_valuation_are_part_of_the_fingerprint(good: Priced, bad: Priced) -> None:
    assert Rehearsed("a@1", (good, bad)).fingerprint != Rehearsed("a@1", (good, good)).fingerprint


def test_a_large_cluster_is_scaled_down_and_chooses_alike(good: Priced, bad: Priced) -> None:
    many = [replace(node, name=f"{node.name}-{k}") for k in range(90) for node in NODES]
    assert len(many) > 1500
    assert winner((bad, good), mix_on(many)) == 1
