"""From scores to a decision: totals by hand, ties by rank, and the words that explain them."""

from __future__ import annotations

import numpy as np
import pytest
import written_policies as written

from pilotage.kernels.feasibility import FITS, NO_GPU_LEFT, NO_RESOURCE, NODE_DOWN, NOT_ELIGIBLE
from pilotage.kernels.features import NODE_FEATURES, POD_FEATURES
from pilotage.model.errors import PolicyError, UnknownNameError
from pilotage.model.workload import FloatArray, IntArray, PodShape
from pilotage.policies.api import DecisionBatch, FeatureSchema, Policy, device_rule_of
from pilotage.policies.choose import best_node, devices_for, score_candidates, total_scores
from pilotage.policies.explain import count_reasons, obstacle_text, rank_candidates, request_text, verdict
from pilotage.policies.registry import find_policy
from pilotage.policies.weighted import WeightedSum
from reference.scores import pick_devices, random_unit

NAMES = ("n0", "n1", "n2", "n3")


class Fixed(written.Tight):
    """Scores given in advance."""

    def __init__(self, scores: list[float], normalise: str = "none", name: str = "fixed@1", device: int = -1) -> None:
        self.scores, self.normalise, self.name, self.device = scores, normalise, name, device  # type: ignore[assignment]

    def score(self, batch: DecisionBatch, out_BN: FloatArray, device_BN: IntArray) -> None:
        out_BN[:] = self.scores
        device_BN[:] = self.device


def batch(feasible: list[bool] | None = None) -> DecisionBatch:
    feasible_BN = np.array([feasible or [True] * 4])
    return DecisionBatch(
        pod_BF=np.zeros((1, len(POD_FEATURES))),
        node_BNF=np.zeros((1, 4, len(NODE_FEATURES))),
        device_left_BND=np.full((1, 4, 2), 1000),
        feasible_BN=feasible_BN,
    )


def totals(policy: Policy, feasible: list[bool] | None = None) -> list[float]:
    return [float(total) for total in score_candidates(policy, batch(feasible)).totals()]


INFEASIBLE = -np.inf


# Scores and totals


def test_scores_are_taken_as_they_are_without_normalisation() -> None:
    assert totals(Fixed([3.5, -2, 0, 1e9])) == [3.5, -2, 0, 1e9]


def test_normalised_scores_are_whole_numbers_from_0_to_100_over_the_candidates() -> None:
    assert totals(Fixed([10, 20, 13.33, 12], "minmax")) == [0, 100, 33, 20]
    assert totals(Fixed([10, 20, 13, 1000], "minmax"), [True, True, True, False]) == [0, 100, 30, INFEASIBLE]


def test_normalised_scores_that_are_all_equal_are_zero() -> None:
    assert totals(Fixed([7, 7, 7, 7], "minmax")) == [0, 0, 0, 0]


def test_a_score_for_no_candidate_counts_for_nothing() -> None:
    assert totals(Fixed([1, np.nan, np.inf, 2]), [True, False, False, True]) == [1, INFEASIBLE, INFEASIBLE, 2]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_candidate_without_a_finite_score_is_an_error(bad: float) -> None:
    with pytest.raises(PolicyError, match=r"fixed@1: a candidate's score is not a finite number"):
        totals(Fixed([1, bad, 2, 3]))


def test_a_weighted_sum_is_what_one_computes_by_hand() -> None:
    plain, scaled = Fixed([1, 2, 3, 4]), Fixed([10, 20, 13.33, 12], "minmax", "scaled@1")
    # 2 x (1 2 3 4) + 0.5 x (0 100 33 20)
    assert totals(WeightedSum((plain, scaled), (2.0, 0.5))) == [2.0, 54.0, 22.5, 18.0]
    # Without the second node: 13.33 is the best, (13.33 - 10) / 3.33 = 100; (12 - 10) / 3.33 = 60.06.
    masked = totals(WeightedSum((plain, scaled), (2.0, 0.5)), [True, False, True, True])
    assert masked == [2.0, INFEASIBLE, 56.0, 38.0]


def test_the_heaviest_part_names_the_device_and_the_first_of_equals() -> None:
    one, other = Fixed([0] * 4, device=1), Fixed([0] * 4, device=0)
    for weights, device in (((1.0, 2.0), 0), ((2.0, 1.0), 1), ((1.0, 1.0), 1)):
        assert score_candidates(WeightedSum((one, other), weights), batch()).device_N.tolist() == [device] * 4


def test_a_sum_declares_what_its_parts_need() -> None:
    random, fgd, best_fit = (find_policy(name) for name in ("random", "fgd", "best-fit"))
    total = WeightedSum((random, fgd), (3.0, 1.0))
    assert (total.scope, total.normalise, device_rule_of(total)) == ("cluster", "none", "random")
    assert set(total.features.node) == {*random.features.node, *fgd.features.node}
    assert WeightedSum((fgd, find_policy("gpu-packing")), (1.0, 1.0)).scope == "node"
    assert WeightedSum((fgd, best_fit), (1.0, 1.0)).scope == "cluster"  # normalised over the candidates
    assert WeightedSum((fgd, best_fit), (1.0, 2.0)).rules is not None
    assert WeightedSum((fgd, written.Tight()), (1.0, 2.0)).rules is None


# Choosing


def test_the_highest_total_wins_and_the_lowest_rank_among_equals() -> None:
    total_N = np.array([5.0, 9.0, 9.0, 9.0])
    assert best_node(total_N, np.array([0, 3, 1, 2])) == 2
    assert best_node(total_N, np.array([0, 1, 2, 3])) == 1
    assert best_node(np.array([-5.0, INFEASIBLE, -4.0]), np.array([0, 1, 2])) == 2


def test_no_candidate_is_no_node() -> None:
    assert best_node(np.full(3, INFEASIBLE), np.arange(3)) == -1


def test_totals_of_several_rows_are_their_sum() -> None:
    assert total_scores(np.array([[1.0, 2.0], [10.0, 30.0]]), minmax=False).tolist() == [11.0, 32.0]


LEFT = np.array([1000, 300, 500, 300])
SHARE = PodShape(1, 1, 300, 1)


def devices(shape: PodShape, device: int = -1, rule: str = "best", draw: float = 0.0) -> int:
    return devices_for(shape, LEFT, 4, device, rule, draw, "mine@1")  # type: ignore[arg-type]


def test_a_policy_that_names_no_device_leaves_it_to_the_rule() -> None:
    assert score_candidates(written.Tight(), batch()).device_N.tolist() == [-1] * 4


@pytest.mark.parametrize("device", [0, 1, 2])
def test_the_device_a_policy_names_is_taken(device: int) -> None:
    """Also the first, and one that is full afterwards."""
    assert devices(SHARE, device=device) == 1 << device


def test_a_named_device_counts_only_for_a_share_of_one() -> None:
    assert devices(PodShape(1, 1, 1000, 1), device=2) == 0b1
    assert devices(PodShape(1, 1, 300, 2), device=2) == devices(PodShape(1, 1, 300, 2))
    assert devices(PodShape(1, 1), device=2) == 0


@pytest.mark.parametrize("device", [4, 60])
def test_a_named_device_that_does_not_exist_is_an_error(device: int) -> None:
    with pytest.raises(PolicyError, match=f"mine@1: device {device} has no room for 300 milli"):
        devices(SHARE, device=device)


def test_a_named_device_without_room_is_an_error() -> None:
    with pytest.raises(PolicyError, match="device 1 has no room for 400 milli"):
        devices(PodShape(1, 1, 400, 1), device=1)


def test_device_rules_choose_the_fullest_the_emptiest_or_any_with_room() -> None:
    assert devices(SHARE, rule="best") == 0b10  # the lower index of two with 300
    assert devices(SHARE, rule="worst") == 0b1
    drawn = {devices(PodShape(1, 1, 400, 1), rule="random", draw=k / 64) for k in range(64)}
    assert drawn == {0b1, 0b100}


@pytest.mark.parametrize("step", range(0, 64, 7))
def test_the_drawn_device_is_the_one_of_a_compiled_run(step: int) -> None:
    """By a second draw that follows from the first: any other would be another run."""
    shape, draw = PodShape(1, 1, 400, 1), step / 64
    (chosen,) = pick_devices(shape, LEFT.tolist(), "random", random_unit(int(draw * 2**48), -1))
    assert devices(shape, rule="random", draw=draw) == 1 << chosen


def test_a_pod_without_gpu_gets_no_device() -> None:
    assert devices(PodShape(1, 1)) == 0


# The schema


def test_columns_are_read_by_name() -> None:
    asked = batch()
    asked.pod_BF[0, POD_FEATURES.index("gpu_milli")] = 470
    asked.node_BNF[0, :, NODE_FEATURES.index("cpu_free")] = [1, 2, 3, 4]
    assert asked.pod("gpu_milli").tolist() == [[470]]
    assert asked.node("cpu_free").tolist() == [[1, 2, 3, 4]]
    with pytest.raises(UnknownNameError, match="did you mean 'gpu_milli'"):
        asked.pod("gpu_mili")


def test_a_schema_refuses_columns_that_do_not_exist() -> None:
    FeatureSchema(pod=POD_FEATURES, node=NODE_FEATURES).check()
    with pytest.raises(UnknownNameError, match="unknown pod feature 'cpu_free'"):
        FeatureSchema(pod=("cpu_free",)).check()


# Explaining


def test_candidates_come_best_first_with_the_score_of_every_part() -> None:
    plain, scaled = Fixed([1, 2, 3, 4]), Fixed([10, 20, 13.33, 12], "minmax", "scaled@1")
    policy = WeightedSum((plain, scaled), (2.0, 0.5))
    found = rank_candidates(policy, batch([True, True, True, False]), NAMES, np.array([2, 1, 0, 3]))
    assert [(c.node, c.rank, c.total) for c in found] == [("n1", 1, 54.0), ("n2", 0, 22.5), ("n0", 2, 2.0)]
    assert found[0].scores == {"fixed@1": (2.0, 4.0), "scaled@1": (20.0, 50.0)}


def test_equal_totals_are_listed_in_the_order_that_breaks_ties() -> None:
    found = rank_candidates(Fixed([1, 7, 7, 7]), batch(), NAMES, np.array([0, 3, 1, 2]))
    assert [c.node for c in found] == ["n2", "n3", "n1", "n0"]
    assert verdict(found, 4) == (
        "n2 and 2 more share the highest total 7 of 4 candidates; n2 comes first in the order of nodes (rank 1)"
    )


def test_the_verdict_says_why_the_winner_won() -> None:
    ahead = rank_candidates(Fixed([1, 7, 4.5, 7]), batch([True, True, True, False]), NAMES, np.arange(4))
    assert verdict(ahead, 4) == "n1 has the highest total 7 of 3 candidates, 2.5 ahead"
    alone = rank_candidates(Fixed([1, 7, 4, 7]), batch([True, False, False, False]), NAMES, np.arange(4))
    assert verdict(alone, 4) == "n0 is the only candidate, so its score does not matter"
    assert verdict((), 4) == "none of 4 nodes can take the pod"


def test_reasons_are_counted_in_words_the_most_frequent_first() -> None:
    resources = ("cpu", "memory", "pods", "fpga")
    codes = np.array(
        [NO_RESOURCE + 3, FITS, NO_RESOURCE, NO_RESOURCE, NOT_ELIGIBLE, NO_GPU_LEFT, NO_GPU_LEFT, NODE_DOWN]
    )
    found = count_reasons(codes, resources)
    assert found == {
        "not enough cpu": 2,
        "not enough GPU on its devices": 2,
        "not enough fpga": 1,
        "excluded by selector, taint or GPU model": 1,
        "node is down": 1,
    }
    assert list(found.values()) == [2, 2, 1, 1, 1]
    assert obstacle_text(FITS, resources) == "fits"


def test_a_request_reads_like_a_sentence() -> None:
    assert request_text(PodShape(1500, 2**30)) == "1.5 CPU, 1 GiB"
    assert request_text(PodShape(1000, 2**29, 470, 1, "T4|G2")) == "1 CPU, 0.5 GiB, 1 GPU x 470 milli (T4|G2)"
    assert request_text(PodShape(1000, 0, 1000, 8, extended=(("nic", 2),))) == "1 CPU, 0 GiB, 8 GPU, 2 nic"
