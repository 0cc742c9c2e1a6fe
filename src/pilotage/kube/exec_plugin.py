"""Credentials from a program that a kubeconfig names (`exec`), as kubectl asks for them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import orjson

from pilotage.model.clock import Clock, parse_timestamp
from pilotage.model.errors import InputError
from pilotage.workloads.fields import Field

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
SECONDS = 60.0  # that the program may take
EARLY_SECONDS = 30.0  # a token is replaced this long before it ends
MAX_ANSWER_BYTES = 1024 * 1024


@dataclass
class ExecPlugin:
    """Asked when there is no token, when it is about to end, and when the server refused it."""

    command: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    version: str
    clock: Clock
    on_certificate: Callable[[bytes, bytes], None] | None = None
    _token: str = field(default="", repr=False)
    _ends: datetime | None = None
    _asked: bool = False
    _calls: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = field(default_factory=dict, repr=False)

    async def token(self, *, renew: bool = False) -> str:
        ending = self._ends is not None and (self._ends - self.clock.wall()).total_seconds() < EARLY_SECONDS
        if renew or ending or not self._asked:
            await self._ask_once()
        return self._token

    async def _ask_once(self) -> None:
        """One call for all that need it meanwhile, in each loop: the lease is renewed in one of its own."""
        loop = asyncio.get_running_loop()
        call = self._calls.get(loop)
        if call is None:
            call = self._calls[loop] = loop.create_task(self._ask())
            call.add_done_callback(lambda _: self._calls.pop(loop, None))
        await asyncio.shield(call)  # who is cancelled leaves it to the others

    async def _ask(self) -> None:
        spec = {"apiVersion": self.version, "kind": "ExecCredential", "spec": {"interactive": False}}
        environment = {**os.environ, **self.environment, "KUBERNETES_EXEC_INFO": orjson.dumps(spec).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                self.command,
                *self.arguments,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise InputError(f"cannot be started: {error.strerror}", file=self.command, field="exec") from error
        try:
            answer, _ = await asyncio.wait_for(process.communicate(), SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise InputError(f"no answer in {SECONDS:g} s", file=self.command, field="exec") from None
        if process.returncode != 0:
            raise InputError(f"ended with code {process.returncode}", file=self.command, field="exec")
        self._take(answer)

    def _take(self, answer: bytes) -> None:
        wrong = InputError("its answer is no ExecCredential", file=self.command, field="exec", expected=VERSIONS[0])
        try:
            content = orjson.loads(answer[:MAX_ANSWER_BYTES])
        except orjson.JSONDecodeError:
            raise wrong from None  # the cause would quote what may be a token
        status = content.get("status") if isinstance(content, dict) else None
        if not isinstance(status, dict) or content.get("kind") != "ExecCredential":
            raise wrong
        token, ends = status.get("token", ""), status.get("expirationTimestamp")
        certificate, key = status.get("clientCertificateData", ""), status.get("clientKeyData", "")
        if not all(isinstance(text, str) for text in (token, certificate, key)) or not (token or certificate):
            raise wrong
        try:
            self._ends = parse_timestamp(ends) if isinstance(ends, str) else None
        except ValueError:
            raise wrong from None
        if certificate and self.on_certificate is not None:
            self.on_certificate(certificate.encode(), key.encode())
        self._token, self._asked = token, True


def read_exec_plugin(entry: Field, directory: Path, clock: Clock) -> ExecPlugin:
    version = entry.get("apiVersion").choice(VERSIONS)
    if entry.get("interactiveMode").choice(("Never", "IfAvailable", "Always"), "IfAvailable") == "Always":
        raise entry.get("interactiveMode").error("needs somebody at a terminal", "Never or IfAvailable")
    if entry.get("provideClusterInfo").boolean():
        raise entry.get("provideClusterInfo").error("is not supported", "false")
    command = entry.get("command").text()
    if "/" in command:  # a path is meant from where the kubeconfig is
        command = str(directory / command)
    environment = {pair.get("name").text(): pair.get("value").text("") for pair in entry.get("env").elements()}
    return ExecPlugin(command, entry.get("args").string_list(), environment, version, clock)
