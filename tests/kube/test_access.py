"""Credentials: which are taken, which are refused, and that they are renewed."""

from __future__ import annotations

import asyncio
import json
import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pilotage.kube.access import FixedToken, TokenFile, find_access, in_cluster, read_kubeconfig
from pilotage.kube.exec_plugin import ExecPlugin
from pilotage.lab.certificates import Authority
from pilotage.lab.kubeconfigs import write_kubeconfig
from pilotage.model.clock import SystemClock, VirtualClock
from pilotage.model.errors import InputError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def kubeconfig(path: Path, cluster: dict[str, object] | None = None, user: dict[str, object] | None = None) -> Path:
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "mine"}}],
        "clusters": [{"name": "c", "cluster": cluster or {"server": "https://127.0.0.1:6443"}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(json.dumps(content))
    return path


def test_a_lab_kubeconfig_is_read(tmp_path: Path) -> None:
    authority = Authority("test", SystemClock().wall())
    path = write_kubeconfig(tmp_path / "k", "lab", "https://127.0.0.1:1", authority.pem, authority.issue("me", "group"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    access = read_kubeconfig(path, None, SystemClock())
    assert access.server == "https://127.0.0.1:1"
    assert access.tls is not None
    assert access.tls.verify_mode == ssl.CERT_REQUIRED
    assert access.tls.check_hostname
    assert len(access.tls.get_ca_certs()) == 1
    assert access.tokens is None


@pytest.mark.parametrize(
    ("cluster", "user", "said"),
    [
        ({"server": "https://x", "insecure-skip-tls-verify": True}, {}, "would trust anybody"),
        ({"server": "http://x"}, {"token": "secret"}, "in the clear"),
        ({"server": "ftp://x"}, {}, "is no address"),
        ({"server": "https://x", "certificate-authority-data": "?"}, {}, "is no base64"),
        ({"server": "https://x", "certificate-authority": "nowhere.crt"}, {}, "nowhere.crt"),
        ({"server": "https://x", "proxy-url": "http://p"}, {}, "is not supported"),
        ({"server": "https://x"}, {"auth-provider": {"name": "x"}}, "is not supported"),
        ({"server": "https://x"}, {"client-certificate-data": "AAAA"}, "belong together"),
        ({"server": "https://x"}, {"exec": {"apiVersion": "v9", "command": "x"}}, "apiVersion"),
    ],
)
def test_what_is_refused(tmp_path: Path, cluster: dict[str, object], user: dict[str, object], said: str) -> None:
    path = kubeconfig(tmp_path / "config", cluster, user)
    with pytest.raises(InputError, match=said) as raised:
        read_kubeconfig(path, None, SystemClock())
    assert "secret" not in str(raised.value)


def test_unknown_names(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config")
    with pytest.raises(InputError, match="did you mean 'here'"):
        read_kubeconfig(path, "her", SystemClock())
    assert read_kubeconfig(path, "here", SystemClock()).namespace == "mine"


def test_where_a_cluster_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match="no cluster is named"):
        find_access(None)
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube" / "config", {"server": "https://home"})
    assert find_access(None).server == "https://home"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "other", {"server": "https://other"})))
    assert find_access(None).server == "https://other"
    assert find_access(tmp_path / ".kube" / "config").server == "https://home"


def test_a_pod_reads_its_token_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    with pytest.raises(InputError, match="no service account"):
        in_cluster(tmp_path, VirtualClock())
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_bytes(Authority("test", NOW).pem)
    (tmp_path / "namespace").write_text("here")
    clock = VirtualClock()
    access = in_cluster(tmp_path, clock)
    assert access.server == "https://[fd00::1]:6443"
    assert access.namespace == "here"
    assert isinstance(access.tokens, TokenFile)
    assert asyncio.run(access.tokens.token()) == "first"
    (tmp_path / "token").write_text("second")
    assert asyncio.run(access.tokens.token()) == "first"
    assert asyncio.run(access.tokens.token(renew=True)) == "second"
    (tmp_path / "token").write_text("third")
    clock.wait(61)
    assert asyncio.run(access.tokens.token()) == "third"


def test_tokens_are_not_shown() -> None:
    assert "secret" not in repr(FixedToken("secret"))


def plugin(directory: Path, answer: str, clock: VirtualClock) -> ExecPlugin:
    """A program that counts how often it was asked."""
    script = directory / "plugin"
    script.write_text(f"#!/bin/sh\necho asked >> {directory}/asked\n{answer}\n")
    script.chmod(0o700)
    user: dict[str, object] = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "args": ["a"]}
    }
    access = read_kubeconfig(kubeconfig(directory / "config", user=user), None, clock)
    assert isinstance(access.tokens, ExecPlugin)
    return access.tokens


def credential(token: str, ends: str) -> str:
    status = {"token": token, "expirationTimestamp": ends}
    content = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"echo '{json.dumps(content)}'"


def test_a_plugin_is_asked_once_until_its_token_ends(tmp_path: Path) -> None:
    clock = VirtualClock()
    tokens = plugin(tmp_path, credential("secret", "1970-01-01T00:10:00Z"), clock)

    async def ask(**how: bool) -> str:
        return await tokens.token(**how)

    assert asyncio.run(ask()) == asyncio.run(ask()) == "secret"
    assert (tmp_path / "asked").read_text().count("asked") == 1
    asyncio.run(ask(renew=True))
    assert (tmp_path / "asked").read_text().count("asked") == 2
    clock.wait(580)
    asyncio.run(ask())
    assert (tmp_path / "asked").read_text().count("asked") == 3


def test_a_plugin_is_asked_once_for_requests_that_come_together(tmp_path: Path) -> None:
    """Twenty of them started it twenty times. One that is given up does not take the answer from the others."""
    tokens = plugin(tmp_path, f"sleep 0.2; {credential('secret', '2099-01-01T00:00:00Z')}", VirtualClock())

    async def ask() -> list[str]:
        impatient = asyncio.create_task(tokens.token())
        others = [asyncio.create_task(tokens.token()) for _ in range(20)]
        await asyncio.sleep(0.05)
        impatient.cancel()
        return await asyncio.gather(*others)

    assert asyncio.run(ask()) == ["secret"] * 20
    assert (tmp_path / "asked").read_text().count("asked") == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [("exit 3", "ended with code 3"), ("echo secret", "no ExecCredential"), ("echo '{}'", "no ExecCredential")],
)
def test_a_plugin_that_fails_is_named(tmp_path: Path, answer: str, said: str) -> None:
    tokens = plugin(tmp_path, answer, VirtualClock())
    with pytest.raises(InputError, match=said) as raised:
        asyncio.run(tokens.token())
    assert "secret" not in str(raised.value)
    assert "plugin" in str(raised.value)
