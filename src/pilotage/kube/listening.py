"""What every process that listens asks itself: does it leave this machine, and which token must callers show."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from pilotage.model.errors import InputError

SHORTEST_TOKEN, LONGEST_TOKEN = 16, 4096  # characters


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_token(path: Path) -> str:
    """The only line of a file."""
    try:
        with path.open("rb") as stream:
            content = stream.read(LONGEST_TOKEN + 2)
        token = content.decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not plain text"
        raise InputError(f"cannot be read: {reason}", file=path, expected="a file with the token") from None
    if not SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN or not token.isprintable() or " " in token:
        expected = f"one line of {SHORTEST_TOKEN} to {LONGEST_TOKEN} characters without blanks"
        raise InputError(f"a token of {len(token)} characters", file=path, expected=expected)
    return token
