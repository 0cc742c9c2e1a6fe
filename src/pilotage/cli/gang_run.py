"""`pilotage gang run` and `pilotage gang worker`: a job for real."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pilotage.cli.options import JsonOption, check_place, command_line, console, print_json, results
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.gang.cluster_link import ClusterPlace

EXAMPLE = "Example: pilotage gang run examples/09_gang/job.yaml --supersteps 3 --out out/run"
WORKER_EXAMPLE = "Example: pilotage gang worker job.yaml --task atomic --connect 127.0.0.1:7001"

JobArgument = Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.")]
ZooKeeperOption = Annotated[
    str | None, typer.Option("--zookeeper", metavar="HOST:PORT", help="Meet there instead of in the coordinator.")
]
PatienceOption = Annotated[
    float, typer.Option("--patience", min=0.1, help="Seconds to wait for a ZooKeeper that is away; then the run ends.")
]
NamespaceOption = Annotated[str, typer.Option("--namespace", help="Of the pods.")]
SchedulerOption = Annotated[str, typer.Option("--scheduler", help="Of the pods; for a run one that knows gangs.")]
KubeconfigOption = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Else KUBECONFIG, else the pod's own account.")
]


def run(
    job: JobArgument,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Record, results and report; gone on with there.")],
    controller: Annotated[
        Literal["pilotage", "equal-split"], typer.Option("--controller", help="Who divides the budget.")
    ] = "pilotage",
    supersteps: Annotated[
        int | None, typer.Option("--supersteps", min=1, help="The first so many.  [default: all]")
    ] = None,
    zookeeper: ZooKeeperOption = None,
    patience: PatienceOption = 60.0,
    quota: Annotated[
        Literal["auto", "none"], typer.Option("--quota", help="auto: control groups. none: shares have no effect.")
    ] = "auto",
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds of a superstep's work.")] = 600.0,
    attempts: Annotated[int, typer.Option("--attempts", min=1, max=1000, help="Of one superstep.")] = 5,
    against: Annotated[
        Path | None, typer.Option("--against", metavar="DIR", help="Of another run of the job: report how much faster.")
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", help="Workers are pods of this image; it has pilotage and the programs.")
    ] = None,
    namespace: NamespaceOption = "default",
    scheduler: SchedulerOption = "pilotage",
    kubeconfig: KubeconfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job: one worker per task, each superstep together, quotas changed in place when the budget is divided anew.

    Workers that die or hang are started again. A coordinator that was killed goes on when started with the same --out.
    Exit code 1 when the job had to be given up. With --image workers are pods in a PodGroup and meet in ZooKeeper.
    """
    from pilotage.gang.execution import Limits
    from pilotage.gang.job import check_commands, read_job
    from pilotage.gang.real_run import RealRun
    from pilotage.gang.record import read_record
    from pilotage.gang.working import ended_in_order
    from pilotage.report.gang_run_page import write_run_report
    from pilotage.report.gang_tables import run_table

    check_place(out)
    loaded = read_job(job)
    check_commands(loaded)
    limits = Limits(superstep_seconds=timeout, attempts=attempts)
    place = None if image is None else _place(image, namespace, scheduler, kubeconfig, zookeeper)
    real = RealRun(loaded, job, controller, supersteps, limits, quota == "auto", zookeeper, place, patience)
    other = None if against is None else read_record(against)
    with ended_in_order():
        steps = real.execute(out)
    figures = real.figures(steps, other)
    write_run_report(figures, steps, out / "report.html", command_line())
    real.write(out, figures, command_line())
    if as_json:
        print_json(figures)
    else:
        results().print(run_table(figures, steps))


def _place(image: str, namespace: str, scheduler: str, kubeconfig: Path | None, zookeeper: str | None) -> ClusterPlace:
    from pilotage.gang.cluster_link import ClusterPlace
    from pilotage.kube.access import find_access

    if zookeeper is None:
        raise InputError(
            "is missing: pods do not reach a coordinator that listens on this machine alone",
            field="--zookeeper",
            expected="HOST:PORT that pods and this machine reach",
        )
    return ClusterPlace(find_access(kubeconfig), namespace, image, scheduler)


def worker(
    job: Annotated[
        Path | None, typer.Argument(metavar="[JOB.yaml]", help="The job file; else PILOTAGE_GANG_COMMAND.")
    ] = None,
    *,
    name: Annotated[str, typer.Option("--job", metavar="NAME", help="Of the job, without its file.")] = "",
    task: Annotated[str, typer.Option("--task", metavar="NAME", help="Which task of the job.")],
    connect: Annotated[str | None, typer.Option("--connect", metavar="HOST:PORT", help="Of the coordinator.")] = None,
    zookeeper: ZooKeeperOption = None,
    patience: PatienceOption = 60.0,
    cgroup: Annotated[
        Path | None, typer.Option("--cgroup", metavar="DIR", help="Control group the work enters.")
    ] = None,
) -> None:
    """One worker of a job; `gang run` starts them. The token of the run is in PILOTAGE_GANG_TOKEN.

    Ends with its coordinator: exit code 1 when that is gone.
    """
    from pilotage.gang.crew import COMMAND, TOKEN
    from pilotage.gang.job import command_from, read_job
    from pilotage.gang.meeting import Seat
    from pilotage.gang.quota import Quota
    from pilotage.gang.working import work
    from pilotage.model.errors import UnknownNameError

    if (connect is None) == (zookeeper is None):
        raise InputError("where to meet is not clear", expected="--connect or --zookeeper, one of them")
    if job is None:
        command_for = command_from(os.environ.get(COMMAND, ""))
    else:
        loaded = read_job(job)
        if task not in loaded.names:
            raise UnknownNameError("task", task, loaded.names, field="--task")
        command_for, name = loaded.tasks[loaded.names.index(task)].command_for, loaded.name
    group = Quota(cgroup, 2 if (cgroup / "cpu.max").exists() else 1) if cgroup is not None else None
    token = os.environ.get(TOKEN, "")
    seat: Seat
    if connect is not None:
        from pilotage.gang.embedded import EmbeddedSeat

        seat = EmbeddedSeat(connect, task, token)
    else:
        from pilotage.gang.zookeeper import ZooKeeperSeat

        seat = ZooKeeperSeat(str(zookeeper), name, token, task, patience)
    try:
        done = work(seat, task, lambda size: _entering(command_for(size), group))
    finally:
        seat.close()
    console().print(f"{task}: {done} supersteps done")


def _entering(command: list[str], group: object) -> list[str]:
    from pilotage.gang.quota import Quota

    return group.command(command) if isinstance(group, Quota) else command
