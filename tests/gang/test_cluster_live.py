"""Jobs on a cluster: gangs admitted whole, workers as pods, shares changed by the resize subresource.

The nodes of the lab are fake, so a stand-in for the kubelet runs what containers would run, as processes of this
machine, and says what a kubelet says: that a container has ended, and which CPU it has.
"""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gang.small_job import write_job
from lab.labs import a_lab, eventually, make_namespace, pod
from pilotage.gang.claim import Claim
from pilotage.gang.cluster_crew import CONTAINER
from pilotage.gang.cluster_link import ClusterPlace
from pilotage.gang.execution import Limits
from pilotage.gang.job import read_job
from pilotage.gang.meeting import MeetingError
from pilotage.gang.profiling import Cell, ProfilingError
from pilotage.gang.profiling_pods import MESSAGE_VARIABLE, PodRunner
from pilotage.gang.real_run import RealRun
from pilotage.gang.record import Superstep
from pilotage.kube.access import read_kubeconfig
from pilotage.kube.client import STRATEGIC_PATCH, Client, Json
from pilotage.kube.errors import KubeError, UnreachableError
from pilotage.kube.gang_pods import create_gang, delete_gang, group_form, in_force, resize_refused
from pilotage.kube.watch import Informer
from pilotage.lab.components import LabSettings
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.lab.faults.history import History, Stay
from pilotage.lab.nodes import add, numbered
from pilotage.model.clock import SystemClock
from pilotage.model.cluster import Node
from scheduler.live import a_scheduler

LANES, ROUNDS = 5, 10


@pytest.fixture(scope="module")
def native_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Serves the native PodGroup API."""
    settings = LabSettings(native_gangs=True, kube_scheduler=False)
    with a_lab(tmp_path_factory.mktemp("labs"), settings, f"gangs-{os.getpid()}") as running:
        in_lab(running, lambda client: first_placement(running, client))
        yield running


async def first_placement(lab: Lab, client: Client) -> None:
    """A scheduler that places its first pod may compile for it, in the loop that this process has for everything."""
    namespace = await make_namespace(client)
    await add(client, numbered(Node("node", 4_000, 32 * 2**30), 1, namespace))
    await create_gang(client, namespace, "first", [pod("first", scheduler="pilotage")])

    async def placed() -> bool | None:
        try:
            return True if await bound_in(client, namespace) else None
        except UnreachableError:
            return None

    async with a_scheduler(lab, "pilotage=best-fit"):
        await eventually(placed, "the first pod is bound")
    await delete_gang(client, namespace, "first", ["first"])


async def bound_in(client: Client, namespace: str) -> set[str]:
    found, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
    return {one["metadata"]["name"] for one in found if one["spec"].get("nodeName")}


async def admit_two(client: Client, namespace: str, rounds: int) -> list[str]:
    """Two gangs of three pods on nodes with room for four, again and again; who came first.

    A watch has every binding in the order of the API server's versions, so not a moment is missed.
    """
    await add(client, numbered(Node("node", 8_000, 32 * 2**30, labels=(("lane", namespace),)), 2, namespace))
    history = History(SystemClock())
    watching = asyncio.create_task(Informer(client, f"/api/v1/namespaces/{namespace}/pods", history).run())
    try:
        return [await admit_both(client, namespace, f"round-{number}", history) for number in range(rounds)]
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def admit_both(client: Client, namespace: str, name: str, history: History) -> str:
    """One round; which gang came first."""
    names = {gang: [f"{gang}-{name}-{k}" for k in range(3)] for gang in ("a", "b")}
    chosen: dict[str, Any] = {"scheduler": "pilotage", "cpu": "4", "nodeSelector": {"lane": namespace}}
    history.stays.clear()
    manifests = {gang: [pod(one, **chosen) for one in own] for gang, own in names.items()}
    await asyncio.gather(*(create_gang(client, namespace, f"{gang}-{name}", own) for gang, own in manifests.items()))

    async def bound(count: int) -> bool | None:
        return True if history.bound >= count else None

    async def gone() -> bool | None:
        return None if history.pods else True

    await eventually(lambda: bound(3), "one gang is bound whole")
    first = next(iter(in_order(history)))
    await delete_gang(client, namespace, f"{first}-{name}", names[first])
    await eventually(lambda: bound(6), "then the other one")
    second = "b" if first == "a" else "a"
    await delete_gang(client, namespace, f"{second}-{name}", names[second])
    await eventually(gone, "both are gone")
    assert in_order(history) == [first] * 3 + [second] * 3
    left = min(stay.until or 0 for stay in history.stays.values() if gang_of(stay) == first)
    assert left < min(stay.since for stay in history.stays.values() if gang_of(stay) == second)
    assert not history.moved
    return first


def gang_of(stay: Stay) -> str:
    return stay.pod.name.partition("-")[0]


def in_order(history: History) -> list[str]:
    """The gangs of all bindings, the first one first."""
    return [gang_of(stay) for stay in sorted(history.stays.values(), key=lambda stay: stay.since)]


def test_of_two_gangs_that_fit_one_at_a_time_one_runs_whole_then_the_other(native_lab: Lab) -> None:
    async def test(client: Client) -> None:
        form = await group_form(client)
        assert form is not None
        assert form.api_group == "scheduling.k8s.io"
        spaces = [await make_namespace(client) for _ in range(LANES)]
        async with a_scheduler(native_lab, "pilotage=best-fit"):
            found = await asyncio.gather(*(admit_two(client, space, ROUNDS) for space in spaces))
        assert sum(len(rounds) for rounds in found) == LANES * ROUNDS

    in_lab(native_lab, test)


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@dataclass
class Kubelet:
    """Runs the containers of a namespace here, and says of them what a kubelet says."""

    client: Client
    namespace: str
    directory: Path  # for termination messages
    resizes: bool = True
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)  # by uid of the pod
    shares: list[dict[str, int]] = field(default_factory=list)  # that were in force, in the order of changes

    async def serve(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            found, _ = await self.client.list_all(f"/api/v1/namespaces/{self.namespace}/pods")
            there = {one["metadata"]["uid"] for one in found}
            for uid in self.running.keys() - there:
                end(self.running.pop(uid))
            for one in found:
                await self._look(one)
            await asyncio.sleep(0.1)
        for process in self.running.values():
            end(process)

    async def _look(self, one: Json) -> None:
        uid, name = one["metadata"]["uid"], one["metadata"]["name"]
        if one["status"].get("phase") != "Running" or "deletionTimestamp" in one["metadata"]:
            return
        container = one["spec"]["containers"][0]
        if uid not in self.running:
            command = [*container["command"], *container.get("args", ())]
            given = {entry["name"]: await self._value(entry) for entry in container["env"]}
            if MESSAGE_VARIABLE in given:
                given[MESSAGE_VARIABLE] = str(self.directory / uid)
            self.running[uid] = subprocess.Popen(
                [sys.executable, "-m", *command] if command[0] == "pilotage" else command,
                env={**os.environ, **given},
                stdout=subprocess.DEVNULL,
            )
        elif self.running[uid].poll() is not None:
            await self._tell_end(one, self.running[uid].returncode)
            return
        wanted = container["resources"]["limits"]["cpu"]
        status: dict[str, Any] = dict(one["status"]["containerStatuses"][0])
        first = not status.get("resources")
        if (first or self.resizes) and ((status.get("resources") or {}).get("limits") or {}).get("cpu") != wanted:
            status["resources"] = container["resources"]
            await self._say(name, {"containerStatuses": [status]})
            self.shares.append({name: int(in_force({"status": {"containerStatuses": [status]}}, CONTAINER) or 0)})

    async def _tell_end(self, one: Json, code: int) -> None:
        said = self.directory / one["metadata"]["uid"]
        ended = {"exitCode": abs(code), "message": said.read_text() if said.exists() else ""}
        status = {**one["status"]["containerStatuses"][0], "state": {"terminated": ended, "running": None}}
        phase = "Failed" if code else "Succeeded"
        await self._say(one["metadata"]["name"], {"phase": phase, "containerStatuses": [status]})

    async def _value(self, entry: Json) -> str:
        if "value" in entry:
            return str(entry["value"])
        key = entry["valueFrom"]["secretKeyRef"]
        secret = await self.client.get(f"/api/v1/namespaces/{self.namespace}/secrets/{key['name']}")
        return base64.b64decode(secret["data"][key["key"]]).decode()

    async def _say(self, name: str, status: Json) -> None:
        try:
            path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
            await self.client.patch(path, {"status": status}, STRATEGIC_PATCH)
        except KubeError as error:
            if error.status not in (404, 409):  # gone, or changed meanwhile
                raise


@asynccontextmanager
async def cluster_at_work(lab: Lab, kubelet: Kubelet) -> AsyncIterator[None]:
    """A scheduler places pods, and the stand-in for the kubelet runs them."""
    stop = asyncio.Event()
    async with a_scheduler(lab, "pilotage=best-fit"):
        playing = asyncio.create_task(kubelet.serve(stop))
        try:
            yield
        finally:
            stop.set()
            await playing


def run_of_job(path: Path, place: ClusterPlace, supersteps: int) -> RealRun:
    return RealRun(read_job(path), path, "pilotage", supersteps, Limits(), quotas=False, zookeeper=None, place=place)


async def run_on_cluster(
    lab: Lab, path: Path, kubelet: Kubelet, place: ClusterPlace, supersteps: int
) -> list[Superstep]:
    async with cluster_at_work(lab, kubelet):
        return await asyncio.to_thread(run_of_job(path, place, supersteps).execute, path.parent / "out")


def place_in(lab: Lab, namespace: str, resize_seconds: float = 60.0) -> ClusterPlace:
    access = read_kubeconfig(lab.kubeconfig, None, SystemClock())
    return ClusterPlace(access, namespace, "none", resize_seconds=resize_seconds)


def test_a_job_runs_in_pods_that_are_resized_in_place(native_lab: Lab, tmp_path: Path) -> None:
    path = write_job(tmp_path, {"one": "sleep 0.1", "two": "sleep 0.1", "three": "sleep 0.1"}, name="in-pods")

    async def test(client: Client) -> None:
        namespace = await make_namespace(client)
        await add(client, numbered(Node("node", 4_000, 32 * 2**30), 1, namespace))
        kubelet = Kubelet(client, namespace, tmp_path)
        steps = await run_on_cluster(native_lab, path, kubelet, place_in(native_lab, namespace), 8)
        assert [step.superstep for step in steps] == list(range(8))
        assert all(sum(step.shares.values()) == 600 for step in steps)
        assert len({tuple(step.shares.values()) for step in steps}) > 1  # a step waits for what the kubelet says
        found, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
        assert all("deletionTimestamp" in one["metadata"] for one in found)

    in_lab(native_lab, test)


def test_a_pod_that_fails_is_made_again(native_lab: Lab, tmp_path: Path) -> None:
    once = tmp_path / "once"
    line = f"test -e {once} || {{ touch {once}; kill -9 $PPID; sleep 5; }}"
    path = write_job(tmp_path, {"one": line, "two": "true"}, name="failing")

    async def test(client: Client) -> None:
        namespace = await make_namespace(client)
        await add(client, numbered(Node("node", 4_000, 32 * 2**30), 1, namespace))
        place = place_in(native_lab, namespace)
        steps = await run_on_cluster(native_lab, path, Kubelet(client, namespace, tmp_path), place, 3)
        assert [step.superstep for step in steps] == [0, 1, 2]
        assert steps[0].events == ("one: the worker died at work, started again",)

    in_lab(native_lab, test)


def test_what_is_not_of_the_job_is_left_alone(native_lab: Lab, tmp_path: Path) -> None:
    path = write_job(tmp_path, {"one": "true", "two": "true"}, name="mine")

    async def test(client: Client) -> None:
        namespace = await make_namespace(client)
        await client.create(f"/api/v1/namespaces/{namespace}/pods", pod("mine-two", scheduler="nobody"))
        kubelet = Kubelet(client, namespace, tmp_path)
        with pytest.raises(MeetingError, match=r"mine-two is in namespace .* and not of this job"):
            await run_on_cluster(native_lab, path, kubelet, place_in(native_lab, namespace), 1)
        found, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
        assert [one["metadata"]["name"] for one in found] == ["mine-two"]
        assert "deletionTimestamp" not in found[0]["metadata"]

    in_lab(native_lab, test)


async def objects_of(client: Client, namespace: str) -> list[str]:
    """Names of what runs make in a namespace; what is being deleted does not count."""
    paths = (f"/api/v1/namespaces/{namespace}/pods", f"/api/v1/namespaces/{namespace}/secrets", leases_of(namespace))
    found = [one for path in paths for one in (await client.list_all(path))[0]]
    return [one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]]


def leases_of(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def test_a_second_run_of_a_job_is_refused_and_touches_nothing(native_lab: Lab, tmp_path: Path) -> None:
    go = tmp_path / "go"
    line = f"while [ ! -e {go} ]; do sleep 0.05; done"
    path = write_job(tmp_path, {"one": line, "two": "true"}, name="claimed")

    async def test(client: Client) -> None:
        namespace = await make_namespace(client)
        await add(client, numbered(Node("node", 4_000, 32 * 2**30), 1, namespace))
        kubelet, real = Kubelet(client, namespace, tmp_path), run_of_job(path, place_in(native_lab, namespace), 3)
        async with cluster_at_work(native_lab, kubelet):
            first = asyncio.create_task(asyncio.to_thread(real.execute, tmp_path / "first"))

            async def both_run() -> bool | None:
                return True if len(kubelet.running) == 2 else None

            await eventually(both_run, "the workers of the first run are there")
            with pytest.raises(MeetingError, match=r"another run \(.*\) has this job in namespace .*claimed-gang"):
                await asyncio.to_thread(real.execute, tmp_path / "second")
            go.touch()
            steps = await first
            assert [step.superstep for step in steps] == [0, 1, 2]
            assert [event for step in steps for event in step.events] == []
            assert await objects_of(client, namespace) == []
            again = await asyncio.to_thread(real.execute, tmp_path / "second")  # there is nobody any more
            assert len(again) == 3

    in_lab(native_lab, test)


COORDINATOR = """
import sys
from pathlib import Path
from pilotage.gang.cluster_link import ClusterPlace
from pilotage.gang.execution import Limits
from pilotage.gang.job import read_job
from pilotage.gang.real_run import RealRun
from pilotage.kube.access import read_kubeconfig
from pilotage.model.clock import SystemClock

path, kubeconfig, namespace, out = sys.argv[1:]
place = ClusterPlace(read_kubeconfig(Path(kubeconfig), None, SystemClock()), namespace, "none")
job = read_job(Path(path))
RealRun(job, Path(path), "pilotage", 5, Limits(), quotas=False, zookeeper=None, place=place).execute(Path(out))
"""


def test_a_coordinator_that_was_killed_has_its_job_again(native_lab: Lab, tmp_path: Path) -> None:
    go = tmp_path / "go"
    line = (
        f"echo >> {tmp_path / 'tries'}; while [ $(wc -l < {tmp_path / 'tries'}) = 3 -a ! -e {go} ]; do sleep 0.1; done"
    )
    path = write_job(tmp_path, {"one": line, "two": "true"}, name="killed-in-pods")
    out = tmp_path / "out"

    async def test(client: Client) -> None:
        namespace = await make_namespace(client)
        await add(client, numbered(Node("node", 4_000, 32 * 2**30), 1, namespace))
        place = place_in(native_lab, namespace)
        async with cluster_at_work(native_lab, Kubelet(client, namespace, tmp_path)):
            words = [str(path), str(native_lab.kubeconfig), namespace, str(out)]
            process = subprocess.Popen([sys.executable, "-c", COORDINATOR, *words])

            async def two_recorded() -> bool | None:
                record = out / "supersteps.jsonl"
                return True if record.exists() and len(record.read_text().splitlines()) == 3 else None

            try:
                await eventually(two_recorded, "two supersteps are recorded")
            finally:
                end(process)
            go.touch()
            assert "killed-in-pods-one" in await objects_of(client, namespace)
            steps = await asyncio.to_thread(run_of_job(path, place, 5).execute, out)
            assert [step.superstep for step in steps] == list(range(5))
            assert await objects_of(client, namespace) == []

    in_lab(native_lab, test)


def test_what_a_dead_run_claimed_is_had_when_its_lease_has_ended(native_lab: Lab) -> None:
    async def test(client: Client) -> None:
        namespace = await make_namespace(client)
        held = {"holderIdentity": "dead", "leaseDurationSeconds": 2, "renewTime": "2025-01-01T00:00:00.000000Z"}
        body = {"metadata": {"name": "job-gang"}, "spec": held}
        await client.create(leases_of(namespace), body)
        place = place_in(native_lab, namespace)
        claim, late = Claim(place, "job-gang", "alive"), Claim(place, "job-gang", "late")
        await asyncio.to_thread(claim.take)
        claim.check()
        with pytest.raises(MeetingError, match=r"another run \(alive\)"):
            await asyncio.to_thread(late.take)
        with pytest.raises(MeetingError, match="was lost to alive"):
            late.check()
        await late.leave(client)  # what is not its own stays
        claim.check()
        assert await objects_of(client, namespace) == ["job-gang"]
        await claim.leave(client)
        assert await objects_of(client, namespace) == []

    in_lab(native_lab, test)


def test_a_resize_that_is_never_carried_out_ends_the_job_with_the_reason(native_lab: Lab, tmp_path: Path) -> None:
    path = write_job(tmp_path, {"one": "true", "two": "true", "three": "true"}, name="never")

    async def test(client: Client) -> None:
        namespace = await make_namespace(client)
        await add(client, numbered(Node("node", 4_000, 32 * 2**30), 1, namespace))
        kubelet = Kubelet(client, namespace, tmp_path, resizes=False)
        place = place_in(native_lab, namespace, resize_seconds=0.0)  # less than any kubelet needs
        with pytest.raises(MeetingError, match=r"has not got its .* milli CPU: the kubelet says nothing"):
            # As many as there are: where a division was found to take long, the next one comes late.
            await run_on_cluster(native_lab, path, kubelet, place, 40)

        async def nothing_left() -> bool | None:
            left, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
            return None if left else True

        await eventually(nothing_left, "no pod is left")

    in_lab(native_lab, test)


def test_durations_are_measured_in_pods(native_lab: Lab, tmp_path: Path) -> None:
    commands = {"sleeps": ["sleep", "0.3"], "fails": ["sh", "-c", "exit 4"]}

    async def test(client: Client) -> None:
        namespace = await make_namespace(client)
        await add(client, numbered(Node("node", 4_000, 32 * 2**30), 1, namespace))
        stop = asyncio.Event()
        runner = PodRunner(lambda task, size: commands[task], place_in(native_lab, namespace), "measured", "run")
        async with a_scheduler(native_lab, "pilotage=best-fit"):
            playing = asyncio.create_task(Kubelet(client, namespace, tmp_path).serve(stop))
            try:
                for share in (500, 1000):
                    assert await asyncio.to_thread(runner.measure, Cell("sleeps", 10.0, share)) >= 0.3
                with pytest.raises(ProfilingError, match="fails at size 20, share 500: ended with code 4"):
                    await asyncio.to_thread(runner.measure, Cell("fails", 20.0, 500))
                await asyncio.to_thread(runner.close)
                found, _ = await client.list_all(f"/api/v1/namespaces/{namespace}/pods")
                assert all("deletionTimestamp" in one["metadata"] for one in found)
            finally:
                stop.set()
                await playing

    in_lab(native_lab, test)


def test_what_kubelets_say_of_a_resize() -> None:
    waiting = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "Node didn't have enough"}
    assert resize_refused({"status": {"conditions": [waiting]}}) == "Deferred: Node didn't have enough"
    assert resize_refused({"status": {}}) == ""
    assert in_force({"status": {}}, CONTAINER) is None
    says = [{"name": CONTAINER, "resources": {"limits": {"cpu": "1500m"}}}]
    assert in_force({"status": {"containerStatuses": says}}, CONTAINER) == 1500
