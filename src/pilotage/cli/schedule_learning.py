"""`pilotage schedule --learn DIR`: another process learns from the cluster; what is better takes over here."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.policies.api import Policy
    from pilotage.scheduler.run import Scheduler

END_SECONDS = 20.0


def check_learning(policies: dict[str, Policy]) -> None:
    """Whether the first profile's policy is of a kind that can be tuned; before anything is started."""
    from pilotage.policies.priced import Priced
    from pilotage.policies.rehearsed import Rehearsed

    name, policy = next(iter(policies.items()))
    if not isinstance(policy, Priced | Rehearsed):
        expected = "a first profile with pilotage-pack, pilotage-balance, or a policy tuned from them"
        raise InputError(f"{policy.name} of profile {name!r} cannot be tuned", field="--learn", expected=expected)


@asynccontextmanager
async def learning_beside(
    scheduler: Scheduler,
    learn: tuple[Path, str, float] | None,
    cluster: tuple[Path | None, str | None],
    stop: asyncio.Event,
    say: Callable[[str], None],
) -> AsyncIterator[None]:
    """While the block lasts. `learn`: directory, text of the policy to begin with, seconds between attempts."""
    if learn is None:
        yield
        return
    from pilotage.scheduler.succession import Succession

    directory, start, every = learn
    profile, policy = next(iter(scheduler.profiles.items()))
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pilotage", "train", "cluster", "--with-parent", "--out", str(directory)]
    command += ["--start", start, "--every", f"{every:g}"]
    command += ["--objective", "balance" if policy.name.startswith("pilotage-balance") else "packing"]
    for option, value in zip(("--kubeconfig", "--context"), cluster, strict=True):
        command += [option, str(value)] if value is not None else []
    with (directory / "learning.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    say(f"learns in process {process.pid}; its words are in {directory / 'learning.log'}")
    following = asyncio.create_task(Succession(scheduler, profile, directory / "current", say).run(stop))
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        process.terminate()
        await asyncio.to_thread(_ended, process)


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:  # in the middle of a run: nothing of it is needed
        process.kill()
        process.wait()
