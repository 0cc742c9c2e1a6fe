"""`pilotage schedule`: places the pods of a cluster that ask for it by schedulerName."""

from __future__ import annotations

import gc
import json
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotage.cli.dashboard import loopback_place, showing
from pilotage.cli.options import PodsOption, TraceOption, check_place, console
from pilotage.cli.schedule_learning import check_learning, learning_beside
from pilotage.model.errors import InputError
from pilotage.workloads.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilotage.dashboard.serving import Place
    from pilotage.policies.api import Policy, WorkloadMix
    from pilotage.scheduler.endpoint import EndpointSettings
    from pilotage.scheduler.run import Settings

# Objects made before the next search for garbage. By default that is done for every pod or two, and finds nothing:
# hardly anything here refers to itself.
COLLECTED_AFTER = 50_000
EXAMPLE = "Example: pilotage schedule --kubeconfig $(pilotage lab kubeconfig) --profile pilotage=pilotage-pack"


def schedule(
    *,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            "--profile",
            metavar="NAME=POLICY",
            help="schedulerName and policy; repeatable.  [default: pilotage=fgd]",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Else KUBECONFIG, else the pod's own account.")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="Of the kubeconfig.")] = None,
    pods: PodsOption = None,
    trace: TraceOption = None,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", min=1, max=65535, help="Serve metrics on loopback.")
    ] = None,
    dashboard: Annotated[
        str | None, typer.Option("--dashboard", metavar="HOST:PORT", help="Show all this as a web page, on loopback.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="IP:PORT", help="Serve /healthz, /readyz and /metrics there too."),
    ] = None,
    tls: Annotated[
        Path | None,
        typer.Option("--tls", metavar="DIR", help="For --listen: tls.crt, tls.key; ca.crt of who may read /metrics."),
    ] = None,
    leader_election: Annotated[
        bool, typer.Option("--leader-election/--no-leader-election", help="Off only where no second one can start.")
    ] = True,
    lease_name: Annotated[str, typer.Option("--lease-name", help="Schedulers with the same name take turns.")] = (
        "pilotage-scheduler"
    ),
    lease_seconds: Annotated[
        float, typer.Option("--lease-seconds", min=1.0, max=600.0, help="Renewed within two thirds of it.")
    ] = 15.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of random choices.")] = 0,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Figures of the run as JSON, written at its end.")
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option("--node-selector", metavar="LABELS", help="Use only nodes with these labels, as pool=gpu,!spot."),
    ] = None,
    preempt: Annotated[
        bool, typer.Option("--preempt/--no-preempt", help="Whether pods of lower priority may be told to go.")
    ] = True,
    gang_seconds: Annotated[
        float, typer.Option("--gang-timeout", min=1.0, help="Seconds that a gang has, where its group does not say.")
    ] = 600.0,
    advise: Annotated[
        Path | None,
        typer.Option(
            "--advise",
            metavar="FILE",
            help="Bind nothing: write what would have been done beside what was, as .csv or .parquet. Profiles name "
            "the schedulers that are watched.  [default profile: default-scheduler=fgd]",
        ),
    ] = None,
    explain: Annotated[
        Literal["annotation", "log", "off"],
        typer.Option("--explain", help="Where every decision says why: on the pod, as a line, or nowhere."),
    ] = "annotation",
    learn: Annotated[
        Path | None,
        typer.Option("--learn", metavar="DIR", help="Tune the first profile's policy to this cluster, beside it."),
    ] = None,
    learn_every: Annotated[
        float, typer.Option("--learn-every", min=1.0, help="Seconds of watching before each attempt.")
    ] = 600.0,
) -> None:
    """Schedule the pods of a cluster whose schedulerName is one of the profiles, until it is told to end.

    Policies expect pods like those they see; with --pods or --trace, like those of a trace.
    """
    import asyncio

    import uvloop

    from pilotage.kube.lease import own_identity
    from pilotage.kube.selectors import read_label_selector
    from pilotage.scheduler.endpoint import EndpointSettings
    from pilotage.scheduler.run import Settings

    if report is not None:
        check_place(report.parent, "--report")
    if tls is not None and listen is None:
        raise InputError("has no effect without --listen", field="--tls")
    if learn is not None and advise is not None:
        raise InputError("has no effect with --advise, which binds nothing to learn from", field="--learn")
    policies = _profiles(profile or ["pilotage=fgd" if advise is None else "default-scheduler=fgd"])
    if learn is not None:
        check_learning(policies)
    start = (profile or [""])[0].partition("=")[2]
    settings = Settings(
        seed=seed,
        mix=_mix(pods, trace),
        instance=own_identity(),
        explain=explain,
        pool=read_label_selector(pool, "--node-selector") if pool is not None else None,
        preempt=preempt,
        gang_seconds=gang_seconds,
    )
    place = loopback_place(dashboard) if dashboard is not None else None
    endpoint = EndpointSettings.of(listen, tls) if listen is not None else None
    election = (lease_name, lease_seconds) if leader_election else None
    cluster = (kubeconfig, context)
    learning = (learn, start, learn_every) if learn is not None else None
    work = _run(
        policies, settings, cluster, election, (metrics_port, place), console().print, endpoint=endpoint, learn=learning
    )
    if advise is not None:
        from pilotage.cli.schedule_advising import run_adviser

        work.close()
        work = run_adviser(policies, settings, cluster, advise, (metrics_port, place, endpoint))
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER, 20, 100)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # a third less time per request
        figures = runner.run(work)
    if report is not None:
        replace_file(report, json.dumps(figures).encode())


def _profiles(texts: list[str]) -> dict[str, Policy]:
    from pilotage.policies.registry import find_policy

    found: dict[str, Policy] = {}
    for text in texts:
        name, equals, policy = text.partition("=")
        if not equals or not name or not policy:
            raise InputError(f"{text!r} is no profile", field="--profile", expected="schedulerName=policy")
        if name in found:
            raise InputError(f"the name {name!r} is given twice", field="--profile", expected="each name once")
        found[name] = find_policy(policy)
    return found


def _mix(pods: Path | None, trace: str | None) -> WorkloadMix | None:
    from pilotage.policies.api import WorkloadMix
    from pilotage.workloads.trace import load_pods

    return WorkloadMix.of(load_pods(pods, trace)) if pods is not None or trace is not None else None


async def _run(
    policies: dict[str, Policy],
    settings: Settings,
    cluster: tuple[Path | None, str | None],
    election: tuple[str, float] | None,
    pages: tuple[int | None, Place | None],
    say: Callable[[str], None],
    *,
    endpoint: EndpointSettings | None = None,
    learn: tuple[Path, str, float] | None = None,
) -> dict[str, float]:
    import asyncio

    from pilotage.kube.access import find_access
    from pilotage.kube.client import Client
    from pilotage.kube.lease import Lease, LeaseSettings
    from pilotage.model.clock import SystemClock
    from pilotage.scheduler.cycle import compile_decisions
    from pilotage.scheduler.endpoint import answering
    from pilotage.scheduler.explaining import line
    from pilotage.scheduler.run import Scheduler
    from pilotage.scheduler.status_pages import serve_status

    clock, access = SystemClock(), find_access(*cluster)
    compile_decisions(policies.values())  # before it leads: meanwhile another one can
    lease = None
    if election is not None:
        name, seconds = election
        times = LeaseSettings(name, "kube-system", seconds, seconds * 2 / 3, min(2.0, seconds / 5))
        told = lambda leads: say("leads now" if leads else "does not lead")  # noqa: E731
        lease = Lease(access, settings.instance, clock, times, told)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Client(access, agent="pilotage-scheduler") as client:
        scheduler = Scheduler(client, policies, clock, settings, lease, say)
        if settings.explain == "log":
            scheduler.on_decision = lambda decision: say(line(decision))
        metrics_port, place = pages
        status = None
        if metrics_port is not None:
            status = serve_status(metrics_port, scheduler.metrics.registry, scheduler.journal)
        say(f"schedules for {', '.join(f'{name} by {policy.name}' for name, policy in policies.items())}")
        try:
            async with AsyncExitStack() as stack:
                answers = answering(endpoint, scheduler.metrics.registry, scheduler.missing, say)
                await stack.enter_async_context(answers)
                if place is not None:
                    url = await stack.enter_async_context(showing(scheduler, clock, place))
                    say(f"the dashboard is at {url}")
                await stack.enter_async_context(learning_beside(scheduler, learn, cluster, stop, say))
                await scheduler.run(stop)
        finally:
            if status is not None:
                await asyncio.to_thread(status.shutdown)
                status.server_close()
    figures = scheduler.figures()
    say(f"pods bound: {figures['bound']:.0f}; requests for each: {figures['api_calls_per_pod']:.2f}")
    return figures
