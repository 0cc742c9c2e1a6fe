"""`pilotage gang profile`: measure the tasks of a job."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from pilotage.cli.gang_run import KubeconfigOption, NamespaceOption, SchedulerOption
from pilotage.cli.options import JsonOption, command_line, console, print_json, progress_bar, results
from pilotage.model.errors import InputError

EXAMPLE = "Example: pilotage gang profile examples/09_gang/job.yaml --sizes 10,30 --shares 500,1000 --out out/profile"


def profile(
    job: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file; its profile is not needed.")],
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="profile.csv and report.html; gone on with there.")],
    sizes: Annotated[str, typer.Option("--sizes", metavar="LIST", help="Such as 10,20 or 10-50:10.")] = "10-50:10",
    shares: Annotated[
        str, typer.Option("--shares", metavar="LIST", help="Milli CPU, such as 200-1400:300.")
    ] = "200-1400:300",
    measurements: Annotated[
        int | None, typer.Option("--measurements", min=1, help="In all.  [default: three per cell]")
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", help="Measure in pods of this image, one at a time; it has the programs.")
    ] = None,
    namespace: NamespaceOption = "default",
    scheduler: SchedulerOption = "default-scheduler",
    kubeconfig: KubeconfigOption = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds of one measurement.")] = 3600.0,
    as_json: JsonOption = False,
) -> None:
    """Measure how long the tasks of a job take by size and share, under a CPU quota or limit, one at a time.

    Every cell once, then again where a model is least sure; which model describes the tasks best is said. Started again
    with the same --out it goes on. Exit code 1 when a command fails.
    """
    from pilotage.gang.cluster_link import ClusterPlace
    from pilotage.gang.job import check_commands, read_job
    from pilotage.gang.monotone_durations import choose_durations
    from pilotage.gang.own_directory import alone_in, mark_of, run_of
    from pilotage.gang.profiling import Cell, ProfileFile, QuotaRunner, Runner, measure, spread_of
    from pilotage.gang.quota import make_quota
    from pilotage.gang.working import ended_in_order
    from pilotage.kube.access import find_access
    from pilotage.report.gang_durations import durations_figures, durations_table
    from pilotage.report.gang_profile_page import write_profile_report
    from pilotage.report.gang_tables import profile_table

    loaded = read_job(job, profiled=False)
    check_commands(loaded)
    cells = [
        Cell(task, size, int(share))
        for task in loaded.names
        for size in _numbers(sizes, "--sizes")
        for share in _numbers(shares, "--shares")
    ]
    commands = {task.name: task.command_for for task in loaded.tasks}

    def command_of(task: str, size: float) -> list[str]:
        return commands[task](size)

    with ended_in_order(), ExitStack() as stack:
        stack.enter_context(alone_in(out))
        runner: Runner
        if image is None:
            quota = make_quota(f"{loaded.name}-{mark_of(out)}-profile")
            stack.callback(quota.remove)
            runner = QuotaRunner(command_of, quota, timeout)
        else:
            from pilotage.gang.profiling_pods import PodRunner

            place = ClusterPlace(find_access(kubeconfig), namespace, image, scheduler)
            runner = PodRunner(command_of, place, loaded.name, run_of(out), timeout)
            stack.callback(runner.close)
        with progress_bar(console(), "measuring") as advance:
            file = ProfileFile(out / "profile.csv")
            found = measure(file, cells, runner, measurements or 3 * len(cells), advance)
    spreads = {task: spread_of(found, task) for task in loaded.names}
    choice = choose_durations(found, loaded.names)
    write_profile_report(loaded.name, spreads, choice, out / "report.html", command_line())
    if as_json:
        print_json(
            {
                "profile": str(out / "profile.csv"),
                "measurements": len(found.seconds_M),
                "tasks": [
                    {"task": task, "cells": int(own.mean_SC.size), "worst_unsureness": float(own.unsure_SC.max())}
                    for task, own in spreads.items()
                ],
                "durations": durations_figures(choice, "best"),
            }
        )
    else:
        results().print(profile_table(spreads))
        results().print(durations_table(choice, "best"))


def _numbers(text: str, option: str) -> list[float]:
    """Numbers such as 10,20 or 10-50:10."""
    found: list[float] = []
    for part in text.split(","):
        span = re.fullmatch(r"\s*(\d{1,6})-(\d{1,6}):(\d{1,6})\s*", part)
        if span and int(span[3]) > 0:
            found += range(int(span[1]), int(span[2]) + 1, int(span[3]))
        elif re.fullmatch(r"\s*\d{1,6}(\.\d{1,3})?\s*", part):
            found.append(float(part))
        else:
            raise InputError(f"cannot read {part!r}", field=option, expected="numbers such as 10,20 or 10-50:10")
    if not found or min(found) <= 0 or len(found) > 1000:
        raise InputError(f"{text!r}", field=option, expected="1 to 1000 numbers above 0")
    return list(dict.fromkeys(found))
