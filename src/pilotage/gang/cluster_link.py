"""A client of an API server for code that does not wait asynchronously: a thread of its own talks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from pilotage.kube.access import Access
from pilotage.kube.client import Client

T = TypeVar("T")


@dataclass(frozen=True)
class ClusterPlace:
    """Where the pods go, and how long things may take there."""

    access: Access
    namespace: str
    image: str  # with pilotage and the programs of the tasks
    scheduler: str = "pilotage"
    admit_seconds: float = 600.0
    """For pods to run, a gang as a whole, and for deleted ones to go."""
    resize_seconds: float = 60.0
    """For the kubelets to carry a division out."""


class ClusterLink:
    """Carries out coroutines that use its client, one call at a time."""

    def __init__(self, access: Access) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.client = Client(access)
        self.do(self.client.__aenter__())

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Its answer; the work itself decides how long it may take."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self.do(self.client.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
