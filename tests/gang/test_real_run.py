"""Real runs: workers, quotas, both ways to meet, and what is done when something fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gang.small_job import write_job
from gang.zookeeper_server import ZooKeeperServer
from pilotage.gang.quota import ROOT, make_quota, version_here

PATIENCE = 240.0  # seconds until a test gives up; nothing is measured by it
EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "09_gang" / "job.yaml"


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    server = ZooKeeperServer(tmp_path_factory.mktemp("keeper") / "server")
    server.start()
    yield server
    server.close()


@pytest.fixture(params=["embedded", "zookeeper"])
def meeting(request: pytest.FixtureRequest) -> list[str]:
    if request.param == "embedded":
        return []
    server: ZooKeeperServer = request.getfixturevalue("keeper")
    return ["--zookeeper", server.address]


def start(job: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pilotage", "gang", "run", str(job), "--out", str(out), "--json", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, dict[str, object], str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, json.loads(out) if out else {}, err


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def processes(words: str) -> list[int]:
    """Of which the command line holds these words."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if words in line and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def worker(job: Path, task: str) -> int:
    found: list[int] = []

    def there() -> bool:
        found[:] = processes(f"gang worker {job} --task {task}")
        return bool(found)

    until(there)
    return found[0]


def steps(out: Path) -> list[dict[str, object]]:
    path = out / "supersteps.jsonl"
    if not path.exists():
        return []
    lines = path.read_text().splitlines()[1:]
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def nothing_left(job: Path, name: str, keeper: list[str]) -> None:
    until(lambda: not processes(f"gang worker {job}"))
    base = ROOT if (ROOT / "cgroup.controllers").exists() else ROOT / "cpu"
    assert [path.name for path in base.glob(f"pilotage-{name}-*")] == []
    if keeper:
        from kazoo.client import KazooClient

        client = KazooClient(hosts=keeper[1])
        client.start(timeout=30)
        try:
            assert client.get_children("/pilotage-gang") == []
        finally:
            client.stop()
            client.close()


# Runs without failures


def test_four_tasks_under_quotas_against_equal_split(tmp_path: Path, meeting: list[str]) -> None:
    totals = {}
    for controller in ("equal-split", "pilotage"):
        out = tmp_path / controller
        beside = ["--against", str(tmp_path / "equal-split")] if controller == "pilotage" else []
        options = ["--controller", controller, "--supersteps", "20", *beside]
        code, figures, err = finish(start(EXAMPLE, out, *options, *meeting))
        assert code == 0, err
        assert figures["supersteps"] == 20
        assert figures["failures"] == []
        found = steps(out)
        assert [step["superstep"] for step in found] == list(range(20))
        assert all(sum(step["shares"].values()) == 2000 for step in found)  # type: ignore[attr-defined]
        assert "Measured and predicted" in (out / "report.html").read_text()
        totals[controller] = figures["seconds"]
        if controller == "pilotage":
            assert int(str(figures["redivisions"])) > 0
            assert len({json.dumps(step["shares"]) for step in found}) == int(str(figures["redivisions"])) + 1
            wanted = float(str(totals["pilotage"])) / float(str(totals["equal-split"]))
            assert figures["ratio"] == pytest.approx(wanted, abs=1e-3)
            assert f"ratio {figures['ratio']}" in (out / "report.html").read_text()
        nothing_left(EXAMPLE, "four-tasks", meeting)


def test_a_quota_is_in_force_and_changed_in_place() -> None:
    assert version_here() in (1, 2)
    quota = make_quota("test-quota")
    try:
        quota.set(500)
        assert quota.milli() == 500
        process = subprocess.Popen(quota.command(["sleep", "60"]))
        until(lambda: str(process.pid) in quota.members.read_text().split())
        quota.set(150)
        assert quota.milli() == 150
        assert quota.end() == 1
        assert process.wait(10) == -signal.SIGKILL
    finally:
        quota.remove()
    assert not quota.path.exists()


# Failures


def test_a_worker_that_is_killed_at_work_is_started_again(tmp_path: Path, meeting: list[str]) -> None:
    job = write_job(tmp_path, {"one": "sleep 0.2", "two": "sleep 0.2"}, name="killed-worker")
    process = start(job, tmp_path / "out", "--supersteps", "12", *meeting)
    until(lambda: len(steps(tmp_path / "out")) >= 3)
    os.kill(worker(job, "two"), signal.SIGKILL)
    code, figures, err = finish(process)
    assert code == 0, err
    assert figures["supersteps"] == 12
    assert any("two: the worker died" in str(event) for event in figures["failures"])  # type: ignore[attr-defined]
    assert float(str(figures["lost_seconds"])) > 0
    nothing_left(job, "killed-worker", meeting)


def test_a_worker_that_hangs_is_started_again(tmp_path: Path, meeting: list[str]) -> None:
    hang = tmp_path / "hang"
    line = f"if [ -e {hang} ]; then rm {hang}; sleep 1000; fi; sleep 0.1"
    job = write_job(tmp_path, {"one": "sleep 0.1", "two": line}, name="hanging-worker")
    process = start(job, tmp_path / "out", "--supersteps", "6", "--timeout", "3", *meeting)
    until(lambda: len(steps(tmp_path / "out")) >= 1)
    hang.touch()
    code, figures, err = finish(process)
    assert code == 0, err
    assert [event for event in figures["failures"] if "two: the worker hangs" in event]  # type: ignore[attr-defined]
    assert float(str(figures["lost_seconds"])) > 2
    nothing_left(job, "hanging-worker", meeting)
    assert processes("sleep 1000") == []


def test_a_coordinator_that_is_killed_goes_on_where_it_was(tmp_path: Path, meeting: list[str]) -> None:
    job = write_job(tmp_path, {"one": "sleep 0.2", "two": "sleep 0.1"}, name="killed-coordinator")
    process = start(job, tmp_path / "out", "--supersteps", "10", *meeting)
    until(lambda: len(steps(tmp_path / "out")) >= 3)
    process.kill()
    process.communicate()
    before = steps(tmp_path / "out")
    code, figures, err = finish(start(job, tmp_path / "out", "--supersteps", "10", *meeting))
    assert code == 0, err
    assert figures["supersteps"] == 10
    after = steps(tmp_path / "out")
    assert after[: len(before)] == before
    assert [step["superstep"] for step in after] == list(range(10))
    nothing_left(job, "killed-coordinator", meeting)


def test_a_zookeeper_that_is_restarted(tmp_path: Path, keeper: ZooKeeperServer) -> None:
    job = write_job(tmp_path, {"one": "sleep 0.2", "two": "sleep 0.2"}, name="restarted-keeper")
    address = ["--zookeeper", keeper.address]
    process = start(job, tmp_path / "out", "--supersteps", "12", *address)
    until(lambda: len(steps(tmp_path / "out")) >= 3)
    keeper.stop()
    keeper.start()
    code, figures, err = finish(process)
    assert code == 0, err
    assert figures["supersteps"] == 12
    nothing_left(job, "restarted-keeper", address)


def test_work_that_always_fails_ends_the_job_with_the_reason(tmp_path: Path, meeting: list[str]) -> None:
    job = write_job(tmp_path, {"one": "true", "two": "exit 3"}, name="failing-work")
    code, figures, err = finish(start(job, tmp_path / "out", "--attempts", "2", *meeting))
    assert (code, figures) == (1, {})
    assert "superstep 0 failed 2 times for two: two: the work ended with code 3" in err
    assert "Traceback" not in err
    nothing_left(job, "failing-work", meeting)


def test_a_record_of_another_run_is_not_gone_on_with(tmp_path: Path) -> None:
    job = write_job(tmp_path, {"one": "true"}, name="other-settings")
    assert finish(start(job, tmp_path / "out", "--supersteps", "2"))[0] == 0
    code, _, err = finish(start(job, tmp_path / "out", "--supersteps", "3"))
    assert code == 2
    assert "is of a run with other settings" in err


def test_no_zookeeper_there(tmp_path: Path) -> None:
    job = write_job(tmp_path, {"one": "true"}, name="no-keeper")
    code, _, err = finish(start(job, tmp_path / "out", "--zookeeper", "127.0.0.1:1"))
    assert code == 2
    assert "no ZooKeeper answers at 127.0.0.1:1" in err
    nothing_left(job, "no-keeper", [])


def test_a_stranger_without_the_token_gets_no_orders(tmp_path: Path) -> None:
    from pilotage.gang.embedded import EmbeddedMeeting, EmbeddedSeat
    from pilotage.gang.meeting import MeetingError, Order, Report

    meeting = EmbeddedMeeting()
    try:
        stranger = EmbeddedSeat(meeting.address, "one", "guessed")
        with pytest.raises(MeetingError, match="the coordinator is gone"):
            stranger.take()
        stranger.close()
        seat = EmbeddedSeat(meeting.address, "one", meeting.token)
        meeting.order("one", Order(0, 0, 12.0))
        order = seat.take()
        assert order == Order(0, 0, 12.0)
        assert not seat.gone()
        seat.leave(Report("one", 0, 0, 0.5, 0))
        until(lambda: "one" in meeting.left("0.0"))
        assert meeting.left("0.0")["one"].seconds == 0.5
        meeting.close()
        until(seat.gone)
        seat.close()
    finally:
        meeting.close()
