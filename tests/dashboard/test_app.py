"""The application over HTTP: what it answers, whom it turns away, and what it never sends."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Message, Scope

from dashboard.pages import NO_CPU, Served, Told, a_page, gpu_nodes, told_cluster
from pilotage.dashboard.access import COOKIE, Guard
from pilotage.dashboard.app import STATIC, Dashboard
from pilotage.dashboard.protocol import ConnectionLimits
from pilotage.dashboard.serving import place_of
from pilotage.model.clock import SystemClock
from pilotage.model.errors import InputError

TOKEN = "correct-horse-battery"  # noqa: S105


@pytest.fixture(scope="module")
def told() -> Told:
    found = told_cluster()
    found.nodes(*gpu_nodes(3))
    found.placed("a", "node-1")
    found.event("a", "Scheduled", "Successfully assigned default/a to node-1")
    found.pod("b", condition=NO_CPU)
    return found


@pytest.fixture(scope="module")
def served(told: Told) -> Iterator[Served]:
    with a_page(told.cluster) as page:
        yield page


@pytest.fixture(scope="module")
def locked(told: Told) -> Iterator[Served]:
    with a_page(told.cluster, Guard(TOKEN)) as page:
        yield page


def ask(page: Served, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", int(page.url.rsplit(":", 1)[1].strip("/")), timeout=20)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        known = {name.lower(): value for name, value in answer.getheaders()}
        body = answer.readline() if "event-stream" in known.get("content-type", "") else answer.read()
        return answer.status, known, body
    finally:
        connection.close()


def test_every_answer_has_the_policy_that_lets_nothing_else_in(served: Served) -> None:
    for path in ("/", "/static/main.js", "/api/decisions/1", "/nothing"):
        _, headers, _ = ask(served, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_it_is_alive_at_once_and_ready_when_the_cluster_was_listed(told: Told, locked: Served) -> None:
    """Probes of kubelets show no token."""
    assert ask(locked, "/healthz")[::2] == (200, b"ok")
    assert ask(locked, "/readyz")[::2] == (200, b"ok")
    told.cluster.synced.clear()
    try:
        assert ask(locked, "/readyz")[::2] == (503, b"the cluster is being listed")
    finally:
        told.cluster.synced.set()


def test_an_explanation_holds_what_was_seen_and_said(served: Served) -> None:
    status, _, body = ask(served, "/api/decisions/1")
    found = json.loads(body)
    assert status == 200
    assert found["decision"]["node"] == "node-1"
    assert found["said"][0]["note"] == "Successfully assigned default/a to node-1"
    assert found["said"][0]["by"] == "some-scheduler"


def test_an_explanation_of_a_pod_that_waits_counts_the_reasons(served: Served) -> None:
    found = json.loads(ask(served, "/api/decisions/2")[2])
    assert found["filtered"] == [["Insufficient cpu", 1], ["node(s) had untolerated taint(s)", 1]]


def test_pods_of_a_node_are_listed(served: Served) -> None:
    found = json.loads(ask(served, "/api/nodes/node-1")[2])
    assert [pod["pod"] for pod in found] == ["default/a"]
    assert json.loads(ask(served, "/api/nodes/node-0")[2]) == []


def test_what_is_not_there_is_404_and_what_is_not_for_reading_405(served: Served) -> None:
    for path in ("/api/decisions/99", "/api/nodes/none", "/api/decisions/x", "/static/../app.py", "/static/none.js"):
        assert ask(served, path)[0] == 404, path
    for path in ("/", "/api/events", "/api/decisions/1", "/api/nodes/node-1"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert ask(served, path, method)[0] == 405, (method, path)


def test_another_name_for_loopback_is_turned_away(served: Served) -> None:
    """A site could point its own name to 127.0.0.1, and read what its visitors' browsers may see."""
    assert ask(served, "/api/decisions/1", Host="evil.example")[0] == 421
    assert ask(served, "/", Host="evil.example:7780")[0] == 421
    assert ask(served, "/api/decisions/1", Host="localhost:1")[0] == 200
    assert ask(served, "/api/decisions/1", Host="[::1]:7780")[0] == 200


def test_without_the_token_nothing_is_told(locked: Served) -> None:
    for path in ("/api/events", "/api/decisions/1", "/api/nodes/node-1"):
        assert ask(locked, path)[0] == 401, path
        assert ask(locked, path, Authorization="Bearer wrong")[0] == 401
        assert ask(locked, path, Cookie=f"{COOKIE}=wrong")[0] == 401
    assert ask(locked, "/healthz")[0] == 200


def test_the_token_opens_by_header_or_becomes_a_cookie(locked: Served) -> None:
    assert ask(locked, "/api/decisions/1", Authorization=f"Bearer {TOKEN}")[0] == 200
    assert ask(locked, "/api/session", "POST", Authorization="Bearer wrong")[0] == 401
    status, headers, _ = ask(locked, "/api/session", "POST", Authorization=f"Bearer {TOKEN}")
    cookie = headers["set-cookie"]
    assert status == 204
    assert TOKEN not in cookie
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert ask(locked, "/api/decisions/1", Cookie=cookie.partition(";")[0])[0] == 200
    assert ask(locked, "/api/events", Cookie=cookie.partition(";")[0])[0] == 200


def test_a_head_that_is_too_large_is_refused_before_the_token_is_looked_at(locked: Served) -> None:
    assert ask(locked, "/healthz", Filler="y" * 40_000)[0] == 431


def test_silent_connections_make_room(told: Told) -> None:
    """They stayed, and nobody else was let in."""
    with a_page(told.cluster, limits=ConnectionLimits(connections=3, head_seconds=0.5)) as page:
        address = ("127.0.0.1", int(page.url.rsplit(":", 1)[1].strip("/")))
        silent = [socket.create_connection(address, timeout=20) for _ in range(3)]
        try:
            for connection in silent:
                assert connection.recv(100).startswith(b"HTTP/1.1 408")
            assert ask(page, "/healthz")[0] == 200
        finally:
            for connection in silent:
                connection.close()


def test_it_can_be_mounted_below_a_path(told: Told) -> None:
    dashboard = Dashboard(told.cluster, SystemClock(), Guard(TOKEN))
    app = Starlette(routes=[Mount("/dashboard", dashboard.app)])
    status, headers = asyncio.run(call(app, "POST", "/dashboard/api/session", f"Bearer {TOKEN}"))
    assert status == 204
    assert "Path=/dashboard/;" in headers["set-cookie"]
    assert asyncio.run(call(app, "GET", "/dashboard/", ""))[0] == 200
    assert asyncio.run(call(app, "GET", "/dashboard/static/main.js", ""))[0] == 200
    page = (STATIC / "index.html").read_text()
    assert not re.search(r'(href|src)="/', page)  # addresses are relative to wherever it is


async def call(app: Starlette, method: str, path: str, authorization: str) -> tuple[int, dict[str, str]]:
    """One request without a server."""
    sent: list[Message] = []
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"authorization", authorization.encode())],
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 1),
    }

    bodies: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if not bodies:
            await asyncio.Event().wait()  # the caller stays
        return bodies.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}


def test_the_page_loads_only_files_of_its_own() -> None:
    text = "".join(path.read_text() for path in STATIC.iterdir())
    assert "innerHTML" not in text
    assert "eval(" not in text
    addresses = [line for line in text.splitlines() if "//" in line.split("// ")[0] and "http" in line]
    assert all("www.w3.org/2000/svg" in line for line in addresses)


def test_colours_are_those_of_the_report() -> None:
    report = (STATIC.parent.parent / "report" / "page.css").read_text()
    own = (STATIC / "page.css").read_text()
    for name in ("--page", "--raised", "--ink", "--muted", "--line", "--accent"):
        for text in (own, report):
            assert text.count(f"{name}: ") == 2
        assert [part.split(";")[0] for part in own.split(f"{name}: ")[1:]] == [
            part.split(";")[0] for part in report.split(f"{name}: ")[1:]
        ]


@pytest.mark.parametrize("address", ["7780", "127.0.0.1", "127.0.0.1:x", ":7780", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="HOST:PORT"):
        place_of(address)


def test_what_leaves_the_machine_needs_token_and_tls(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    with pytest.raises(InputError, match="--token-file"):
        place_of("0.0.0.0:7780")
    with pytest.raises(InputError, match="--tls-certificate"):
        place_of("0.0.0.0:7780", token)
    assert place_of("0.0.0.0:7780", token, plain=True).guard.token == TOKEN
    assert place_of("[::1]:0").host == "::1"
    assert TOKEN not in repr(place_of("127.0.0.1:0", token))


def test_a_token_that_is_none_is_refused_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    for content in (b"", b"short", b"with blank in it now", b"\xff" * 20):
        path.write_bytes(content)
        with pytest.raises(InputError, match="token"):
            place_of("127.0.0.1:0", path)
    with pytest.raises(InputError, match="cannot be read"):
        place_of("127.0.0.1:0", tmp_path / "none")
