"""Who is let in, and what is refused before anything listens."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from pilotage.lab.certificates import Authority, write_private
from pilotage.load.settings import LoadSettings
from pilotage.model.errors import InputError
from pilotage.serving.run import Serving, Settings
from pilotage.serving.security import Gate, Security
from serving.services import a_question, a_service, a_state, reload

TOKEN = "a-token-that-is-long-enough"  # noqa: S105
QUESTION = a_question([{"name": "a", "state": a_state()}])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    authority = Authority("test", datetime.now(UTC))
    server, client = authority.issue("server"), authority.issue("kube-scheduler")
    for name, data in (
        ("ca.crt", authority.pem),
        ("server.crt", server.certificate),
        ("server.key", server.key),
        ("client.crt", client.certificate),
        ("client.key", client.key),
        ("token", TOKEN.encode()),
    ):
        write_private(tmp_path / name, data)
    return tmp_path


def trusting(files: Path, *, certificate: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files / "ca.crt"))
    if certificate:
        context.load_cert_chain(files / "client.crt", files / "client.key")
    return context


def asked(serving: Serving, context: ssl.SSLContext, path: str, token: str | None = None) -> int:
    async def run() -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"https://127.0.0.1:{serving.port}{path}"
        try:
            async with aiohttp.ClientSession() as session:
                if path == "/healthz":
                    async with session.get(url, ssl=context) as answer:
                        return answer.status
                async with session.post(url, json=QUESTION, ssl=context, headers=headers) as answer:
                    return answer.status
        finally:
            await asyncio.sleep(0.25)  # a session with TLS closes its connections a moment after it has ended

    return asyncio.run(run())


def test_scores_need_a_certificate_or_the_token(files: Path) -> None:
    security = Security(files / "server.crt", files / "server.key", files / "ca.crt", files / "token")
    with a_service(Settings(policies=("least-allocated",), host="127.0.0.1", port=0, security=security)) as serving:
        anonymous, known = trusting(files, certificate=False), trusting(files, certificate=True)
        assert asked(serving, known, "/v1/score") == 200
        assert asked(serving, anonymous, "/v1/score", TOKEN) == 200
        assert asked(serving, anonymous, "/v1/score") == 401
        assert asked(serving, anonymous, "/v1/score", "wrong") == 401
        assert asked(serving, anonymous, "/healthz") == 200


def test_what_is_wrong_with_others_is_said_to_known_callers_alone(files: Path) -> None:
    security = Security(files / "server.crt", files / "server.key", None, files / "token")
    load = LoadSettings("http://127.0.0.1:9/secret", {"cpu": "up"})
    with a_service(Settings(policies=("least-allocated",), port=0, security=security, load=load)) as serving:

        async def ready(**headers: str) -> str:
            context = trusting(files, certificate=False)
            url = f"https://127.0.0.1:{serving.port}/readyz"
            async with aiohttp.ClientSession() as session, session.get(url, ssl=context, headers=headers) as answer:
                assert answer.status == 200
                return await answer.text()

        async def both() -> tuple[str, str]:
            try:
                while "secret" not in (known := await ready(Authorization=f"Bearer {TOKEN}")):
                    await asyncio.sleep(0.05)
                return known, await ready()
            finally:
                await asyncio.sleep(0.25)

        known, unknown = asyncio.run(asyncio.wait_for(both(), 60))
    assert "problems" in known
    assert unknown == '{"ready":true,"obstacles":{},"policies":["least-allocated@1"],"load":{"fresh":false,"nodes":0}}'


def test_another_token_holds_after_a_reload_and_a_bad_one_changes_nothing(files: Path) -> None:
    security = Security(files / "server.crt", files / "server.key", None, files / "token")
    with a_service(Settings(policies=("least-allocated",), port=0, security=security)) as serving:
        anonymous = trusting(files, certificate=False)
        (files / "token").write_text("another-token-long-enough")
        assert reload(serving)
        assert asked(serving, anonymous, "/v1/score", TOKEN) == 401
        assert asked(serving, anonymous, "/v1/score", "another-token-long-enough") == 200
        (files / "token").write_text("short")
        assert not reload(serving)
        assert asked(serving, anonymous, "/v1/score", "another-token-long-enough") == 200


def test_an_authority_that_was_replaced_is_not_trusted_any_more(files: Path) -> None:
    security = Security(files / "server.crt", files / "server.key", files / "ca.crt")
    with a_service(Settings(policies=("least-allocated",), port=0, security=security)) as serving:
        before = trusting(files, certificate=True)
        assert asked(serving, before, "/v1/score") == 200
        authority = Authority("another", datetime.now(UTC))
        server, client = authority.issue("server"), authority.issue("kube-scheduler")
        for name, data in (
            ("ca.crt", authority.pem),
            ("server.crt", server.certificate),
            ("server.key", server.key),
            ("client.crt", client.certificate),
            ("client.key", client.key),
        ):
            (files / name).unlink()
            write_private(files / name, data)
        assert reload(serving)
        assert asked(serving, trusting(files, certificate=True), "/v1/score") == 200
        before.load_verify_locations(files / "ca.crt")  # the old certificate of a caller, who trusts the new server
        with pytest.raises(aiohttp.ClientError):
            asked(serving, before, "/v1/score")


def test_extender_verbs_take_no_token_where_certificates_are_asked_for() -> None:
    from pilotage.serving.problems import RefusedError

    gate = Gate(asks_certificate=True, token=TOKEN.encode())
    shown = f"Bearer {TOKEN}"
    with pytest.raises(RefusedError, match="client certificate"):
        gate.let_in(certificate=None, local=False, authorization=shown, extender=True)
    gate.let_in(certificate="kube-scheduler", local=False, authorization=None, extender=True)
    gate.let_in(certificate=None, local=True, authorization=None, extender=True)


@pytest.mark.parametrize(
    ("security", "named"),
    [
        (Security(), "--tls-cert"),
        (Security(Path("a"), Path("b")), "--client-ca or --token-file"),
        (Security(certificate=Path("a")), "both or none"),
        (Security(client_authority=Path("a")), "--tls-cert and --tls-key"),
    ],
)
def test_no_service_leaves_the_machine_unprotected(security: Security, named: str) -> None:
    with pytest.raises(InputError, match=named):
        security.check("0.0.0.0")  # noqa: S104


async def asked_at(path: Path) -> int:
    """The status of an answer that came through a Unix socket."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session,
        session.post("http://service/v1/score", json=QUESTION) as answer,
    ):
        return answer.status


def test_a_unix_socket_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with a_service(Settings(policies=("least-allocated",), host=None, socket=path)):
        assert path.stat().st_mode & 0o777 == 0o600
        assert asyncio.run(asked_at(path)) == 200
    assert not path.exists()


def test_a_service_that_ends_leaves_the_socket_of_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    settings = Settings(policies=("least-allocated",), host=None, socket=path)
    with ExitStack() as successor:
        with a_service(settings):
            successor.enter_context(a_service(settings))
        assert asyncio.run(asked_at(path)) == 200
    assert not path.exists()
