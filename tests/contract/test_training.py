"""A training that is killed goes on where it was, and ends with the bytes of an undisturbed one."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from contract.commands import SCRIPT, installed_pilotage

COURSE = ["--nodes", "3-5", "--pods-per-node", "6", "--copies", "16", "--hidden", "16"]
COURSE += ["--evaluate-every", "128", "--validation-episodes", "4", "--name", "killed"]
OF_AGENT = {
    "dqn": ["--steps", "2048", "--buffer", "1000", "--batch", "32", "--update-every", "16"],
    "ac-gnn": ["--steps", "1024"],
}
VALIDATIONS = {"dqn": 17, "ac-gnn": 9}


def validations(run: Path) -> int:
    log = run / "train.log"
    return log.read_text().count(" step ") - log.read_text().count("from step") if log.exists() else 0


def killed_after(words: list[object], run: Path, wanted: int) -> None:
    """Starts the command and kills it when the run has `wanted` validations."""
    process = subprocess.Popen([SCRIPT, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and validations(run) < wanted:
        time.sleep(0.001)
    process.kill()
    process.wait()
    assert process.returncode == -signal.SIGKILL, "it had ended before it could be killed"


@pytest.mark.parametrize("agent", OF_AGENT)
def test_killed_twice_it_ends_with_the_same_bytes(agent: str, tmp_path: Path) -> None:
    command = ["train", agent, *COURSE, *OF_AGENT[agent]]
    undisturbed, disturbed = tmp_path / "one" / "killed", tmp_path / "two" / "killed"
    done = installed_pilotage(*command, "--out", undisturbed.parent)
    assert done.code == 0, done.err
    assert validations(undisturbed) == VALIDATIONS[agent]
    resume = ["train", agent, "--resume", disturbed]
    first = random.randint(1, VALIDATIONS[agent] // 2)  # noqa: S311
    killed_after([*command, "--out", disturbed.parent], disturbed, first)
    killed_after(resume, disturbed, first + random.randint(1, VALIDATIONS[agent] // 4))  # noqa: S311
    done = installed_pilotage(*resume)
    assert done.code == 0, done.err
    for name in ("settings.json", "curve.csv", "summary.json", "state.safetensors"):
        assert (undisturbed / name).read_bytes() == (disturbed / name).read_bytes(), name
    for name in ("policy.json", "weights.safetensors"):
        assert (undisturbed / "best" / name).read_bytes() == (disturbed / "best" / name).read_bytes(), name
    events = EventAccumulator(str(disturbed / "events"))
    events.Reload()
    assert len(events.Scalars("validation_return")) == VALIDATIONS[agent]
