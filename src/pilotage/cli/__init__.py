"""The command line: one module per command group."""

from __future__ import annotations

import gc
import logging
import sys

import typer

from pilotage import __version__
from pilotage.cli import (
    apply,
    bench,
    bench_plugin,
    bench_schedule,
    bench_serve,
    bound,
    compare,
    dashboard,
    doctor,
    evaluate,
    explain,
    gang,
    lab,
    lab_demo,
    lab_faults,
    lab_replay,
    lab_top,
    policies,
    record,
    schedule,
    serve,
    simulate,
    trace,
)
from pilotage.cli.later import group_of
from pilotage.model.errors import PilotageError

app = typer.Typer(
    name="pilotage",
    help="Places work on Kubernetes clusters with policies that are measured, learned and explained.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Start with: pilotage compare --trace openb-like --policies fgd,best-fit --seeds 42-46 --out out",
)
app.command(epilog=compare.EXAMPLE)(compare.compare)
app.command(epilog=evaluate.EXAMPLE)(evaluate.evaluate)
app.command(epilog=simulate.EXAMPLE)(simulate.simulate)
app.command(epilog=bound.EXAMPLE)(bound.bound)
app.command(epilog=apply.EXAMPLE)(apply.apply)
app.command(epilog=schedule.EXAMPLE)(schedule.schedule)
app.command(epilog=explain.EXAMPLE)(explain.explain)
app.command(epilog=serve.EXAMPLE)(serve.serve)
app.command(epilog=record.EXAMPLE)(record.record)
app.command(epilog=dashboard.EXAMPLE)(dashboard.dashboard)
app.command(epilog=policies.EXAMPLE)(policies.policies)
app.command(epilog=doctor.EXAMPLE)(doctor.doctor)
app.add_typer(trace.app, name="trace")
app.add_typer(group_of("pilotage.cli.train", "train", "Train an agent, or search for its best settings."))
app.add_typer(bench.app, name="bench")
app.add_typer(lab.app, name="lab")
lab.app.command(epilog=lab_demo.EXAMPLE)(lab_demo.demo)
lab.app.command(epilog=lab_faults.EXAMPLE)(lab_faults.faults)
lab.app.command(epilog=lab_replay.EXAMPLE)(lab_replay.replay)
lab.app.command(epilog=lab_top.EXAMPLE)(lab_top.top)
bench.app.command("schedule", epilog=bench_schedule.EXAMPLE)(bench_schedule.schedule)
bench.app.command("serve", epilog=bench_serve.EXAMPLE)(bench_serve.serve)
bench.app.command("plugin", epilog=bench_plugin.EXAMPLE)(bench_plugin.plugin)
app.add_typer(gang.app, name="gang")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pilotage {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Options before the command."""


class _ForPeople(logging.Handler):
    """What a process has to say, to somebody who waits for it."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{record.getMessage()}\n")  # looked up each time: a progress line may have taken its place


def tell_people_of_compiling() -> None:
    if sys.stderr.isatty():
        logger = logging.getLogger("pilotage.kernels")  # by its name: kernels.compiling takes numba to import
        logger.addHandler(_ForPeople())
        logger.setLevel(logging.INFO)


def main() -> None:
    """Runs a command. Exit codes: 0 done, 1 the answer is bad, 2 bad input or usage."""
    # Start-up makes half a million lasting objects: searching them for garbage every 700 costs a quarter of it.
    gc.set_threshold(100_000, 20, 20)
    tell_people_of_compiling()
    try:
        app()
    except PilotageError as error:
        sys.stderr.write(f"pilotage: error: {error}\n")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
