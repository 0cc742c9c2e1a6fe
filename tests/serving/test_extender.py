"""The extender's verbs in its exact wire format, on a cluster that is put into the service's view."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.objects import a_node, a_pod
from kube.servers import a_client
from pilotage.kube.binding import Binder
from pilotage.kube.cache import ClusterCache, NodeFollower, PodFollower
from pilotage.kube.client import Json
from pilotage.model.clock import VirtualClock
from pilotage.serving import wire
from pilotage.serving.extender import Extender
from pilotage.serving.metrics import Metrics
from pilotage.serving.offered import Offered
from pilotage.serving.problems import RefusedError
from pilotage.serving.scoring import Scoring
from pilotage.serving.v1 import Own

OFFERED = Offered.read(["least-allocated", "fgd"])
SHARE = {"alibabacloud.com/gpu-milli": "600", "alibabacloud.com/gpu-count": "1"}


def an_extender(client: Any = None, obstacle: str = "") -> Extender:
    """node-a has GPUs with 300 and 1000 milli left, node-b one with 400, node-c none."""
    cache = ClusterCache()
    NodeFollower(cache).listed([a_node("node-a", gpus=2), a_node("node-b", gpus=1), a_node("node-c", cpu="16")])
    cache.refresh()
    used = [("one", "node-a", "700"), ("two", "node-b", "600")]
    PodFollower(cache).listed(
        [
            a_pod(
                name,
                node=node,
                annotations={**SHARE, "alibabacloud.com/gpu-milli": milli, "alibabacloud.com/gpu-index": "0"},
            )
            for name, node, milli in used
        ]
    )
    own = Own(Scoring(cache, lambda: OFFERED), lambda: obstacle)
    return Extender(own, Binder(client, VirtualClock(), "test"), Metrics())


def args(kind: Any, body: Json) -> Any:
    """As the service reads it."""
    return msgspec.json.decode(json.dumps(body), type=kind)


def written(result: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(result))


NAMES = ["node-a", "node-b", "node-c"]


def test_filter_takes_out_nodes_without_room_on_their_devices() -> None:
    asked = args(wire.ExtenderArgs, {"Pod": a_pod("new", annotations=SHARE), "Nodes": None, "NodeNames": NAMES})
    result = written(an_extender().filter(asked))
    assert result["NodeNames"] == ["node-a"]
    assert result["Nodes"] is None
    assert result["FailedNodes"] == {
        "node-b": "not enough GPU left on its devices",
        "node-c": "no GPU of the requested model",
    }
    assert result["Error"] == ""


def test_filter_answers_objects_with_objects() -> None:
    nodes = [a_node(name, extra="kept") for name in NAMES]
    asked = args(wire.ExtenderArgs, {"Pod": a_pod("new", annotations=SHARE), "Nodes": {"metadata": {}, "items": nodes}})
    result = written(an_extender().filter(asked))
    assert result["NodeNames"] is None
    assert result["Nodes"]["items"] == [nodes[0]]


def test_filter_leaves_pods_without_gpu_to_kube_scheduler() -> None:
    asked = args(
        wire.ExtenderArgs, {"Pod": a_pod("new", requests={"cpu": "1000"}), "NodeNames": [*NAMES, "not-seen-yet"]}
    )
    assert written(an_extender().filter(asked))["NodeNames"] == [*NAMES, "not-seen-yet"]


def test_filter_says_what_is_wrong_with_a_pod_for_all_nodes() -> None:
    bad = a_pod("new", annotations={"alibabacloud.com/gpu-milli": "many"})
    result = written(an_extender().filter(args(wire.ExtenderArgs, {"Pod": bad, "NodeNames": NAMES})))
    assert result["NodeNames"] == []
    assert "gpu-milli" in result["FailedAndUnresolvableNodes"]["node-c"]


def test_prioritize_gives_the_best_10_and_what_is_not_known_0() -> None:
    asked = args(wire.ExtenderArgs, {"Pod": a_pod("new"), "NodeNames": ["node-b", "unknown", "node-c"]})
    result = written(an_extender().prioritize(asked))
    assert [entry["Host"] for entry in result] == ["node-b", "unknown", "node-c"]
    assert [entry["Score"] for entry in result] == [1, 0, 10]


def test_taints_and_selectors_do_not_count_again() -> None:
    extender = an_extender()
    free = a_node("node-c", cpu="16", taints=[{"key": "k", "effect": "NoSchedule"}])
    NodeFollower(extender.cache).changed(free)
    asked = args(wire.ExtenderArgs, {"Pod": a_pod("new", nodeSelector={"x": "y"}), "NodeNames": NAMES})
    scores = {entry["Host"]: entry["Score"] for entry in written(extender.prioritize(asked))}
    assert scores["node-c"] == 10  # kube-scheduler would not have offered it otherwise


def test_preempt_keeps_nodes_where_the_devices_would_suffice() -> None:
    victims = {"node-a": ("uid-one",), "node-b": ("uid-two",), "node-c": ("uid-x",)}
    body = {
        "Pod": a_pod("new", annotations={**SHARE, "alibabacloud.com/gpu-count": "2"}),
        "NodeNameToMetaVictims": {
            name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 1} for name, uids in victims.items()
        },
    }
    result = written(an_extender().preempt(args(wire.PreemptionArgs, body)))
    assert result == {"NodeNameToMetaVictims": {"node-a": {"Pods": [{"UID": "uid-one"}], "NumPDBViolations": 1}}}


def test_preempt_takes_victims_as_objects_too() -> None:
    body = {
        "Pod": a_pod("new", annotations=SHARE),
        "NodeNameToVictims": {"node-b": {"Pods": [a_pod("two")], "NumPDBViolations": 0}},
    }
    result = written(an_extender().preempt(args(wire.PreemptionArgs, body)))
    assert result == {"NodeNameToMetaVictims": {"node-b": {"Pods": [{"UID": "uid-two"}], "NumPDBViolations": 0}}}


def test_nothing_is_answered_from_a_cold_view() -> None:
    extender = an_extender(obstacle="cold")
    with pytest.raises(RefusedError, match="cold"):
        extender.prioritize(args(wire.ExtenderArgs, {"Pod": a_pod("new"), "NodeNames": NAMES}))


def bound_by(statuses: list[int], node: str, times: int = 1) -> tuple[list[Any], list[Json], Extender]:
    """Results of binding a GPU pod, what the API server was told, and the extender after it."""
    from aiohttp import web

    told: list[Json] = []

    async def answer(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response(a_pod("new", annotations=SHARE))
        told.append(await request.json())
        return web.json_response({"reason": "x", "message": "y"}, status=statuses[len(told) - 1])

    async def run() -> tuple[list[Any], list[Json], Extender]:
        async with a_client(answer) as client:
            extender = an_extender(client)
            asked = wire.BindingArgs("new", "default", "uid-new", node)
            return [await extender.bind(asked) for _ in range(times)], told, extender

    return asyncio.run(run())


def test_bind_writes_the_device_with_the_binding() -> None:
    results, told, extender = bound_by([201], "node-a")
    assert results == [wire.BindingResult("")]
    assert told[0]["metadata"]["annotations"] == {"alibabacloud.com/gpu-index": "1"}
    placement = extender.cache.state.placement("uid-new")
    assert placement is not None
    assert placement.devices == 0b10


def test_a_failed_bind_gives_the_room_back() -> None:
    results, _, extender = bound_by([500], "node-a")
    assert results[0].Error
    assert extender.cache.state.placement("uid-new") is None


def test_a_bind_of_which_nobody_knows_what_came_keeps_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async def bind(*given: Any) -> Any:
        return "unknown"

    monkeypatch.setattr(Binder, "bind", bind)
    results, _, extender = bound_by([], "node-a")
    assert "not known" in results[0].Error
    assert extender.cache.state.placement("uid-new") is not None


def test_bind_does_not_put_a_pod_where_no_device_has_room() -> None:
    results, told, _ = bound_by([201], "node-b")
    assert "not enough GPU" in results[0].Error
    assert told == []


def test_a_bind_that_is_asked_for_again_names_the_same_device() -> None:
    results, told, _ = bound_by([201, 201], "node-a", times=2)
    assert [result.Error for result in results] == ["", ""]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("name", "namespace", "node"),
    [
        (".", "default", "node-a"),
        ("x/../../../secrets/s", "default", "node-a"),
        ("new", "../kube-system", "node-a"),
        ("new", "a.b", "node-a"),
        ("new\n", "default", "node-a"),
        ("new", "default", "node-a/x"),
        ("New", "default", "node-a"),
    ],
)
def test_bind_takes_no_name_that_leads_elsewhere_in_a_path(name: str, namespace: str, node: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        args(wire.BindingArgs, {"PodName": name, "PodNamespace": namespace, "PodUID": "u", "Node": node})


names = st.text(max_size=6) | st.sampled_from(["new", "default", "node-a", "..", ".", "a/b", "a%2fb", "a\n"])


@settings(max_examples=50, deadline=None)
@given(names, names, names, names)
def test_whatever_is_to_be_bound_is_asked_for_by_its_own_path(name: str, namespace: str, uid: str, node: str) -> None:
    from aiohttp import web

    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.rel_url.raw_path)
        return web.json_response({"reason": "NotFound", "message": "no"}, status=404)

    async def run() -> None:
        body = {"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node}
        try:
            read = args(wire.BindingArgs, body)
        except msgspec.DecodeError:
            return
        async with a_client(answer) as client:
            assert (await an_extender(client).bind(read)).Error
        assert asked == [f"/api/v1/namespaces/{namespace}/pods/{name}"]

    asyncio.run(run())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
huge_numbers = st.integers(2**62, 2**80)
amounts = json_values | huge_numbers
pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"uid": st.text(max_size=5), "name": st.text(max_size=5), "namespace": st.text(max_size=5)},
            optional={
                "annotations": st.dictionaries(
                    st.sampled_from([*SHARE, "pilotage.dev/latency-hard"]), st.text(max_size=5)
                ),
                "labels": json_values,
            },
        ),
        "spec": st.fixed_dictionaries(
            {
                "containers": st.lists(
                    st.fixed_dictionaries(
                        {},
                        optional={
                            "resources": st.fixed_dictionaries(
                                {},
                                optional={
                                    "requests": st.dictionaries(
                                        st.sampled_from(["cpu", "x/y", "z"]), json_values | huge_numbers
                                    )
                                },
                            )
                        },
                    ),
                    max_size=2,
                )
            },
            optional={"priority": json_values, "overhead": json_values, "affinity": json_values},
        ),
    }
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(
        [("filter", wire.ExtenderArgs), ("prioritize", wire.ExtenderArgs), ("preempt", wire.PreemptionArgs)]
    ),
    st.fixed_dictionaries(
        {"Pod": pods | json_values},
        optional={
            "NodeNames": st.none() | st.lists(st.sampled_from(NAMES) | st.text(max_size=4), max_size=4),
            "Nodes": st.none() | st.fixed_dictionaries({"items": st.lists(json_values, max_size=2)}),
            "NodeNameToMetaVictims": json_values
            | st.fixed_dictionaries({"node-a": st.fixed_dictionaries({"NumPDBViolations": huge_numbers})}),
            "NodeNameToVictims": json_values,
        },
    ),
)
def test_whatever_is_sent_is_answered_or_refused(verb: tuple[str, Any], body: Json) -> None:
    extender = an_extender()
    try:
        asked = args(verb[1], body)
        result = written(getattr(extender, verb[0])(asked))
    except (msgspec.DecodeError, RefusedError):
        return
    if verb[0] == "prioritize":
        assert all(0 <= entry["Score"] <= 10 for entry in result)
