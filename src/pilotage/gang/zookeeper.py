"""A meeting in ZooKeeper, through kazoo: a queue of orders per task, and a double barrier per superstep.

    /pilotage-gang/JOB/RUN/coordinator          ephemeral: the coordinator lives
    /pilotage-gang/JOB/RUN/orders/TASK/...      one per order
    /pilotage-gang/JOB/RUN/steps/KEY/in/TASK    ephemeral: has entered
    /pilotage-gang/JOB/RUN/steps/KEY/open       all have entered
    /pilotage-gang/JOB/RUN/steps/KEY/out/TASK   has left, with its report

Short losses of the connection are waited out: operations are repeated until the session is back or has ended. A server
that stays away longer than the patience of the run is given up: from then on every operation fails at once.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from pilotage.gang.meeting import BEFORE_ALL, MeetingError, Order, Report, as_text, from_text
from pilotage.model.errors import InputError

ROOT = "/pilotage-gang"
SESSION_SECONDS = 10.0
PATIENCE_SECONDS = 60.0  # for a server that restarts


def _client(hosts: str, patience: float) -> Any:
    try:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError
        from kazoo.retry import KazooRetry
    except ImportError as error:
        raise InputError("kazoo is not installed", expected="pip install 'pilotage[gang]'") from error
    retry = KazooRetry(max_tries=-1, delay=0.2, backoff=1.5, max_delay=2.0, deadline=patience)
    client = KazooClient(
        hosts=hosts,
        timeout=SESSION_SECONDS,
        # Without its deadline a request that is made while the server is away waits for it for ever.
        connection_retry=KazooRetry(max_tries=-1, delay=0.2, max_delay=1.0, deadline=patience),
        command_retry=retry,
    )
    try:
        client.start(timeout=SESSION_SECONDS)
    except KazooTimeoutError as error:
        client.stop()
        client.close()
        raise InputError(f"no ZooKeeper answers at {hosts}", expected="HOST:PORT of one that runs") from error
    return client


class _Place:
    """Paths of one job, and operations that wait out a lost connection."""

    def __init__(self, hosts: str, job: str, run: str, patience: float) -> None:
        self._hosts, self._patience = hosts, patience
        self.client = _client(hosts, patience)
        self.job = f"{ROOT}/{job}"
        self.base = f"{self.job}/{run}"

    def path(self, *parts: str) -> str:
        return "/".join((self.base, *parts))

    def make(self, path: str, data: str = "", *, ephemeral: bool = False) -> None:
        """The coordinator's: what it is in is made too."""
        self._create(path, data, makepath=True, ephemeral=ephemeral)

    def add(self, path: str, data: str = "", *, ephemeral: bool = False) -> bool:
        """A worker's: whether there is still what it belongs into. What the coordinator removed is not made again."""
        from kazoo.exceptions import NoNodeError

        try:
            self._create(path, data, ephemeral=ephemeral)
        except NoNodeError:
            return False
        return True

    def _create(self, path: str, data: str, **kind: bool) -> None:
        from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

        try:
            self.client.retry(self.client.create, path, data.encode(), **kind)
        except NodeExistsError:
            pass  # said before; or the answer to it was lost
        except NoNodeError:
            raise
        except KazooException as error:
            raise self._failed(error) from error

    def names(self, path: str) -> list[str]:
        from kazoo.exceptions import KazooException, NoNodeError

        try:
            return list(self.client.retry(self.client.get_children, path))
        except NoNodeError:
            return []
        except KazooException as error:
            raise self._failed(error) from error

    def text(self, path: str) -> bytes | None:
        from kazoo.exceptions import KazooException, NoNodeError

        try:
            return bytes(self.client.retry(self.client.get, path)[0])
        except NoNodeError:
            return None
        except KazooException as error:
            raise self._failed(error) from error

    def there(self, path: str) -> bool:
        from kazoo.exceptions import KazooException

        try:
            return self.client.retry(self.client.exists, path) is not None
        except KazooException as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> MeetingError:
        from kazoo.exceptions import ConnectionClosedError
        from kazoo.retry import RetryFailedError

        if isinstance(error, ConnectionClosedError | RetryFailedError):
            return MeetingError(f"ZooKeeper at {self._hosts} was away for {self._patience:g} s and is given up")
        return MeetingError(f"ZooKeeper: {error!r}")

    def remove(self, path: str) -> None:
        from kazoo.exceptions import KazooException

        with suppress(KazooException):
            self.client.retry(self.client.delete, path, recursive=True)

    def remove_empty(self, path: str) -> None:
        from kazoo.exceptions import KazooException

        with suppress(KazooException):  # another run of the job is in it
            self.client.retry(self.client.delete, path)

    def close(self) -> None:
        self.client.stop()
        self.client.close()


class ZooKeeperMeeting:
    """The coordinator's side. What a killed run of the same directory left is cleared away first.

    A run is called MARK-CHANCE: the mark of its directory, and a name of its own, so workers of a killed one take no
    orders of the next. Other runs of the job are left alone.
    """

    def __init__(self, hosts: str, job: str, run: str, patience: float = PATIENCE_SECONDS) -> None:
        self._place = _Place(hosts, job, run, patience)
        self.address = hosts
        mark = run.rpartition("-")[0]
        for name in self._place.names(self._place.job):
            if name.rpartition("-")[0] == mark:
                self._place.remove(f"{self._place.job}/{name}")
        self._place.make(self._place.path("coordinator"), ephemeral=True)
        self._pause = threading.Event()
        self._made: set[str] = set()  # barriers of attempts that are under way

    def order(self, task: str, order: Order) -> None:
        # Only the newest order counts: what an earlier worker left is taken away.
        if not order.ends and order.key not in self._made:
            for side in ("in", "out"):
                self._place.make(self._place.path("steps", order.key, side))
            self._made.add(order.key)
        queue = self._place.path("orders", task)
        for name in self._place.names(queue):
            self._place.remove(f"{queue}/{name}")
        self._place.make(f"{queue}/{order.superstep + 1:08d}.{order.attempt:04d}", as_text(order))

    def entered(self, key: str) -> set[str]:
        return set(self._place.names(self._place.path("steps", key, "in")))

    def open(self, key: str) -> None:
        self._place.make(self._place.path("steps", key, "open"))

    def left(self, key: str) -> dict[str, Report]:
        found = {}
        for task in self._place.names(self._place.path("steps", key, "out")):
            text = self._place.text(self._place.path("steps", key, "out", task))
            report = from_text(text) if text is not None else None
            if isinstance(report, Report):
                found[task] = report
        return found

    def wait(self, seconds: float) -> None:
        self._pause.wait(min(seconds, 0.05))
        # A session that ended took the sign of life with it.
        coordinator = self._place.path("coordinator")
        if not self._place.there(coordinator):
            self._place.make(coordinator, ephemeral=True)

    def forget(self, key: str) -> None:
        self._made.discard(key)
        self._place.remove(self._place.path("steps", key))

    def close(self) -> None:
        self._place.remove(self._place.base)
        self._place.remove_empty(self._place.job)
        self._place.close()


class ZooKeeperSeat:
    """A worker's side."""

    def __init__(self, hosts: str, job: str, run: str, task: str, patience: float = PATIENCE_SECONDS) -> None:
        self._place, self._task = _Place(hosts, job, run, patience), task
        self._pause = threading.Event()
        self._missed = 0
        self._newest = BEFORE_ALL

    def take(self) -> Order:
        queue = self._place.path("orders", self._task)
        while True:
            for name in sorted(self._place.names(queue)):
                text = self._place.text(f"{queue}/{name}")
                if text is None:
                    continue
                order = from_text(text)
                self._place.remove(f"{queue}/{name}")
                if isinstance(order, Order) and order.follows(self._newest):
                    self._newest = order
                    return order
            self._look()

    def _look(self) -> None:
        """Waits a moment; without a coordinator for some seconds there is nothing to wait for."""
        if self.gone():
            raise MeetingError("the coordinator is gone")
        self._pause.wait(0.05)

    def enter(self, order: Order) -> None:
        mine = self._place.path("steps", order.key, "in", self._task)
        self._enter(mine)
        while not self._place.there(self._place.path("steps", order.key, "open")):
            self._look()
            if not self._place.there(mine):  # a session ended on the way
                self._enter(mine)

    def _enter(self, mine: str) -> None:
        if not self._place.add(mine, ephemeral=True):
            raise MeetingError("the coordinator is gone, or goes on without this worker")

    def leave(self, report: Report) -> None:
        # Where the attempt is over already, the report was taken and its answer lost, or nobody waits for it.
        self._place.add(self._place.path("steps", report.key, "out", self._task), as_text(report))

    def gone(self) -> bool:
        """Missing at several looks in a row: a restarted server needs a moment to give the sign back."""
        self._missed = 0 if self._place.there(self._place.path("coordinator")) else self._missed + 1
        return self._missed > 60

    def close(self) -> None:
        self._place.close()
