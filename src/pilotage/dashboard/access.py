"""Who may look. On loopback everybody on this machine, by a loopback name; elsewhere whoever has the token.

A browser cannot send headers with an event stream, so the token is changed into a cookie, which scripts cannot read,
other sites cannot use, and from which the token cannot be found.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import sha256

from starlette.requests import HTTPConnection

from pilotage.kube.listening import LONGEST_TOKEN, SHORTEST_TOKEN
from pilotage.model.errors import InputError

COOKIE = "pilotage-dashboard"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Guard:
    """Lets requests through or not."""

    token: str = ""  # empty: not asked for
    names: tuple[str, ...] = LOOPBACK_NAMES  # that may be in the address, against sites that point theirs here

    def __post_init__(self) -> None:
        if self.token and not SHORTEST_TOKEN <= len(self.token) <= LONGEST_TOKEN:
            raise InputError("the token is too short or too long", expected=f"at least {SHORTEST_TOKEN} characters")

    def __repr__(self) -> str:
        return "Guard(...)"

    @property
    def cookie(self) -> str:
        return hmac.new(self.token.encode(), b"pilotage dashboard", sha256).hexdigest()

    def knows_token(self, request: HTTPConnection) -> bool:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token.encode())

    def allows(self, request: HTTPConnection) -> bool:
        """Whether the request may see data."""
        if not self.token:
            return self.known_name(request)
        given = request.cookies.get(COOKIE, "")
        return self.knows_token(request) or hmac.compare_digest(given.encode(), self.cookie.encode())

    def known_name(self, request: HTTPConnection) -> bool:
        """With a token any name will do: a site that points its name here does not have it."""
        return bool(self.token) or _host(request.headers.get("host", "")) in self.names


def _host(header: str) -> str:
    """Without the port; IPv6 addresses stand in brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()
