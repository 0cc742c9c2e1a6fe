"""The forecaster that learns: no look ahead, the same every time, better than its regression where there is more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from pilotage.cli import gang_forecast
from pilotage.cli.gang import app
from pilotage.gang.forecast_trial import actual_values, rmse
from pilotage.gang.forecasting import Forecaster, Persistence
from pilotage.gang.series import Series
from pilotage.model.errors import InputError
from pilotage.training.gang_forecasts import LearnedForecaster

HOUR = 3600.0
FIRST, ROWS, AHEAD = 1100, 60, 2


def bent_series(values: int = 1200, seed: int = 0) -> Series:
    """A change follows from the one before by a bend: to a linear regression nearly pure chance."""
    rng = np.random.default_rng(seed)
    change_N = np.zeros(values)
    for n in range(1, values):
        change_N[n] = 0.9 - 1.8 * abs(change_N[n - 1]) + rng.uniform(-0.02, 0.02)
    return Series("bent", np.arange(values, dtype=np.float64) * HOUR, (change_N - change_N.mean()).cumsum())


@pytest.fixture(scope="module")
def series() -> Series:
    return bent_series()


def test_it_learns_what_a_regression_cannot(series: Series) -> None:
    actual_TH = actual_values(series, FIRST, ROWS, AHEAD)
    found: dict[str, Forecaster] = {
        "learned": LearnedForecaster(),
        "regression alone": LearnedForecaster(epochs=0),
        "persistence": Persistence(),
    }
    errors = {name: rmse(one.roll(series, FIRST, ROWS, AHEAD), actual_TH)[0] for name, one in found.items()}
    assert errors["learned"] < 0.8 * errors["regression alone"] < 0.8 * errors["persistence"]


def test_the_same_seed_gives_the_same_forecasts_whatever_was_drawn_before(series: Series) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first_TH = LearnedForecaster().roll(series, FIRST, ROWS, AHEAD)
    assert torch.equal(before, torch.get_rng_state())
    torch.rand(7)
    assert (LearnedForecaster().roll(series, FIRST, ROWS, AHEAD) == first_TH).all()
    assert (LearnedForecaster(seed=1).roll(series, FIRST, ROWS, AHEAD) != first_TH).any()


@pytest.mark.parametrize("changed", [0, 17, ROWS - 2])
def test_forecasts_do_not_depend_on_what_comes_later(series: Series, changed: int) -> None:
    other = replace(series, value_N=series.value_N.copy())
    other.value_N[FIRST + changed :] = 100.0
    before_TH, after_TH = (LearnedForecaster().roll(own, FIRST, ROWS, AHEAD) for own in (series, other))
    assert (before_TH[: changed + 1] == after_TH[: changed + 1]).all()
    assert (before_TH[changed + 1 :] != after_TH[changed + 1 :]).any()


def test_too_few_values_and_values_that_never_change() -> None:
    short = bent_series(120)
    assert (LearnedForecaster().roll(short, 80, 20, 3) == Persistence().roll(short, 80, 20, 3)).all()
    flat = Series("flat", np.arange(1200, dtype=np.float64) * HOUR, np.full(1200, 3.0))
    assert LearnedForecaster().roll(flat, FIRST, ROWS, 3) == pytest.approx(np.full((ROWS, 3), 3.0))


def test_the_command_knows_it(tmp_path: Path, series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bent.csv"
    lines = [f"{np.datetime64('2025-01-01T00') + n},{value}" for n, value in enumerate(series.value_N)]
    path.write_text("timestamp,value\n" + "\n".join(lines) + "\n")
    options = ["forecast", str(path), "--forecasters", "persistence,learned", "--rows", "60", "--horizon", "2"]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    assert "learned" in result.output
    monkeypatch.setattr(gang_forecast, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"learned needs torch; expected pip install 'pilotage\[train\]'"):
        CliRunner().invoke(app, options, catch_exceptions=False)
