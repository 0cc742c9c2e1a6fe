"""`pilotage serve`: scheduler extender and scoring service."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotage.cli.options import PodsOption, TraceOption
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.load.settings import LoadSettings
    from pilotage.serving.run import Settings

EXAMPLE = "Example: pilotage serve --policy pilotage-pack --kubeconfig $(pilotage lab kubeconfig)"


def serve(
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", metavar="NAME", help="Offered; the first is the default. Repeatable.  [default: fgd]"),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; beyond loopback TLS is needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one, it is printed.")] = 8650,
    unix_socket: Annotated[
        Path | None, typer.Option("--unix-socket", metavar="FILE", help="Listen there too, for its owner alone.")
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Follow this cluster; the extender needs it.")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="Of the kubeconfig.")] = None,
    in_cluster: Annotated[bool, typer.Option("--in-cluster", help="Follow the cluster that this pod runs in.")] = False,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate chain, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key, PEM.")] = None,
    client_ca: Annotated[
        Path | None, typer.Option("--client-ca", metavar="FILE", help="Who signs certificates of callers, PEM.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="Bearer token that callers of /v1 may show.")
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", metavar="URL", help="Measurements by the preset for node-exporter.")
    ] = None,
    load: Annotated[
        Path | None, typer.Option("--load", metavar="FILE", help="Measurements by this file (docs/load.md).")
    ] = None,
    dashboard: Annotated[
        str | None,
        typer.Option("--dashboard", metavar="HOST:PORT", help="Show the cluster as a web page, on loopback."),
    ] = None,
    pods: PodsOption = None,
    trace: TraceOption = None,
    stale_seconds: Annotated[
        float, typer.Option("--stale-seconds", min=5, max=3600, help="Silence of the API server that is too long.")
    ] = 60.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of random choices.")] = 0,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="debug: every request.")
    ] = "info",
) -> None:
    """Serve kube-scheduler (extender, score plugin) and others with scores, until told to end.

    SIGHUP reads policies, token and keys again without losing a request.
    """
    missing = [name for name in ("starlette", "uvicorn") if util.find_spec(name) is None]
    if missing:
        raise InputError(f"serve needs {', '.join(missing)}", expected="pip install 'pilotage[serve]'")
    import uvloop

    from pilotage.cli.dashboard import loopback_place
    from pilotage.serving.run import Settings
    from pilotage.serving.security import Security

    if dashboard is not None and kubeconfig is None and context is None and not in_cluster:
        raise InputError("there is no cluster to show", field="--dashboard", expected="--kubeconfig or --in-cluster")
    settings = Settings(
        policies=tuple(policy or ["fgd"]),
        host=host,
        port=port,
        socket=unix_socket,
        security=Security(tls_cert, tls_key, client_ca, token_file),
        load=_load(prometheus, load),
        stale_seconds=stale_seconds,
        seed=seed,
        instance=f"{socket.gethostname()}-{os.getpid()}",
        dashboard=loopback_place(dashboard) if dashboard is not None else None,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(settings, kubeconfig, context, pods, trace, log_level, in_cluster=in_cluster))


def _load(prometheus: str | None, file: Path | None) -> LoadSettings | None:
    from pilotage.load.settings import preset, read_load_settings

    if prometheus is not None and file is not None:
        raise InputError("both are given", field="--prometheus, --load", expected="one of them")
    if file is not None:
        return read_load_settings(file)
    return preset(prometheus, "node-exporter") if prometheus is not None else None


async def _run(
    settings: Settings,
    kubeconfig: Path | None,
    context: str | None,
    pods: Path | None,
    trace: str | None,
    log_level: str,
    *,
    in_cluster: bool,
) -> None:
    from dataclasses import replace

    from pilotage.kube.access import find_access
    from pilotage.model.clock import SystemClock
    from pilotage.policies.api import WorkloadMix
    from pilotage.serving.logs import start_logging
    from pilotage.serving.run import Serving
    from pilotage.serving.warming import settle
    from pilotage.workloads.trace import load_pods

    clock = SystemClock()
    follows = kubeconfig is not None or context is not None or in_cluster
    access = find_access(kubeconfig, context) if follows else None
    given = pods is not None or trace is not None
    mix = WorkloadMix.of(load_pods(pods, trace)) if given else None
    serving = Serving(replace(settings, access=access, mix=mix), clock)
    start_logging(log_level, clock)
    stop, loop, reloads = asyncio.Event(), asyncio.get_running_loop(), set()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def reload() -> None:
        task = loop.create_task(serving.reload())
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    async with serving.running():
        settle()
        listening: dict[str, object] = {"port": serving.port, "policies": serving.offered.names}
        if serving.page:
            listening["dashboard"] = serving.page
        sys.stdout.write(json.dumps({"listening": f"{settings.host}:{serving.port}", **listening}) + "\n")
        sys.stdout.flush()
        await stop.wait()
