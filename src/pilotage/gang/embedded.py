"""A meeting without any server: the coordinator listens on this machine, workers connect to it.

Lines of JSON. The first line of a worker has its task and a token that only processes started by the coordinator, or
told by the user, know.
"""

from __future__ import annotations

import hmac
import json
import secrets
import select
import socket
import threading
from contextlib import suppress

from pilotage.gang.meeting import BEFORE_ALL, MOST_BYTES, MeetingError, Order, Report, as_text, from_text

HELLO_SECONDS = 10.0


class EmbeddedMeeting:
    """Listens on 127.0.0.1; one thread takes in connections, one per worker reads what it says."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.token = secrets.token_hex(16)
        self._server = socket.create_server((host, port))
        self.address = "{}:{}".format(*self._server.getsockname()[:2])
        self._changed = threading.Condition()
        self._links: dict[str, socket.socket] = {}
        self._orders: dict[str, Order] = {}  # given, no report yet; for workers that come (again) too
        self._entered: dict[str, set[str]] = {}
        self._left: dict[str, dict[str, Report]] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._server.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        link.settimeout(HELLO_SECONDS)
        reader = link.makefile("rb")
        task = ""
        try:
            hello = json.loads(reader.readline(MOST_BYTES))
            if not hmac.compare_digest(str(hello["token"]), self.token):
                return
            task = str(hello["task"])
            link.settimeout(None)
            with self._changed:
                self._links[task] = link
                waiting = self._orders.get(task)
                self._changed.notify_all()
            if waiting is not None:
                self._say(link, as_text(waiting))
            for line in iter(lambda: reader.readline(MOST_BYTES), b""):
                self._take(task, line)
        except (OSError, ValueError, KeyError, TypeError, MeetingError):
            pass  # a worker that is gone, or says what cannot be read, counts as gone
        finally:
            with self._changed:
                if self._links.get(task) is link:
                    del self._links[task]
                self._changed.notify_all()
            with suppress(OSError):
                link.close()

    def _take(self, task: str, line: bytes) -> None:
        content = json.loads(line)
        with self._changed:
            if content.get("kind") == "Entered":
                self._entered.setdefault(str(content["key"]), set()).add(task)
            else:
                report = from_text(line)
                if isinstance(report, Report) and report.task == task:
                    given = self._orders.get(task)
                    if given is not None and given.key == report.key:
                        del self._orders[task]
                    self._left.setdefault(report.key, {})[task] = report
            self._changed.notify_all()

    def order(self, task: str, order: Order) -> None:
        with self._changed:
            self._orders[task] = order
            link = self._links.get(task)
        if link is not None:
            self._say(link, as_text(order))

    def _say(self, link: socket.socket, text: str) -> None:
        with suppress(OSError):  # a worker that is gone is noticed where its report is missing
            link.sendall(text.encode() + b"\n")

    def entered(self, key: str) -> set[str]:
        with self._changed:
            return set(self._entered.get(key, ()))

    def open(self, key: str) -> None:
        with self._changed:
            links = [self._links[task] for task in self._entered.get(key, ()) if task in self._links]
        for link in links:
            self._say(link, json.dumps({"kind": "Open", "key": key}))

    def left(self, key: str) -> dict[str, Report]:
        with self._changed:
            return dict(self._left.get(key, {}))

    def wait(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait(seconds)

    def forget(self, key: str) -> None:
        with self._changed:
            self._entered.pop(key, None)
            self._left.pop(key, None)
            self._orders = {task: order for task, order in self._orders.items() if order.key != key}

    def close(self) -> None:
        self._server.close()
        with self._changed:
            links = list(self._links.values())
        for link in links:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)


class EmbeddedSeat:
    """A worker's connection."""

    def __init__(self, address: str, task: str, token: str) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._link = socket.create_connection((host, int(port)), timeout=HELLO_SECONDS)
        except (OSError, ValueError) as error:
            raise MeetingError(f"no coordinator at {address}: {error}") from error
        self._link.settimeout(None)
        self._reader = self._link.makefile("rb")
        self._newest = BEFORE_ALL
        self._say({"kind": "Hello", "task": task, "token": token})

    def _say(self, content: dict[str, object]) -> None:
        try:
            self._link.sendall(json.dumps(content).encode() + b"\n")
        except OSError as error:
            raise MeetingError("the coordinator is gone") from error

    def _line(self) -> bytes:
        try:
            line = self._reader.readline(MOST_BYTES)
        except OSError as error:
            raise MeetingError("the coordinator is gone") from error
        if not line:
            raise MeetingError("the coordinator is gone")
        return line

    def take(self) -> Order:
        while True:
            line = self._line()
            if json.loads(line).get("kind") != "Order":
                continue  # opened for an attempt that is over
            order = from_text(line)
            if isinstance(order, Order) and order.follows(self._newest):
                self._newest = order
                return order

    def enter(self, order: Order) -> None:
        self._say({"kind": "Entered", "key": order.key})
        while True:
            content = json.loads(self._line())
            if content.get("kind") == "Open" and content.get("key") == order.key:
                return
            if content.get("kind") == "Order" and from_text(json.dumps(content)) != order:
                raise MeetingError("the coordinator gave another order")

    def leave(self, report: Report) -> None:
        self._say(json.loads(as_text(report)))

    def gone(self) -> bool:
        """Whether the connection was closed; what is said meanwhile is read later."""
        readable, _, _ = select.select([self._link], [], [], 0)
        if not readable:
            return False
        try:
            return not self._link.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def close(self) -> None:
        with suppress(OSError):
            self._link.close()
