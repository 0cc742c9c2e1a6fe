"""The workload simulator: how much it makes, of what, and that it takes away exactly that."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from contract.commands import installed_pilotage
from kube.objects import a_pod
from kube.servers import a_client
from lab.labs import fresh_namespace, pod
from pilotage.kube.client import Client
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.lab.gangs import in_group
from pilotage.lab.load import LABEL, Limits, LoadSettings, clean, objects, up_to
from pilotage.lab.watching import BoundPods, ScheduledEvents
from pilotage.model.clock import SystemClock, VirtualClock
from pilotage.model.cluster import Node
from pilotage.model.errors import InputError
from pilotage.model.workload import Gang, Pod, PodShape, Workload
from pilotage.workloads import openb

NODES = [Node("a", 10_000, 10 * 2**30, pods=50), Node("b", 10_000, 10 * 2**30, pods=50)]


def workload_of(*cpus: int, duration: float = 5.0) -> Workload:
    return Workload.of(
        (Pod(f"p{i}", PodShape(cpu_milli=cpu, memory_bytes=2**20), duration=duration) for i, cpu in enumerate(cpus)),
        timed=True,
    )


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=8), st.floats(0.2, 1.5), st.sampled_from([0.0, 0.05, 0.3]))
def test_pods_are_made_until_a_limit_and_not_beyond(cpus: list[int], cpu: float, pods: float) -> None:
    made = up_to(workload_of(*cpus), NODES, Limits(cpu=cpu, pods=pods))
    asked = sum(shape.cpu_milli for shape in (made.shapes[s] for s in made.shape_P))
    assert asked <= cpu * 20_000
    assert not pods or len(made) <= pods * 100
    following = cpus[len(made) % len(cpus)]
    assert asked + following > cpu * 20_000 or (pods and len(made) + 1 > pods * 100)
    assert len(set(made.names)) == len(made)


def test_limits_that_allow_nothing() -> None:
    with pytest.raises(InputError, match="not even one pod"):
        up_to(workload_of(5000), NODES, Limits(cpu=0.1))
    with pytest.raises(InputError, match="no nodes"):
        up_to(workload_of(5000), [], Limits(cpu=0.1))
    assert len(up_to(workload_of(5000), [], Limits())) == 1


def kinds(workload: Workload, form: str) -> Counter[str]:
    return Counter(body["kind"] for _, _, body in objects(workload, LoadSettings(form=form)))  # type: ignore[arg-type]


def test_what_is_made_of_the_pods() -> None:
    same = workload_of(*[100] * 25)
    assert kinds(same, "pods") == {"Pod": 25}
    assert kinds(same, "jobs") == {"Job": 25}
    assert kinds(same, "deployments") == {"Deployment": 3}
    assert set(kinds(same, "mixed")) == {"Pod", "Job", "Deployment"}
    made = [body for _, _, body in objects(same, LoadSettings(form="deployments"))]
    assert sorted(body["spec"]["replicas"] for body in made) == [5, 10, 10]
    for _, _, body in objects(same, LoadSettings(form="mixed", scheduler="mine", name="x")):
        spec = body["spec"] if body["kind"] == "Pod" else body["spec"]["template"]["spec"]
        assert spec["schedulerName"] == "mine"
        assert body["metadata"]["labels"][LABEL] == "x"


def test_priorities_become_classes() -> None:
    shape = PodShape(cpu_milli=1, priority=-5)
    ((_, _, body),) = objects(Workload.of([Pod("p", shape)]), LoadSettings())
    assert body["spec"]["priorityClassName"] == "pilotage-priority-minus-5"
    assert "priority" not in body["spec"]


def test_a_load_is_made_written_down_replayed_and_taken_away(lab: Lab, tmp_path: Path) -> None:
    namespace = fresh_namespace()
    source, written = tmp_path / "pods.csv", tmp_path / "made.csv"
    openb.write_pods(source, workload_of(*[100] * 12, duration=1e6))
    common = ["--name", lab.name, "--namespace", namespace]
    made = installed_pilotage("lab", "load", "--pods", source, "--as", "mixed", "--out", written, *common)
    assert made.code == 0, made.err
    assert len(openb.read_pods(written)) == 12

    async def bystander(client: Client) -> None:
        await client.create(f"/api/v1/namespaces/{namespace}/pods", pod("bystander"))

    async def names(client: Client) -> list[str]:
        found, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
        return [one["metadata"]["name"] for one in found]

    in_lab(lab, bystander)
    gone = installed_pilotage("lab", "load", "--clean", *common)
    assert gone.code == 0, gone.err
    assert in_lab(lab, names) == ["bystander"]
    again = installed_pilotage("lab", "load", "--pods", written, "--resets", 1, "--json", *common)
    assert again.code == 0, again.err
    assert '"rounds": 2' in again.out
    assert len(in_lab(lab, names)) == 13
    assert installed_pilotage("lab", "load", "--clean", *common).code == 0


def test_pods_are_replaced_by_others_like_them(lab: Lab, tmp_path: Path) -> None:
    namespace = fresh_namespace()
    source = tmp_path / "pods.csv"
    openb.write_pods(source, workload_of(*[100] * 10, duration=1e6))
    common = ["--name", lab.name, "--namespace", namespace]
    made = installed_pilotage("lab", "load", "--pods", source, "--churn", 2, "--json", *common)
    assert made.code == 0, made.err
    assert '"replaced": 2' in made.out

    async def names(client: Client) -> set[str]:
        found, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
        return {one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]}

    there = in_lab(lab, names)
    assert len(there) == 10
    assert any("-again-" in name for name in there)
    assert installed_pilotage("lab", "load", "--clean", *common).code == 0
    assert in_lab(lab, names) == set()


def test_what_was_made_is_played_back_from_parquet_too(tmp_path: Path) -> None:
    gang = Gang("job", 2)
    shape = PodShape(cpu_milli=100, memory_bytes=2**20, gpu_milli=500, gpu_count=1, gpu_models="A|B", priority=3)
    pods = [Pod(f"p{i}", shape, arrival=1.5 * i, duration=10.25, gang=gang if i < 2 else None) for i in range(3)]
    path = tmp_path / "made.parquet"
    openb.write_pods(path, Workload.of(pods, timed=True))
    found, csv = openb.read_pods(path), tmp_path / "made.csv"
    openb.write_pods(csv, found)
    openb.write_pods(tmp_path / "as.csv", Workload.of(pods, timed=True))
    assert csv.read_text() == (tmp_path / "as.csv").read_text()


@pytest.mark.parametrize("content", [b"", b"name,cpu_milli\n", b"PAR1"])
def test_a_parquet_file_that_is_none_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "made.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"made\.parquet: cannot be read"):
        openb.read_pods(path)
    with pytest.raises(InputError, match="cannot be read"):
        openb.read_pods(tmp_path / "nowhere.parquet")


@pytest.mark.parametrize("answer_to_many", [504, None])
def test_more_pods_than_one_request_can_delete_are_taken_away(answer_to_many: int | None) -> None:
    """The server gives up after a minute, or the connection does; what it deleted until then is gone."""
    left = [f"p{number}" for number in range(5)]
    asked: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        if not request.path.endswith("/pods"):
            return web.json_response({}, status=404 if request.method == "GET" else 200)
        if request.method == "GET":
            items = [{"metadata": {"name": name}} for name in left]
            return web.json_response({"items": items, "metadata": {"resourceVersion": "1"}})
        assert request.query["gracePeriodSeconds"] == "0"
        asked.append(len(left))
        del left[:2]
        if left and answer_to_many is None and request.transport is not None:
            request.transport.close()
        return web.json_response({"reason": "Timeout"}, status=(answer_to_many or 200) if left else 200)

    async def run() -> None:
        async with a_client(answer) as client:
            assert await clean(client, LoadSettings(), SystemClock()) == 5

    asyncio.run(run())
    assert asked == [5, 3, 1]


def test_the_clock_stops_with_the_last_binding_and_the_last_event() -> None:
    clock = VirtualClock()
    bound = BoundPods(clock, 2)
    events = ScheduledEvents(bound)
    event = [{"regarding": {"uid": f"uid-{name}"}} for name in ("old", "a", "b")]
    events.listed(event[:1])
    for name in ("a", "b"):
        clock.wait(1.0)
        bound.changed(a_pod(name, node="n0"))
    assert bound.complete.is_set()
    clock.wait(1.0)
    events.changed(event[1])
    assert (bound.events, bound.first_at, bound.last_at) == (1, 1.0, 3.0)


def test_members_of_a_gang_name_their_group() -> None:
    gang = Gang("Jobs/a", 2)
    workload = Workload.of(Pod(f"p{i}", PodShape(cpu_milli=1), gang=gang) for i in range(2))
    bodies = [in_group(body) for _, _, body in objects(workload, LoadSettings())]
    assert [body["spec"]["schedulingGroup"] for body in bodies] == [{"podGroupName": "jobs-a"}] * 2
    assert in_group({"kind": "Pod", "metadata": {}, "spec": {}})["spec"] == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [([], "no trace was given"), (["--trace", "openb-like", "--pods", "x.csv"], "two traces given")],
)
def test_bad_input(lab: Lab, arguments: list[str], said: str) -> None:
    refused = installed_pilotage("lab", "load", "--name", lab.name, *arguments)
    assert refused.code == 2
    assert said in refused.err
