"""`pilotage gang forecast`: which forecaster is best for a series, and its forecasts as files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilotage.cli.options import JsonOption, check_place, command_line, console, print_json, progress_bar, results
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from pilotage.gang.forecast_trial import Trial
    from pilotage.gang.forecasting import Forecaster

EXAMPLE = "Example: pilotage gang forecast examples/09_gang/series/*.csv --rows 200"


def forecast(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Series: CSV with timestamp,value.")],
    *,
    forecasters: Annotated[
        str | None,
        typer.Option(
            "--forecasters",
            metavar="LIST",
            help="Also: classical (statsmodels), learned (torch).  [default: all but these]",
        ),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, max=100_000, help="Moments with forecasts.")] = 1000,
    horizon: Annotated[int, typer.Option("--horizon", min=1, max=200, help="Steps ahead.")] = 20,
    most: Annotated[int, typer.Option("--most", min=10, max=1_000_000, help="Values of a series to use.")] = 5000,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write forecasts and actual values there, as published.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Roll forecasters over series, without future data, and say how good they are at which step ahead.

    Errors are root mean squares, as sizes: the range of the actual values counts 40. Chosen, and stored by --out, is
    the one that was best on the rows before those that are shown.
    """
    from pilotage.gang.forecast_trial import DEFAULT, Split, best_of, forecaster_by_name, try_forecasters
    from pilotage.gang.series import read_series
    from pilotage.report.gang_tables import forecast_table

    check_place(out)
    names = DEFAULT if forecasters is None else tuple(part.strip() for part in forecasters.split(",") if part.strip())
    if not names:
        raise InputError(f"{forecasters!r} names none", field="--forecasters", expected="such as persistence,combined")
    others = {"learned": _learned} if "learned" in names or find_spec("torch") is not None else {}
    for name in names:
        forecaster_by_name(name, others)
    split = Split(rows, horizon)
    loaded = [read_series(path, most) for path in files]
    for series in loaded:
        split.first(series)
    trials: list[list[Trial]] = []
    with progress_bar(console(), "forecasting") as advance:
        for number, series in enumerate(loaded, 1):
            trials.append(try_forecasters(series, names, split, others))
            advance(number, len(loaded))
    if out is not None:
        from pilotage.gang.forecast_trial import actual_values, write_published
        from pilotage.workloads.files import make_directory, replace_file
        from pilotage.workloads.result_files import dump

        make_directory(out)
        for series, own in zip(loaded, trials, strict=True):
            write_published(out / "forecasts" / f"{series.name}.csv", best_of(own).forecast_TH)
            actual_TH = actual_values(series, split.first(series), rows, horizon)
            write_published(out / "actual" / f"{series.name}.csv", actual_TH)
        replace_file(out / "results.json", dump({"series": _figures(trials), "made_by": {"command": command_line()}}))
    if as_json:
        print_json({"series": _figures(trials)})
    else:
        results().print(forecast_table(trials))


def _learned() -> Forecaster:
    if find_spec("torch") is None:
        raise InputError("learned needs torch", field="--forecasters", expected="pip install 'pilotage[train]'")
    from pilotage.training.gang_forecasts import LearnedForecaster

    return LearnedForecaster()


def _figures(trials: list[list[Trial]]) -> list[dict[str, object]]:
    from pilotage.gang.forecast_trial import best_of

    return [
        {
            "series": trial.series,
            "forecaster": trial.forecaster,
            "rmse": [round(float(error), 6) for error in trial.rmse_H],
            "chosen": trial is best_of(own),
        }
        for own in trials
        for trial in own
    ]
