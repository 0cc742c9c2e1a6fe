"""A policy that was learned elsewhere takes the place of the one in use, between two decisions.

Learning is another process; it says by a link which policy is in use. Loading and preparing happen in a thread, so
neither a decision nor a binding waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pilotage.kube.many import first_of
from pilotage.model.errors import PilotageError
from pilotage.policies.api import Policy, prepared
from pilotage.policies.registry import find_policy
from pilotage.scheduler.run import Scheduler

LOOK_SECONDS = 2.0


@dataclass
class Succession:
    """Follows a link to a policy's directory, for one profile of a scheduler."""

    scheduler: Scheduler
    profile: str
    link: Path
    say: Callable[[str], None] = lambda text: None
    seconds: float = LOOK_SECONDS
    taken: int = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop. A policy that cannot be loaded is told, and the one in use stays."""
        seen: Path | None = None
        while not stop.is_set():
            found = self.link.resolve() if self.link.exists() else None
            if found is not None and found != seen and self.scheduler.cache.state.nodes:
                seen = found
                try:
                    await self._take(found)
                except PilotageError as error:
                    self.say(f"{found} does not take over: {error}")
            await first_of(stop, timeout=self.seconds)

    async def _take(self, found: Path) -> None:
        scheduler = self.scheduler
        policy: Policy = await asyncio.to_thread(find_policy, str(found))
        while True:
            mix = scheduler.mixture.now()  # here, not in the thread: it reads what informers change
            ready = await asyncio.to_thread(prepared, policy, mix)
            if mix.models == scheduler.cache.state.models:  # policies know them by number
                break
        scheduler.succeed(self.profile, policy, ready, mix)
        self.taken += 1
        self.say(f"{policy.name} of {found} takes over")
