"""Real runs: workers, quotas, both ways to meet, and what is done when something fails."""

from __future__ import annotations

import itertools
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
from pilotage.gang.crew import having_mark
from pilotage.gang.job import read_job
from pilotage.gang.own_directory import mark_of
from pilotage.gang.quota import ROOT, make_quota, version_here

PATIENCE = 120.0  # seconds until a test gives up; nothing is measured by it
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


def nothing_left(job: Path, out: Path, keeper: list[str]) -> None:
    """Of this run: others may be under way on the machine."""
    mark = mark_of(out)
    until(lambda: not any(having_mark(f"{mark}/{task}") for task in read_job(job).names))
    base = ROOT if (ROOT / "cgroup.controllers").exists() else ROOT / "cpu"
    assert [path.name for path in base.glob(f"pilotage-*-{mark}-*")] == []
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
        nothing_left(EXAMPLE, out, meeting)


def test_a_quota_is_in_force_and_changed_in_place() -> None:
    assert version_here() in (1, 2)
    quota = make_quota(f"test-quota-{os.getpid()}")
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


def at_try(number: int, place: Path, then: str) -> str:
    """A line that does something the so-manieth time it is run, and every time works for a moment.

    What goes wrong is part of the work itself: nothing has to happen in time.
    """
    count = place / "tries"
    return f"echo >> {count}; if [ $(wc -l < {count}) = {number} ]; then {then}; fi; sleep 0.1"


def forever() -> str:
    """A command that ends when it is ended; no other test has one of this name."""
    return f"sleep {10_000_000 + next(_NUMBERS)}.{os.getpid()}"


_NUMBERS = itertools.count()


def test_a_worker_that_is_killed_at_work_is_started_again(tmp_path: Path, meeting: list[str]) -> None:
    left = forever()
    line = at_try(3, tmp_path, f"kill -KILL $PPID; {left}")
    job = write_job(tmp_path, {"one": "sleep 0.1", "two": line}, name="killed-worker")
    out = tmp_path / "out"
    code, figures, err = finish(start(job, out, "--supersteps", "6", *meeting))
    assert code == 0, err
    assert figures["supersteps"] == 6
    assert figures["failures"] == ["two: the worker died at work, started again"]
    assert float(str(figures["lost_seconds"])) > 0
    nothing_left(job, out, meeting)
    assert processes(left) == []


def test_a_worker_that_hangs_is_started_again(tmp_path: Path, meeting: list[str]) -> None:
    left = forever()
    job = write_job(tmp_path, {"one": "sleep 0.1", "two": at_try(2, tmp_path, left)}, name="hanging-worker")
    out = tmp_path / "out"
    code, figures, err = finish(start(job, out, "--supersteps", "6", "--timeout", "3", *meeting))
    assert code == 0, err
    assert "two: the worker hangs at work, started again" in figures["failures"]  # type: ignore[operator]
    assert float(str(figures["lost_seconds"])) > 2
    nothing_left(job, out, meeting)
    assert processes(left) == []


@pytest.mark.parametrize("then", ["kill -KILL $PPID; exit 0", "sleep 1000"])
def test_without_quotas_no_process_is_left_either(tmp_path: Path, then: str) -> None:
    left = forever()
    line = at_try(2, tmp_path, f"setsid {left} & {left} & {then}")
    job = write_job(tmp_path, {"one": "sleep 0.1", "two": line}, name="no-quota")
    out = tmp_path / "out"
    code, figures, err = finish(start(job, out, "--supersteps", "4", "--timeout", "3", "--quota", "none"))
    assert code == 0, err
    assert len(figures["failures"]) == 1  # type: ignore[arg-type]
    assert processes(left) == []


def test_a_coordinator_that_is_killed_goes_on_where_it_was(tmp_path: Path, meeting: list[str]) -> None:
    go, out = tmp_path / "go", tmp_path / "out"
    line = at_try(4, tmp_path, f"while [ ! -e {go} ]; do sleep 0.05; done")
    job = write_job(tmp_path, {"one": "sleep 0.1", "two": line}, name="killed-coordinator")
    process = start(job, out, "--supersteps", "8", *meeting)
    until(lambda: len(steps(out)) == 3)
    process.kill()
    process.communicate()
    go.touch()
    before = steps(out)
    code, figures, err = finish(start(job, out, "--supersteps", "8", *meeting))
    assert code == 0, err
    assert figures["supersteps"] == 8
    after = steps(out)
    assert after[:3] == before
    assert [step["superstep"] for step in after] == list(range(8))
    said = str(figures["failures"])
    assert said.count("the coordinator was started again") == 1
    assert "after superstep 2 was recorded" in said
    assert figures["interrupted_seconds"] == pytest.approx(after[3]["interrupted_seconds"], abs=1e-3)
    assert "because the coordinator ended" in (out / "report.html").read_text()
    nothing_left(job, out, meeting)


def test_a_coordinator_that_is_asked_to_end_leaves_nothing(tmp_path: Path, meeting: list[str]) -> None:
    left, out = forever(), tmp_path / "out"
    job = write_job(tmp_path, {"one": "sleep 0.1", "two": at_try(2, tmp_path, left)}, name="ended-coordinator")
    process = start(job, out, *meeting)
    until(lambda: bool(processes(left)))
    process.terminate()
    code, figures, err = finish(process)
    assert (code, figures) == (128 + signal.SIGTERM, {})
    assert "Traceback" not in err
    nothing_left(job, out, meeting)
    assert processes(left) == []


def test_a_zookeeper_that_is_restarted(tmp_path: Path, keeper: ZooKeeperServer) -> None:
    go, out = tmp_path / "go", tmp_path / "out"
    line = at_try(4, tmp_path, f"while [ ! -e {go} ]; do sleep 0.05; done")
    job = write_job(tmp_path, {"one": "sleep 0.1", "two": line}, name="restarted-keeper")
    address = ["--zookeeper", keeper.address]
    process = start(job, out, "--supersteps", "8", *address)
    until(lambda: len(steps(out)) == 3)
    keeper.stop()
    go.touch()
    keeper.start()
    code, figures, err = finish(process)
    assert code == 0, err
    assert figures["supersteps"] == 8
    nothing_left(job, out, address)


def test_a_zookeeper_that_never_comes_back(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path / "server")
    server.start()
    left, out = forever(), tmp_path / "out"
    job = write_job(tmp_path, {"one": "sleep 0.1", "two": at_try(3, tmp_path, left)}, name="gone-keeper")
    try:
        process = start(job, out, "--supersteps", "8", "--zookeeper", server.address, "--patience", "4")
        until(lambda: len(steps(out)) == 2 and (tmp_path / "tries").read_text().count("\n") == 3)
    finally:
        server.close()
    began = time.monotonic()
    code, figures, err = finish(process)
    assert (code, figures) == (1, {})
    assert time.monotonic() - began < 40  # the patience, and a moment to end workers
    assert f"ZooKeeper at {server.address} was away for 4 s and is given up; superstep 2 is lost" in err
    assert "2 of 8 are recorded" in err
    assert "Traceback" not in err
    assert len(steps(out)) == 2
    nothing_left(job, out, [])
    assert processes(left) == []


def test_what_was_left_in_a_zookeeper_that_was_given_up_goes_with_the_next_run(tmp_path: Path) -> None:
    go, out = tmp_path / "go", tmp_path / "out"
    server = ZooKeeperServer(tmp_path / "server")
    server.start()
    try:
        line = at_try(3, tmp_path, f"while [ ! -e {go} ]; do sleep 0.05; done")
        job = write_job(tmp_path, {"one": "sleep 0.1", "two": line}, name="back-again")
        options = ("--supersteps", "5", "--zookeeper", server.address, "--patience", "3")
        process = start(job, out, *options)
        until(lambda: len(steps(out)) == 2)
        server.stop()
        assert finish(process)[0] == 1
        go.touch()
        server.start()
        code, figures, err = finish(start(job, out, *options))
        assert code == 0, err
        assert figures["supersteps"] == 5
        nothing_left(job, out, ["--zookeeper", server.address])
    finally:
        server.close()


def test_two_runs_of_a_job_side_by_side(tmp_path: Path, meeting: list[str]) -> None:
    job = write_job(tmp_path, {"one": "sleep 0.2", "two": "sleep 0.1"}, name="twice")
    places = [tmp_path / "first", tmp_path / "second"]
    both = [start(job, out, "--supersteps", "6", *meeting) for out in places]
    for process in both:
        code, figures, err = finish(process)
        assert code == 0, err
        assert figures["failures"] == []
    for out in places:
        nothing_left(job, out, meeting)


def test_two_runs_in_one_directory_are_refused(tmp_path: Path) -> None:
    go, out = tmp_path / "go", tmp_path / "out"
    line = f"while [ ! -e {go} ]; do sleep 0.05; done"
    job = write_job(tmp_path, {"one": line}, name="same-directory")
    process = start(job, out, "--supersteps", "1")
    until(lambda: bool(processes(line)))
    code, _, err = finish(start(job, out, "--supersteps", "1"))
    assert code == 2
    assert f"{out}, --out: another run is writing there" in err
    go.touch()
    assert finish(process)[0] == 0


def test_work_that_always_fails_ends_the_job_with_the_reason(tmp_path: Path, meeting: list[str]) -> None:
    job = write_job(tmp_path, {"one": "true", "two": "exit 3"}, name="failing-work")
    code, figures, err = finish(start(job, tmp_path / "out", "--attempts", "2", *meeting))
    assert (code, figures) == (1, {})
    assert "superstep 0 failed 2 times for two: two: the work ended with code 3" in err
    assert "Traceback" not in err
    nothing_left(job, tmp_path / "out", meeting)


def test_a_record_of_another_run_is_not_gone_on_with(tmp_path: Path) -> None:
    job = write_job(tmp_path, {"one": "true"}, name="other-settings")
    assert finish(start(job, tmp_path / "out", "--supersteps", "2"))[0] == 0
    code, _, err = finish(start(job, tmp_path / "out", "--supersteps", "3"))
    assert code == 2
    assert "is of a run with other settings: supersteps" in err


@pytest.mark.parametrize("changed", ["job.yaml", "one.csv", "profile.csv"])
def test_a_job_that_was_changed_is_not_gone_on_with(tmp_path: Path, changed: str) -> None:
    job = write_job(tmp_path, {"one": "true"}, name="changed-job")
    assert finish(start(job, tmp_path / "out", "--supersteps", "2"))[0] == 0
    path = tmp_path / changed
    old, new = {"job.yaml": ("true", "false"), "one.csv": (",3\n", ",4\n"), "profile.csv": ("0.11", "0.12")}[changed]
    path.write_text(path.read_text().replace(old, new))
    code, _, err = finish(start(job, tmp_path / "out", "--supersteps", "2"))
    assert code == 2
    assert "other settings: content of the job file or of the files it names" in err


def test_no_zookeeper_there(tmp_path: Path) -> None:
    job = write_job(tmp_path, {"one": "true"}, name="no-keeper")
    code, _, err = finish(start(job, tmp_path / "out", "--zookeeper", "127.0.0.1:1"))
    assert code == 2
    assert "no ZooKeeper answers at 127.0.0.1:1" in err
    nothing_left(job, tmp_path / "out", [])


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


def test_a_worker_that_is_started_again_takes_no_old_order() -> None:
    from pilotage.gang.embedded import EmbeddedMeeting, EmbeddedSeat
    from pilotage.gang.meeting import Order, Report

    meeting = EmbeddedMeeting()
    try:
        first = EmbeddedSeat(meeting.address, "one", meeting.token)
        meeting.order("one", Order(3, 0, 12.0))
        first.take()
        first.close()  # as a worker that is killed
        meeting.forget("3.0")
        again = EmbeddedSeat(meeting.address, "one", meeting.token)
        until(lambda: "one" in meeting._links)  # connected before the next order is given
        meeting.order("one", Order(3, 1, 12.0))
        meeting.order("one", Order(3, 1, 12.0))  # said twice, carried out once
        assert again.take() == Order(3, 1, 12.0)
        again.leave(Report("one", 3, 0, 0.5, 0))  # on another order than the one that stands
        until(lambda: "one" in meeting.left("3.0"))
        assert meeting._orders == {"one": Order(3, 1, 12.0)}
        meeting.order("one", Order(4, 0, 13.0))
        assert again.take() == Order(4, 0, 13.0)
        again.close()
    finally:
        meeting.close()


def test_a_worker_makes_no_barrier_anew(keeper: ZooKeeperServer) -> None:
    from pilotage.gang.meeting import MeetingError, Order, Report
    from pilotage.gang.zookeeper import ZooKeeperMeeting, ZooKeeperSeat

    meeting = ZooKeeperMeeting(keeper.address, "barriers", "mark-1")
    seat = ZooKeeperSeat(keeper.address, "barriers", "mark-1", "one")
    meeting.order("one", Order(0, 0, 12.0))
    order = seat.take()
    meeting.forget("0.0")
    with pytest.raises(MeetingError, match="goes on without this worker"):
        seat.enter(order)
    meeting.close()
    seat.leave(Report("one", 0, 0, 0.5, 0))
    assert seat._place.names("/pilotage-gang") == []
    seat.close()
