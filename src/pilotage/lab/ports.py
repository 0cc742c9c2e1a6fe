"""Ports of this machine's loopback address."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

from pilotage.model.errors import InputError

LOOPBACK = "127.0.0.1"
LOWEST, USUAL_OUTGOING = 20_000, 32_768


def free_ports(count: int, others: Collection[int] = ()) -> list[int]:
    """Different ports that nobody uses now, and none of `others`: a lab that is starting has not taken its own yet.

    None of those that the system gives to outgoing connections: while a program is restarted, a client that tries to
    reach it could be given the very port, and even connect to itself.
    """
    found: list[int] = []
    candidates = list(range(LOWEST, max(_first_outgoing(), LOWEST + 1000)))
    random.shuffle(candidates)  # labs of others start at the same time
    with ExitStack() as stack:  # all are held until the last is found, so none is given twice
        for port in candidates:
            if len(found) == count:
                return found
            one = stack.enter_context(socket.socket())
            if port not in others and _bound(one, port):
                found.append(port)
    raise InputError(f"no {count} free ports from {LOWEST} on", expected="fewer labs at a time")


def _first_outgoing() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return USUAL_OUTGOING


def _bound(one: socket.socket, port: int) -> bool:
    try:
        one.bind((LOOPBACK, port))
    except OSError:
        return False
    return True


def expect_free(port: int, field: str) -> None:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended are no obstacle
        try:
            one.bind((LOOPBACK, port))
        except OSError as error:
            problem = f"port {port} of {LOOPBACK}: {error.strerror}"
            raise InputError(
                problem, field=field, expected="a port that nobody uses, or none to get a free one"
            ) from None


def is_free(port: int) -> bool:
    try:
        expect_free(port, "port")
    except InputError:
        return False
    return True


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as one:
        one.settimeout(1.0)
        return one.connect_ex((LOOPBACK, port)) == 0
