"""POST /v1/score: scores for exactly these candidates of exactly this pod."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from pilotage.lab.plugin_build import plugin_sources
from pilotage.serving.run import Serving, Settings
from serving.services import a_question, a_service, a_small_pod, a_state, ask, column, numbered, read, scores_of


@pytest.fixture(scope="module")
def service() -> Iterator[Serving]:
    with a_service(Settings(policies=("least-allocated", "fgd", "best-fit"), port=0)) as running:
        yield running


def told(name: str, used: int, generation: int | None = None) -> dict[str, object]:
    given = {} if generation is None else {"generation": generation}
    return {"name": name, "state": a_state(used=used), **given}


def test_every_candidate_has_a_score_and_the_best_alone_has_100(service: Serving) -> None:
    status, answer = ask(service, "/v1/score", a_question([told("a", 4000), told("b", 1000), told("c", 1001)]))
    assert status == 200
    assert answer["uid"] == "uid-web"
    assert answer["policy"] == "least-allocated@1"
    assert answer["scores"].keys() == {"a", "b", "c"}
    assert answer["scores"]["b"] == 100
    assert answer["scores"]["a"] == 0
    assert 0 < answer["scores"]["c"] < 100


def test_equal_candidates_leave_it_to_others(service: Serving) -> None:
    _, answer = ask(service, "/v1/score", a_question([told("a", 1000), told("b", 1000)]))
    assert answer["scores"] == {"a": 0, "b": 0}


def test_the_policy_can_be_named(service: Serving) -> None:
    _, answer = ask(service, "/v1/score", a_question([told("a", 4000), told("b", 1000)], policy="best-fit"))
    assert answer["policy"] == "best-fit@1"
    assert answer["scores"] == {"a": 100, "b": 0}  # it packs


def test_a_policy_that_is_not_offered_is_named(service: Serving) -> None:
    status, answer = ask(service, "/v1/score", a_question([told("a", 0)], policy="random"))
    assert (status, answer["reason"]) == (400, "unknown-policy")
    assert "least-allocated@1" in answer["message"]


def test_unchanged_nodes_travel_as_a_generation(service: Serving) -> None:
    ask(service, "/v1/score", a_question([told("a", 4000, 1), told("b", 1000, 2)], session="s1"))
    again = [{"name": "a", "generation": 1}, told("b", 6000, 3)]
    status, answer = ask(service, "/v1/score", a_question(again, session="s1"))
    assert status == 200
    assert answer["scores"] == {"a": 100, "b": 0}


def test_what_is_not_known_is_asked_for_and_the_rest_is_remembered(service: Serving) -> None:
    asked = [{"name": "a", "generation": 1}, told("b", 1000, 2)]
    status, answer = ask(service, "/v1/score", a_question(asked, session="s2"))
    assert (status, answer["reason"], answer["unknown"]) == (409, "unknown-generation", ["a"])
    missing = [told("a", 4000, 1), {"name": "b", "generation": 2}]
    status, answer = ask(service, "/v1/score", a_question(missing, session="s2"))
    assert (status, answer["scores"]) == (200, {"a": 0, "b": 100})


def test_another_generation_is_not_known(service: Serving) -> None:
    ask(service, "/v1/score", a_question([told("a", 0, 1)], session="s3"))
    status, _ = ask(service, "/v1/score", a_question([{"name": "a", "generation": 2}], session="s3"))
    assert status == 409


def test_sessions_do_not_mix(service: Serving) -> None:
    ask(service, "/v1/score", a_question([told("a", 0, 1)], session="s4"))
    status, _ = ask(service, "/v1/score", a_question([{"name": "a", "generation": 1}], session="s5"))
    assert status == 409


def test_candidates_by_number_get_scores_in_the_order_asked(service: Serving) -> None:
    told_both = [{"number": 7, **told("a", 4000, 1)}, {"number": 3, **told("b", 1000, 2)}]
    status, answer = ask(service, "/v1/score", a_question(numbered((7, 1), (3, 2), told=told_both), session="n1"))
    assert (status, scores_of(answer), answer["uid"]) == (200, [0, 100], "uid-web")
    assert answer["asked"] == zlib.crc32(bytes([7, 0, 0, 0, 3, 0, 0, 0]))
    again = numbered((3, 5), (7, 1), told=[{"number": 3, **told("b", 6000, 5)}])
    status, answer = ask(service, "/v1/score", a_question(again, session="n1"))
    assert (status, scores_of(answer)) == (200, [0, 100])


def test_numbers_that_are_not_known_are_asked_for_and_the_rest_is_remembered(service: Serving) -> None:
    asked = numbered((0, 1), (1, 2), (49_999, 3), told=[{"number": 1, **told("b", 1000, 2)}])
    status, answer = ask(service, "/v1/score", a_question(asked, session="n2"))
    assert (status, answer["reason"], answer["unknown"]) == (409, "unknown-generation", [0, 49_999])
    missing = numbered((0, 1), (1, 2), told=[{"number": 0, **told("a", 4000, 1)}])
    status, answer = ask(service, "/v1/score", a_question(missing, session="n2"))
    assert (status, scores_of(answer)) == (200, [0, 100])
    status, answer = ask(service, "/v1/score", a_question(numbered((0, 1), (1, 1)), session="n2"))
    assert (status, answer["unknown"]) == (409, [1])


def test_what_is_told_by_name_is_not_taken_for_what_was_told_by_number(service: Serving) -> None:
    told_both = [{"number": 0, **told("a", 4000, 1)}, {"number": 1, **told("b", 1000, 1)}]
    ask(service, "/v1/score", a_question(numbered((0, 1), (1, 1), told=told_both), session="n3"))
    ask(service, "/v1/score", a_question([told("a", 0, 2)], session="n3"))
    status, answer = ask(service, "/v1/score", a_question(numbered((0, 1), (1, 1)), session="n3"))
    assert (status, answer["unknown"]) == (409, [0])
    _, answer = ask(service, "/v1/score", a_question(numbered((0, 2), (1, 1)), session="n3"))
    assert scores_of(answer) == [100, 0]


def test_a_node_that_came_later_leaves_the_others_where_they_are(service: Serving) -> None:
    ask(service, "/v1/score", a_question(numbered((0, 1), told=[{"number": 0, **told("z", 4000, 1)}]), session="n4"))
    later = numbered((0, 1), (1, 1), told=[{"number": 1, **told("a", 1000, 1)}])
    assert scores_of(ask(service, "/v1/score", a_question(later, session="n4"))[1]) == [0, 100]


def test_a_device_without_room_scores_lowest(service: Serving) -> None:
    pod = a_small_pod(**{"alibabacloud.com/gpu-milli": "600", "alibabacloud.com/gpu-count": "1"})
    full = {"name": "full", "state": a_state(gpus=1, gpuPods=[{"milli": 500, "count": 1, "index": "0"}])}
    free = {"name": "free", "state": a_state(gpus=2, gpuPods=[{"milli": 500, "count": 1, "index": "1"}])}
    _, answer = ask(service, "/v1/score", a_question([full, free], pod, policy="fgd"))
    assert answer["scores"] == {"full": 0, "free": 100}


@pytest.mark.parametrize(
    "change",
    [
        {"gpuPods": [{"milli": 2000, "count": 1}, {"count": 100}, {"milli": 500, "index": "0-" * 400}]},
        {"allocatable": {"cpuMilli": 8000, "extended": {"nvidia.com/gpu": 4, "amd.com/gpu": 4}}},
        {"allocatable": {"cpuMilli": 8000, "extended": {"nvidia.com/gpu": 100}}},
        {"allocatable": {"cpuMilli": 8000, "pods": 2**40}},
        {"address": "x" * 1000},
    ],
    ids=["shares", "two kinds", "many", "pods", "address"],
)
def test_one_odd_node_does_not_spoil_the_answer_for_the_others(service: Serving, change: dict[str, object]) -> None:
    odd = {"name": "odd", "state": {**a_state(gpus=2), **change}}
    status, answer = ask(service, "/v1/score", a_question([odd, told("a", 4000), told("b", 1000)]))
    assert (status, answer["scores"].keys()) == (200, {"odd", "a", "b"})


def test_a_suggestion_says_why(service: Serving) -> None:
    pod = a_small_pod(**{"alibabacloud.com/gpu-milli": "600", "alibabacloud.com/gpu-count": "1"})
    full = {"name": "full", "state": a_state(gpus=1, gpuPods=[{"milli": 500, "count": 1, "index": "0"}])}
    free = {"name": "free", "state": a_state(gpus=2, gpuPods=[{"milli": 500, "count": 1, "index": "0"}])}
    _, answer = ask(service, "/v1/suggest", a_question([full, free], pod, policy="fgd"))
    assert (answer["node"], answer["gpuIndex"]) == ("free", "1")
    assert answer["filtered"] == {"not enough GPU on its devices": 1}
    assert answer["verdict"] == "free is the only candidate, so its score does not matter"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"apiVersion": "v2"}, "apiVersion"),
        ({"candidates": []}, "candidates"),
        ({"candidates": [{"name": "a", "state": a_state()}] * 2}, "twice"),
        ({"candidates": [{"name": "a"}, {"name": "b", "generation": 1}], "session": "s"}, "only a name"),
        ({"candidates": [{"name": "a", "generation": 1}]}, "session"),
        ({"candidates": [{"name": "a"}]}, "follows no cluster"),
        ({"candidates": {**numbered((1, 1), (2, 1)), "generations": column([1], 8)}, "session": "s"}, "in length"),
        ({"candidates": {"numbers": column([1, 2, 3], 2), "generations": column([1], 12)}, "session": "s"}, "4 and 8"),
        ({"candidates": numbered((1, 1))}, "session"),
        ({"candidates": numbered((50_000, 1)), "session": "s"}, "numbers"),
        ({"candidates": numbered((1, -1)), "session": "s"}, "generations"),
        ({"candidates": {"numbers": [1], "generations": [1]}, "session": "s"}, "numbers"),
        ({"candidates": {"numbers": column([1], 4)}, "session": "s"}, "generations"),
        ({"candidates": numbered((1, 1), told=[{"number": 1, "name": "a"}])}, "told"),
        ({"pod": {"metadata": {"uid": "u", "name": "n"}, "spec": {"containers": [{}]}}}, "namespace"),
        ({"pod": a_small_pod(cpu="one")}, "spec.containers"),
        ({"deadlineMs": 0}, "deadlineMs"),
    ],
)
def test_bad_input_is_named(service: Serving, change: dict[str, object], named: str) -> None:
    status, answer = ask(service, "/v1/score", {**a_question([told("a", 0)]), **change})
    assert (status, answer["reason"]) == (400, "invalid")
    assert named in answer["message"]


RULED = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
WORN = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ({"topologySpreadConstraints": [{**RULED, "maxSkew": "x"}]}, "maxSkew"),
        ({"topologySpreadConstraints": [{**RULED, "maxSkew": 2**70}]}, "maxSkew"),
        ({"topologySpreadConstraints": [{**RULED, "minDomains": {}}]}, "minDomains"),
        ({"topologySpreadConstraints": [{**RULED, "topologyKey": ["x"]}]}, "topologyKey"),
        ({"topologySpreadConstraints": [{**RULED, "labelSelector": {"matchLabels": {"a": []}}}]}, "matchLabels"),
        ({"topologySpreadConstraints": [{**RULED, "labelSelector": WORN}]}, "operator"),
        ({"topologySpreadConstraints": [{}]}, "topologyKey"),
        ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}, "podAffinity"),
        ({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}, "weight"),
        ({"tolerations": [{"operator": "Maybe"}]}, "tolerations"),
        ({"containers": [{"ports": [{"hostPort": "x"}]}]}, "hostPort"),
        ({"containers": [{"resources": {"requests": {"cpu": 2**70}}}]}, "requests"),
        ({"overhead": {"cpu": -(2**70)}}, "overhead"),
    ],
)
def test_rules_that_cannot_be_read_are_named(service: Serving, rule: dict[str, object], named: str) -> None:
    pod = a_small_pod()
    pod["spec"] |= rule
    status, answer = ask(service, "/v1/suggest", a_question([told("a", 0)], pod))
    assert (status, answer["reason"]) == (400, "invalid")
    assert named in answer["message"]


def test_rules_count_for_a_suggestion_and_not_for_scores(service: Serving) -> None:
    pod = a_small_pod()
    pod["spec"] |= {"topologySpreadConstraints": [RULED], "nodeSelector": {"no": "where"}}
    candidates = [told("a", 0), told("b", 1000)]
    assert ask(service, "/v1/score", a_question(candidates, pod))[1]["scores"] == {"a": 100, "b": 0}
    answer = ask(service, "/v1/suggest", a_question(candidates, pod))[1]
    assert (answer["node"], sum(answer["filtered"].values())) == (None, 2)


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]}, "claims the volume 'disk'"),
        ({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}, "claims the volume 'web-v'"),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]}, "claims devices (DRA) as 'gpu'"),
    ],
)
def test_nothing_is_suggested_for_what_is_claimed_and_it_is_scored(
    service: Serving, claims: dict[str, Any], said: str
) -> None:
    pod = a_small_pod()
    pod["spec"] |= claims
    status, answer = ask(service, "/v1/suggest", a_question([told("a", 0)], pod))
    assert (status, said in answer["message"], "with the extender" in answer["message"]) == (400, True, True)
    candidates = [told("a", 0), told("b", 1000)]
    assert ask(service, "/v1/score", a_question(candidates, pod))[1]["scores"] == {"a": 100, "b": 0}
    pod["spec"] |= {"volumes": [{"name": "v", "configMap": {"name": "c"}}], "resourceClaims": []}
    assert ask(service, "/v1/suggest", a_question([told("a", 0)], pod))[1]["node"] == "a"


def test_more_resources_than_any_cluster_has_are_refused(service: Serving) -> None:
    many = [
        {"name": f"n{n}", "state": {"allocatable": {"cpuMilli": 1, "extended": {f"x/{n}-{i}": 1 for i in range(200)}}}}
        for n in range(2)
    ]
    status, answer = ask(service, "/v1/score", a_question(many))
    assert (status, "extended resources" in answer["message"]) == (400, True)


def test_as_many_resources_as_the_plugin_tells_of_are_taken(service: Serving) -> None:
    """Ephemeral storage is one more: the plugin leaves room for it."""
    extended = {f"x/{i}": 1 for i in range(constant_of_the_plugin("mostNames"))}
    offered = {"cpuMilli": 1, "ephemeralStorageBytes": 1, "extended": extended}
    state = {"allocatable": offered, "gpuPods": [{"milli": 1}] * constant_of_the_plugin("mostGPUPods")}
    assert ask(service, "/v1/score", a_question([{"name": "a", "state": state}]))[0] == 200


def constant_of_the_plugin(name: str) -> int:
    found = re.search(rf"^\t{name} += ([0-9_]+)", (plugin_sources() / "score" / "request.go").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_a_resource_that_no_node_has_is_named(service: Serving) -> None:
    pod = a_small_pod()
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/card"] = "1"
    _, answer = ask(service, "/v1/suggest", a_question([told("a", 0)], pod))
    assert (answer["node"], answer["filtered"]) == (None, {"not enough example.com/card": 1})


def test_figures_count_requests_by_how_they_ended(service: Serving) -> None:
    ask(service, "/v1/score", a_question([told("a", 0)]))
    _, text = read(service, "/metrics")
    assert b'pilotage_serve_requests_total{reason="ok",verb="score"}' in text
    assert b"pilotage_serve_ready 1.0" in text
