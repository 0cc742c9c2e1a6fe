"""How a cluster is reached: its address, whom to trust, and who we are. From a kubeconfig, or inside a pod.

Data of keys never stays on disk longer than it takes to read it into a TLS context, and no text of an error holds any.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from pilotage.kube.exec_plugin import ExecPlugin, read_exec_plugin
from pilotage.model.clock import Clock, SystemClock
from pilotage.model.errors import InputError
from pilotage.workloads.fields import Field
from pilotage.workloads.yaml_documents import only_document

MAX_KUBECONFIG_BYTES = 4 * 1024 * 1024
MAX_TOKEN_BYTES = 64 * 1024
TOKEN_SECONDS = 60.0  # a mounted token is read again after this: it is replaced long before it ends
IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Tokens(Protocol):
    """Where bearer tokens come from."""

    async def token(self, *, renew: bool = False) -> str:
        """The token to send; `renew`: the last one was refused."""
        ...


@dataclass(frozen=True, slots=True)
class FixedToken:
    """One token for good."""

    value: str

    async def token(self, *, renew: bool = False) -> str:
        return self.value

    def __repr__(self) -> str:
        return "FixedToken(...)"


@dataclass
class TokenFile:
    """A file that somebody replaces from time to time, as a kubelet does."""

    path: Path
    clock: Clock
    _value: str = ""
    _read_at: float = float("-inf")

    async def token(self, *, renew: bool = False) -> str:
        if renew or self.clock.now() - self._read_at > TOKEN_SECONDS:
            try:
                with self.path.open("rb") as stream:
                    data = stream.read(MAX_TOKEN_BYTES + 1)
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror}", file=self.path, expected="a token") from error
            if not data.strip() or len(data) > MAX_TOKEN_BYTES:
                raise InputError("holds no token", file=self.path, expected=f"1 to {MAX_TOKEN_BYTES} bytes")
            self._value, self._read_at = data.decode("ascii", "replace").strip(), self.clock.now()
        return self._value

    def __repr__(self) -> str:
        return f"TokenFile({self.path})"


@dataclass(frozen=True)
class Access:
    """All that a client needs."""

    server: str  # without a path at its end
    tls: ssl.SSLContext | None  # None: plain HTTP
    tokens: Tokens | None = None
    server_name: str | None = None  # that the certificate must be for, where it is not the address
    namespace: str = "default"


def find_access(kubeconfig: Path | None, context: str | None = None, clock: Clock | None = None) -> Access:
    """The given kubeconfig, else that of KUBECONFIG, else of the home directory, else what a pod has."""
    clock = clock or SystemClock()
    if kubeconfig is not None:
        return read_kubeconfig(kubeconfig, context, clock)
    named = [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if len(named) > 1:
        raise InputError(f"names {len(named)} files", field="KUBECONFIG", expected="one file, or --kubeconfig FILE")
    usual = named or [path for path in (Path.home() / ".kube" / "config",) if path.is_file()]
    if usual:
        return read_kubeconfig(usual[0], context, clock)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return in_cluster(IN_CLUSTER, clock)
    expected = "--kubeconfig FILE, the variable KUBECONFIG, or a pod with a service account"
    raise InputError("no cluster is named", expected=expected)


def in_cluster(directory: Path, clock: Clock) -> Access:
    """The service account of the pod that this runs in; its token is read again as it is replaced."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (directory / "token").is_file():
        raise InputError("no service account here", file=directory, expected="to run in a pod that mounts one")
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    namespace = directory / "namespace"
    return Access(
        server=f"https://{authority}",
        tls=ssl.create_default_context(cafile=str(directory / "ca.crt")),
        tokens=TokenFile(directory / "token", clock),
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
    )


def read_kubeconfig(path: Path, context: str | None, clock: Clock) -> Access:
    config = Field.of(only_document(path, max_bytes=MAX_KUBECONFIG_BYTES))
    name = context if context is not None else config.get("current-context").text("")
    if not name:
        raise config.get("current-context").error("no context is chosen", "current-context, or --context NAME")
    chosen = _named(config.get("contexts"), name).get("context")
    cluster = _named(config.get("clusters"), chosen.get("cluster").text()).get("cluster")
    who = chosen.get("user").text("")
    user = _named(config.get("users"), who).get("user") if who else Field(None, str(path), 1, 1)
    server = _server(cluster.get("server"))
    tls = _tls(cluster, path) if server.startswith("https://") else None
    if tls is not None:
        _present_certificate(tls, user, path)
    elif any(user.get(key).present for key in ("token", "tokenFile", "exec")):
        raise cluster.get("server").error("would send a token in the clear", "an https:// address")
    return Access(
        server=server,
        tls=tls,
        tokens=_tokens(user, path, clock, tls),
        server_name=cluster.get("tls-server-name").text("") or None,
        namespace=chosen.get("namespace").text("default") or "default",
    )


def _named(entries: Field, name: str) -> Field:
    known = {entry.get("name").text(): entry for entry in entries.elements()}
    if name not in known:
        raise entries.unknown("name", name, known)
    return known[name]


def _server(entry: Field) -> str:
    server = entry.text(expected="an address such as https://127.0.0.1:6443").rstrip("/")
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise entry.error(f"{server[:60]!r} is no address", "such as https://127.0.0.1:6443")
    return server


def _tls(cluster: Field, path: Path) -> ssl.SSLContext:
    if cluster.get("proxy-url").present:
        raise cluster.get("proxy-url").error("is not supported", "a direct connection")
    if cluster.get("insecure-skip-tls-verify").boolean():
        where = cluster.get("insecure-skip-tls-verify")
        raise where.error("would trust anybody", "certificate-authority or certificate-authority-data")
    authority = _data_or_file(cluster, "certificate-authority", path)
    context = ssl.create_default_context()
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the system's own authorities are not asked then
        try:
            context.load_verify_locations(cadata=authority.decode("ascii", "replace"))
        except ssl.SSLError as error:
            raise cluster.error("certificate-authority holds no certificate", "PEM") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _data_or_file(entry: Field, key: str, kubeconfig: Path) -> bytes | None:
    data, file = entry.get(f"{key}-data"), entry.get(key)
    if data.present:
        try:
            return base64.b64decode(data.text(), validate=True)
        except (binascii.Error, ValueError) as error:
            raise data.error("is no base64", "PEM in base64") from error
    if not file.present:
        return None
    place = kubeconfig.parent / file.text()
    try:
        return place.read_bytes()
    except OSError as error:
        raise file.error(f"{place}: {error.strerror}", "a PEM file") from error


def _present_certificate(tls: ssl.SSLContext, user: Field, path: Path) -> None:
    certificate, key = (_data_or_file(user, name, path) for name in ("client-certificate", "client-key"))
    if (certificate is None) != (key is None):
        raise user.error("a client certificate and its key belong together", "both")
    if certificate is not None and key is not None:
        load_certificate(tls, certificate, key, str(path))


def load_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes, source: str) -> None:
    """TLS contexts read files only: both go into one that nobody else can read, and that is gone afterwards."""
    with tempfile.NamedTemporaryFile(prefix="pilotage-", suffix=".pem") as file:  # mode 0600
        file.write(certificate + b"\n" + key)
        file.flush()
        try:
            tls.load_cert_chain(file.name)
        except (ssl.SSLError, ValueError) as error:
            expected = "PEM of both, without a password"
            raise InputError("client certificate and key do not fit", file=source, expected=expected) from error


def _tokens(user: Field, path: Path, clock: Clock, tls: ssl.SSLContext | None) -> Tokens | None:
    for key in ("auth-provider", "username", "as"):
        if user.get(key).present:
            raise user.get(key).error("is not supported", "a client certificate, token, tokenFile or exec")
    if user.get("exec").present:
        plugin: ExecPlugin = read_exec_plugin(user.get("exec"), path.parent, clock)
        if tls is not None:
            plugin.on_certificate = lambda certificate, key: load_certificate(tls, certificate, key, plugin.command)
        return plugin
    if user.get("tokenFile").present:
        return TokenFile(path.parent / user.get("tokenFile").text(), clock)
    return FixedToken(user.get("token").text()) if user.get("token").present else None
