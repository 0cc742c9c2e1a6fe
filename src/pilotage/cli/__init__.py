"""The command line: one module per command group."""

from __future__ import annotations

import gc
import sys

import typer

from pilotage import __version__
from pilotage.cli import apply, bench, bound, compare, doctor, evaluate, policies, simulate, trace, train
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
app.command(epilog=policies.EXAMPLE)(policies.policies)
app.command(epilog=doctor.EXAMPLE)(doctor.doctor)
app.add_typer(trace.app, name="trace")
app.add_typer(train.app, name="train")
app.add_typer(bench.app, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pilotage {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Options before the command."""


def main() -> None:
    """Runs a command. Exit codes: 0 done, 1 the answer is bad, 2 bad input or usage."""
    # Start-up makes half a million lasting objects: searching them for garbage every 700 costs a quarter of it.
    gc.set_threshold(100_000, 20, 20)
    try:
        app()
    except PilotageError as error:
        sys.stderr.write(f"pilotage: error: {error}\n")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
