"""Real kube-schedulers with the configurations of docs/, beside the one of the lab."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import orjson

from conftest import ROOT
from lab.labs import eventually, make_namespace
from pilotage.kube.access import read_kubeconfig
from pilotage.kube.client import Client, Json
from pilotage.lab.build import built_programs
from pilotage.lab.components import BURST, QPS
from pilotage.lab.controlplane import Lab
from pilotage.lab.nodes import add, remove
from pilotage.model.clock import SystemClock
from pilotage.model.cluster import Node
from pilotage.serving.run import Settings

CONFIGURATIONS = ROOT / "docs" / "kube-scheduler"
PILOTAGE = Path(sys.executable).with_name("pilotage")
DOCUMENTED = "http://127.0.0.1:8650"
_numbers = itertools.count()


@contextmanager
def a_kube_scheduler(
    lab: Lab, document: str, address: str, authority: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """With a configuration of docs/kube-scheduler, but for the address and how it reaches the lab; with an authority,
    which signed the extender's certificate, by TLS."""
    text = (CONFIGURATIONS / document).read_text()
    assert DOCUMENTED in text
    text = text.replace(DOCUMENTED, address)
    if authority is not None:
        tls = orjson.dumps({"caFile": str(authority)}).decode()
        text = text.replace(
            "    nodeCacheCapable", f"    enableHTTPS: true\n    tlsConfig: {tls}\n    nodeCacheCapable"
        )
        assert "enableHTTPS" in text
    with a_configured_kube_scheduler(lab, document, text) as process:
        yield process


@contextmanager
def a_configured_kube_scheduler(lab: Lab, name: str, text: str) -> Iterator[subprocess.Popen[bytes]]:
    """With this configuration, but for how it reaches the lab; `name` is that of its log."""
    connection = {
        "kubeconfig": str(lab.kubeconfig_of("kube-scheduler")),
        "qps": QPS,
        "burst": BURST,
        "contentType": "application/vnd.kubernetes.protobuf",
    }
    text += f"clientConnection: {orjson.dumps(connection).decode()}\nleaderElection: {{leaderElect: false}}\n"
    path = lab.directory / f"{name}.{next(_numbers)}"
    path.write_text(text)
    log = log_of(lab, name)
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [built_programs() / "kube-scheduler", f"--config={path}", "--secure-port=0", "--v=5"],
            cwd=lab.directory,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
        assert process.poll() is None, log.read_text()[-3000:]  # it never ended
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def log_of(lab: Lab, document: str) -> Path:
    return lab.directory / f"{document}.log"


FALLBACKS = {  # what kube-scheduler says of an extender, and how we call it
    "connection refused": "unreachable",
    "connection reset": "unreachable",
    "EOF": "unreachable",
    "deadline exceeded": "deadline",
    "Client.Timeout": "deadline",
    "invalid character": "malformed",
    "cannot unmarshal": "malformed",
    "certificate": "tls",
    "failed with status code": "status",
}


def fallbacks(lab: Lab, document: str) -> Counter[str]:
    """Pods that kube-scheduler decided without the extender's scores, by reason: it has no metric, but says so."""
    lines = log_of(lab, document).read_text(errors="replace").splitlines()
    failed = [line for line in lines if "Failed to run extender's priority function" in line]
    return Counter(next((name for said, name in FALLBACKS.items() if said in line), line) for line in failed)


@contextmanager
def a_serve_process(lab: Lab, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`pilotage serve` as a process of its own, and its port."""
    command: list[str | Path] = [PILOTAGE, "serve", "--kubeconfig", str(lab.kubeconfig_of("kube-scheduler")), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said, "it ended before it listened"
        yield process, orjson.loads(said)["port"]
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


@asynccontextmanager
async def own_nodes(lab: Lab, nodes: list[Node]) -> AsyncIterator[tuple[Client, str]]:
    """A client, and a namespace; the nodes are there for this test alone."""
    async with Client(read_kubeconfig(lab.kubeconfig, None, SystemClock())) as client:
        namespace = await make_namespace(client)
        await add(client, nodes)

        async def ready() -> bool | None:
            found, _ = await client.list_all("/api/v1/nodes")
            fine = {one["metadata"]["name"] for one in found if not one["spec"].get("taints")}
            return True if {node.name for node in nodes} <= fine else None

        await eventually(ready, "nodes are ready")
        try:
            yield client, namespace
        finally:
            await remove(client, [node.name for node in nodes])
            await client.delete(f"/api/v1/namespaces/{namespace}")


def following(lab: Lab, *policies: str, **more: Any) -> Settings:
    """Settings of a service that follows the lab with kube-scheduler's rights."""
    access = read_kubeconfig(lab.kubeconfig_of("kube-scheduler"), None, SystemClock())
    return Settings(policies=policies, port=0, access=access, **more)


async def bound(client: Client, namespace: str, name: str) -> Json:
    """The pod when it has a node."""

    async def ask() -> Json | None:
        found = await client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        return found if found["spec"].get("nodeName") else None

    return await eventually(ask, f"pod {name} is bound")


async def ready(port: int) -> None:
    """Waits until the service answers."""
    from aiohttp import ClientError, ClientSession

    async def ask() -> bool | None:
        try:
            async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                return True if answer.status == 200 else None
        except ClientError:
            return None

    await eventually(ask, "the service is ready")
    await asyncio.sleep(0)
