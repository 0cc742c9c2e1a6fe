"""`pilotage train`: one command per agent, made from its settings, and the search for better ones."""

from __future__ import annotations

import inspect
import logging
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from pilotage.cli import evolution, train_cluster
from pilotage.cli.options import JsonOption, check_place, console, expect_alone, print_json, results, training_progress
from pilotage.model.errors import InputError
from pilotage.training.settings import AGENTS, TrainingSettings, changed_options, option_name, settings_from

if TYPE_CHECKING:
    from pilotage.training.run_directory import RunDirectory

app = typer.Typer(name="train", help="Train an agent, or search for its best settings.", no_args_is_help=True)

OUT = Path("out") / "train"
SUMMARIES = {
    "mlp": "A scorer that foretells the effect of a placement, learned from placements that were made.",
    "dqn": "Double DQN with a target network, over candidates.",
    "gnn-dqn": "The same with attention over the graph of nodes, racks and zones.",
    "ac-mlp": "Advantage actor-critic.",
    "ac-gnn": "Advantage actor-critic with attention over the graph of nodes, racks and zones.",
    "ppo": "Proximal policy optimisation.",
    "imitation": "Learn the decisions of a policy, or those of a recording.",
}
NEEDED = ("torch", "torch_geometric", "tensorboard", "optuna")  # of the extra `train`

OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where directories of runs are.")]
NameOption = Annotated[
    str | None, typer.Option("--name", help="Of the run: its directory and its policy; else drawn by the seed.")
]
ResumeOption = Annotated[
    Path | None, typer.Option("--resume", metavar="DIR", help="Go on with this run, which has its settings with it.")
]
ProgressOption = Annotated[
    Literal["line", "log", "none"],
    typer.Option("--progress", help="line: one that is renewed, on a terminal; log: the lines of train.log; none."),
]


def _agent_command(agent: str) -> Callable[..., None]:
    """A command with an option for every setting of the agent."""

    def command(
        ctx: typer.Context,
        *,
        out: Path,
        name: str | None,
        resume: Path | None,
        progress: str,
        as_json: bool,
        **given: Any,
    ) -> None:
        expect_extra()
        if resume is not None:
            expect_alone(ctx, "resume", "progress", "as_json")
            run = _existing(resume, agent)
        else:
            run = _fresh(out, name, agent, settings_from(agent, given))
        _train(run, progress, as_json)

    own = [
        _parameter("ctx", typer.Context),
        _parameter("out", OutOption, OUT),
        _parameter("name", NameOption, None),
        _parameter("resume", ResumeOption, None),
        _parameter("progress", ProgressOption, "line"),
        _parameter("as_json", JsonOption, False),
    ]
    parameters = [*own, *_setting_parameters(AGENTS[agent])]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = SUMMARIES[agent]
    return command


def _parameter(name: str, annotation: object, default: object = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _setting_parameters(defaults: TrainingSettings) -> list[inspect.Parameter]:
    types = get_type_hints(type(defaults))
    parameters = []
    for entry in fields(defaults):
        bounds = entry.metadata["bounds"]
        kind = types[entry.name]
        limits = {} if bounds is None else {"min": kind(bounds.least), "max": kind(bounds.most)}
        value = getattr(defaults, entry.name)
        option = typer.Option(
            option_name(entry.name),
            help=entry.metadata["help"],
            rich_help_panel=entry.metadata["group"],
            show_default=value not in ("", 0.0) or bounds is not None,
            **limits,
        )
        parameters.append(_parameter(entry.name, Annotated[kind, option], value))
    return parameters


for _agent in AGENTS:
    _example = f"Example: pilotage train {_agent} --env balance --nodes 3-16 --seed 1 --name my-{_agent}"
    app.command(_agent, epilog=_example)(_agent_command(_agent))
app.command(epilog=evolution.EXAMPLE)(evolution.evolution)
app.command(epilog=train_cluster.EXAMPLE)(train_cluster.cluster)


@app.command(epilog="Example: pilotage train search dqn --trials 20 --set steps=50000 --name my-search")
def search(
    ctx: typer.Context,
    *,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="As in pilotage train AGENT.")],
    trials: Annotated[int, typer.Option("--trials", min=1, max=100_000, help="Settings to try.")] = 20,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of all trials, not searched for; repeatable."),
    ] = None,
    out: OutOption = OUT,
    name: NameOption = None,
    resume: ResumeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try settings of an agent (Optuna) and print the best, with the command that uses them.

    Trials that are done are kept: --resume goes on with them.
    """
    expect_extra()
    from pilotage.training.search import Search, parse_settings

    if resume is not None:
        expect_alone(ctx, "resume", "as_json", "agent", "trials")
        looked = Search.existing(resume, agent)
    else:
        check_place(out)
        looked = Search.fresh(out, name, agent, parse_settings(agent, settings or []))
    screen = console()
    screen.print(f"search in {looked.path}", soft_wrap=True)
    try:
        found = looked.carry_on(
            trials,
            lambda number, value: screen.print(f"trial {number}: {value:.6g}"),
            lambda number, reason: screen.print(f"trial {number} left out: {reason}", soft_wrap=True, markup=False),
        )
    except KeyboardInterrupt:
        words = f"pilotage train search {agent} --trials {trials} --resume {looked.path}"
        screen.print(f"stopped; to go on: {words}", soft_wrap=True)
        raise typer.Exit(130) from None
    command = shlex.join(["pilotage", "train", agent, *changed_options(agent, found.settings)])
    if as_json:
        print_json({"agent": agent, "trial": found.trial, "value": found.value, "settings": asdict(found.settings)})
        return
    results().print(f"best of {found.trials}: trial {found.trial}, {found.value:.6g}")
    results().print(command, soft_wrap=True)


def expect_extra() -> None:
    missing = [name for name in NEEDED if util.find_spec(name) is None]
    if missing:
        raise InputError(f"training needs {', '.join(missing)}", expected="pip install 'pilotage[train]'")


def _existing(path: Path, agent: str) -> RunDirectory:
    from pilotage.training.run_directory import RunDirectory

    run = RunDirectory.existing(path)
    if run.agent != agent:
        raise InputError(f"is a run of {run.agent}", file=path, expected=f"pilotage train {run.agent} --resume {path}")
    return run


def _fresh(out: Path, name: str | None, agent: str, settings: TrainingSettings) -> RunDirectory:
    from pilotage.training.algorithms import make_learner
    from pilotage.training.run_directory import RunDirectory

    check_place(out)
    make_learner(settings)  # what cannot be trained is refused before anything is written
    return RunDirectory.fresh(out, name, agent, settings)


def _train(run: RunDirectory, progress: str, as_json: bool) -> None:
    from pilotage.training.loop import train

    screen = console()
    screen.print(f"{run.agent} in {run.path}", soft_wrap=True)
    try:
        with _log_lines(run, show=progress == "log"), training_progress(show=progress == "line") as tell:
            summary = train(run, lambda update: tell(*update))
    except KeyboardInterrupt:
        screen.print(f"stopped; to go on: pilotage train {run.agent} --resume {run.path}", soft_wrap=True)
        raise typer.Exit(130) from None
    if as_json:
        print_json(summary)
    else:
        _print_summary(run, summary)


@contextmanager
def _log_lines(run: RunDirectory, *, show: bool) -> Iterator[None]:
    """What the log gets, on standard error too."""
    handler = logging.StreamHandler(sys.stderr)
    if show:
        run.logger.addHandler(handler)
    try:
        yield
    finally:
        run.logger.removeHandler(handler)


def _print_summary(run: RunDirectory, summary: dict[str, Any]) -> None:
    from rich.table import Table

    validation: dict[str, dict[str, float]] = summary["validation"]
    names = [name for name in validation[run.agent] if any(row[name] for row in validation.values())]
    table = Table(
        "figure", *validation, title=f"Held-out episodes, best of {run.path.name} (step {summary['best_step']})"
    )
    for name in names:
        table.add_row(name.replace("_", " "), *(f"{row[name]:.5g}" for row in validation.values()))
    results().print(table)
    results().print(f"policy: {run.best}", soft_wrap=True)
