"""Gang runs on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from pilotage.gang.forecast_trial import SHOWN, Trial, best_of
from pilotage.gang.next_division import NextDivision
from pilotage.gang.profiling import Spread
from pilotage.gang.published import ParityRow
from pilotage.gang.record import Superstep
from pilotage.gang.runs import GangRun
from pilotage.sim.statistics import interval

WIDTH = 76  # of a table without the rules at its sides
LEAST_WIDTH = 9  # of a column of totals

if TYPE_CHECKING:
    from rich.console import RenderableType


def new_table(title: str, *columns: str, left: int = 1) -> Table:
    """A table whose first `left` columns are text and whose others are numbers."""
    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < left else "right", no_wrap=True)
    return table


def parity_table(rows: Sequence[ParityRow]) -> RenderableType:
    """The published table beside ours; runs that were never printed are summed up in a line."""
    columns = ("strategy", "sizes", "steps", "cost", "bare", "new", "total", "printed")
    table = new_table("Published experiment", *columns, left=2)
    table.show_edge = False  # all digits fit 80 columns
    shown = [row for row in rows if row.printed]
    for row in shown:
        run = row.run
        cells = [str(run.length), f"{run.penalty:g}", f"{run.bare:.2f}", str(run.redivisions), f"{run.total:.2f}"]
        table.add_row(run.strategy, run.forecast, *cells, f"{'=' if row.equal else '!'} {row.printed}")
    equal = sum(row.equal is True for row in shown)
    spent = sum(row.run.seconds for row in rows)
    return Group(
        table,
        Text(f"{equal} of {len(shown)} printed totals equal; {len(rows)} runs in {spent:.2f} s."),
        Text(
            "sizes: as forecast and stored, or known before. bare: seconds of all supersteps. new: divisions after"
            " the first, at a cost in seconds each. printed: as published, = equal, ! not."
        ),
    )


def forecast_table(trials: Sequence[Sequence[Trial]]) -> RenderableType:
    """Errors per step ahead; says where nothing is better than persistence."""
    horizon = len(trials[0][0].rmse_H)
    steps = [step for step in SHOWN if step <= horizon] or [horizon]
    table = new_table("Errors of forecasts", "series", "forecaster", *(f"+{step}" for step in steps), "", left=2)
    notes = []
    for own in trials:
        chosen, best = best_of(own), min(own, key=lambda trial: float(trial.rmse_H.mean()))
        for number, trial in enumerate(own):
            cells = [f"{trial.rmse_H[step - 1]:.2f}" for step in steps]
            table.add_row(
                trial.series if number == 0 else "", trial.forecaster, *cells, "chosen" if trial is chosen else ""
            )
        if best.forecaster == "persistence":
            notes.append(Text(f"{best.series}: nothing is better than persistence."))
    legend = "Root mean square errors by steps ahead, as sizes: the range of the actual values counts 40."
    legend += "\nChosen on the rows before."
    return Group(table, *notes, Text(legend))


def comparison_table(title: str, runs: Sequence[GangRun], bound: float | None) -> RenderableType:
    """A line per run, or per strategy with its mean where there are several seeds."""
    table = new_table(title, "strategy", "forecasts", "bare", "new", "total", "regret", left=2)
    for name in dict.fromkeys((run.strategy, run.forecast) for run in runs):
        own = [run for run in runs if (run.strategy, run.forecast) == name]
        total = interval([run.total for run in own])
        spread = "" if total.high is None else f" ±{total.high - total.mean:.0f}"
        regret = "" if bound is None else f"{100 * (total.mean / bound - 1):.1f} %"
        bare, new = (sum(column) / len(own) for column in zip(*((r.bare, r.redivisions) for r in own), strict=True))
        table.add_row(*name, f"{bare:.1f}", f"{new:g}", f"{total.mean:.1f}{spread}", regret)
    words = "bare: seconds of all supersteps. new: divisions after the first, each costs the penalty."
    if bound is not None:
        words += f"\nregret: over exact divisions with perfect knowledge and no penalty, {bound:.1f} s."
    return Group(table, Text(words))


def sweep_table(name: str, by_value: Mapping[float, Mapping[str, float]]) -> RenderableType:
    """One table of all would not fit a terminal: as many strategies in each as do."""
    strategies = list(dict.fromkeys(strategy for totals in by_value.values() for strategy in totals))
    tables: list[RenderableType] = []
    for few in _side_by_side(strategies, WIDTH - len(name)):
        table = new_table("" if tables else f"Total seconds by {name}", name, *few)
        for value, totals in by_value.items():
            table.add_row(f"{value:g}", *(f"{totals[s]:.1f}" if s in totals else "-" for s in few))
        tables.append(table)
    return Group(*tables)


def _side_by_side(names: Sequence[str], room: int) -> list[list[str]]:
    """Names of columns, cut into tables of at most so many characters; one that is longer has a table to itself."""
    found: list[list[str]] = []
    left = 0
    for name in names:
        width = max(len(name), LEAST_WIDTH) + 2  # and what is between
        if not found or width > left:
            found.append([])
            left = room
        found[-1].append(name)
        left -= width
    return found


def training_table(trainings: Sequence[Mapping[str, object]]) -> RenderableType:
    table = new_table("Learned", "seed", "gain over the plan", "seconds", "checkpoint")
    for one in trainings:
        table.add_row(str(one["seed"]), f"{one['gain_percent']} %", str(one["seconds"]), str(one["checkpoint"]))
    return table


def run_table(figures: Mapping[str, object], steps: Sequence[Superstep]) -> RenderableType:
    table = new_table("Real run", "figure", "value")
    for name, value in figures.items():
        if name != "failures":
            table.add_row(name.replace("_", " "), str(value))
    events = [Text(f"superstep {step.superstep}: {event}") for step in steps for event in step.events]
    return Group(table, *events)


def profile_table(spreads: Mapping[str, Spread]) -> RenderableType:
    table = new_table("Profile", "task", "cells", "tries", "fastest s", "slowest s", "unsure at most")
    for task, own in spreads.items():
        seconds = [f"{own.mean_SC.min():.3f}", f"{own.mean_SC.max():.3f}"]
        table.add_row(
            task, str(own.mean_SC.size), f"{own.tries_SC.sum():g}", *seconds, f"{100 * own.unsure_SC.max():.1f} %"
        )
    return table


def plan_table(found: NextDivision) -> RenderableType:
    word = "keep" if found.keep else "divide"
    table = new_table(f"Superstep {found.superstep}: {word}", "task", "forecast size", "milli CPU", "exact for it")
    for task, share in found.shares.items():
        table.add_row(task, f"{found.sizes[task]:.1f}", str(share), str(found.exact_shares[task]))
    words = f"forecast {found.seconds:.3f} s, exact {found.exact_seconds:.3f} s"
    if found.window > 1:
        words += f" for {found.window} supersteps, no division is faster by more than {100 * found.exact_gap:.2f} %"
    return Group(table, Text(words))
