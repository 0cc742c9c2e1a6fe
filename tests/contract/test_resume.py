"""A comparison that is killed goes on where it was, and ends with the bytes of an undisturbed one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from contract.commands import SCRIPT, installed_pilotage
from pilotage.sim.run_store import PLACE

COMPARISON = ("compare", "--trace", "openb-like", "--policies", "fgd,best-fit,random", "--seeds", "1-8", "--jobs", "2")
RUNS = 24


def finished_runs(out: Path) -> int:
    return len(list((out / PLACE).glob("[!.]*.json"))) if (out / PLACE).exists() else 0


def killed_after(runs: int, out: Path) -> int:
    """Starts the comparison, kills it and its processes when `runs` runs are stored; how many there are then."""
    process = subprocess.Popen(
        [SCRIPT, *COMPARISON, "--out", out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    workers = 0
    while process.poll() is None and finished_runs(out) < runs:
        workers = max(workers, len(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()))
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it had ended before it could be killed"
    assert workers >= 2, "there were no processes beside it"
    return finished_runs(out)


def still_there(processes: set[int]) -> set[int]:
    """Those that have neither ended nor are waiting to be collected."""
    states = {pid: Path(f"/proc/{pid}/stat") for pid in processes}
    return {
        pid for pid, stat in states.items() if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
    }


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_the_one_that_started_them(tmp_path: Path, signal_number: int) -> None:
    process = subprocess.Popen([SCRIPT, *COMPARISON, "--out", tmp_path], stdout=subprocess.DEVNULL)
    while process.poll() is None and finished_runs(tmp_path) < 3:
        time.sleep(0.001)
    children = set(map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()))
    assert len(children) >= 2
    process.send_signal(signal_number)
    process.wait(timeout=30)
    until = time.monotonic() + 30
    while still_there(children) and time.monotonic() < until:
        time.sleep(0.01)
    assert still_there(children) == set()


def contents(out: Path) -> dict[str, bytes]:
    """All files but the measured times."""
    files = (path for path in out.rglob("*") if path.is_file())
    named = {str(path.relative_to(out)): path.read_bytes() for path in files}
    return {name: data for name, data in named.items() if not name.endswith(("timings.json", "seconds.jsonl"))}


def test_killed_three_times_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    undisturbed, disturbed = tmp_path / "one" / "out", tmp_path / "two" / "out"
    assert installed_pilotage(*COMPARISON, "--out", undisturbed).code == 0
    stored = 0
    for _ in range(3):
        wanted = random.randint(stored + 1, stored + (RUNS - stored) // 3)  # noqa: S311
        stored = killed_after(wanted, disturbed)
        assert wanted <= stored < RUNS
    done = installed_pilotage(*COMPARISON, "--out", disturbed)
    assert done.code == 0, done.err
    assert f"{stored} runs were there already" in done.err
    expected, found = contents(undisturbed), contents(disturbed)
    assert expected.keys() == found.keys()
    assert {name for name in expected if expected[name] != found[name]} == set()
    assert len([name for name in expected if name.startswith(PLACE) and name.endswith(".json")]) == RUNS
