"""Forecasters: none looks ahead, each does what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.gang.combining import combine
from pilotage.gang.csv_files import read_matrix
from pilotage.gang.forecast_trial import (
    FORECASTERS,
    Split,
    actual_values,
    best_of,
    forecaster_by_name,
    rmse,
    try_forecasters,
    write_published,
)
from pilotage.gang.forecasting import DAY, Persistence, SeasonalMean
from pilotage.gang.series import Series, read_series
from pilotage.model.errors import InputError
from reference.strategies import checked

STEP = 3600.0 * 3  # eight values a day


def rhythm(values: int, seed: int = 0, noise: float = 1.0, gap: int = 0) -> Series:
    """A daily rhythm with noise; times jump by a day at value `gap`."""
    rng = np.random.default_rng(seed)
    time_N = np.arange(values, dtype=np.float64) * STEP
    if gap:
        time_N[gap:] += DAY
    return Series("rhythm", time_N, 50 + 20 * np.sin(2 * np.pi * time_N / DAY) + noise * rng.normal(size=values))


@pytest.mark.parametrize("name", FORECASTERS)
@given(changed=st.integers(151, 199), seed=st.integers(0, 99), gap=st.sampled_from([0, 90, 170]))
@checked(5)
def test_forecasts_do_not_depend_on_what_comes_later(name: str, changed: int, seed: int, gap: int) -> None:
    series = rhythm(200, seed, gap=gap)
    other = Series("other", series.time_N.copy(), series.value_N.copy())
    other.value_N[changed:] = np.random.default_rng(seed).uniform(0, 1000, 200 - changed)
    first, rows = 150, 50
    before_TH = forecaster_by_name(name).roll(series, first, rows, 4)
    after_TH = forecaster_by_name(name).roll(other, first, rows, 4)
    made_before = changed - first + 1  # the row made when the first changed value is the next
    assert before_TH[:made_before] == pytest.approx(after_TH[:made_before], rel=1e-9)
    assert np.isfinite(after_TH).all()


def test_persistence_and_seasons() -> None:
    series = rhythm(40, noise=0.0)
    last_TH = Persistence().roll(series, 20, 5, 3)
    assert last_TH[2].tolist() == [series.value_N[21]] * 3
    season_TH = SeasonalMean(DAY).roll(series, 20, 5, 3)
    assert season_TH == pytest.approx(actual_values(series, 20, 5, 3))
    assert SeasonalMean(DAY, 2).roll(series, 4, 2, 2) == pytest.approx(Persistence().roll(series, 4, 2, 2))


@pytest.mark.parametrize("name", ["regression", "combined", "classical"])
def test_a_rhythm_is_learned(name: str) -> None:
    series = rhythm(400, seed=3)
    split = Split(100, 8)
    trials = {
        trial.forecaster: trial for trial in try_forecasters(series, ["persistence", "seasonal-day", name], split)
    }
    assert (trials[name].rmse_H < 0.5 * trials["persistence"].rmse_H)[1:6].all()  # eight steps are a day
    assert trials[name].rmse_H.mean() < trials["seasonal-day"].rmse_H.mean()


def test_where_nothing_beats_persistence_it_is_chosen() -> None:
    steps = np.random.default_rng(8).normal(size=600).cumsum()
    walk = Series("walk", np.arange(600, dtype=np.float64) * STEP, steps)
    trials = try_forecasters(walk, ["persistence", "seasonal-day", "seasonal-week"], Split(200, 5))
    assert best_of(trials).forecaster == "persistence"


def test_what_is_chosen_does_not_depend_on_the_rows_it_is_for() -> None:
    series, split = rhythm(400, seed=3), Split(100, 4)
    first = split.first(series)
    names = ["persistence", "seasonal-day", "seasonal-week"]
    other = Series(series.name, series.time_N, series.value_N.copy())
    other.value_N[first:] = np.random.default_rng(1).normal(size=len(series) - first).cumsum()
    chosen, again = (best_of(try_forecasters(own, names, split)) for own in (series, other))
    assert chosen.forecaster == again.forecaster == "seasonal-day"
    assert again.rmse_H.mean() > min(t.rmse_H.mean() for t in try_forecasters(other, names, split))


def test_those_that_were_right_count_more() -> None:
    value_N = np.zeros(60)
    good_TH, bad_TH = np.full((50, 2), 1.0), np.full((50, 2), -5.0)
    out_TH = combine(np.stack([good_TH, bad_TH]), value_N, 10, 4.0, 20.0)
    assert out_TH[0].tolist() == [-2.0, -2.0]  # nothing is known yet
    assert out_TH[1, 0] > 0.9
    assert out_TH[1, 1] == -2.0  # the first value two steps ahead has not come
    assert (out_TH[2:] > 0.9).all()


def test_errors_are_measured_in_sizes() -> None:
    actual_TH = np.array([[0.0], [100.0]])
    assert rmse(actual_TH + 10, actual_TH).tolist() == [4.0]


def test_published_format(tmp_path: Path) -> None:
    path = tmp_path / "forecasts" / "x.csv"
    value_TH = np.array([[1.25, 2.0], [3.0, 4.5]])
    write_published(path, value_TH)
    assert path.read_text().splitlines()[0] == "# t, t+1"
    assert read_matrix(path).tolist() == value_TH.tolist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,value\n", "row 1: columns 'time,value'; expected timestamp,value"),
        ("timestamp,value\n2014-07-01 00:00:00,1\n", "has 1 values"),
        ("timestamp,value\n2014-07-01 00:00:00,1\nyesterday,2\n", "row 3, timestamp: 'yesterday'"),
        ("timestamp,value\n2014-07-01 00:00:00,1\n2014-07-01 00:00:00,2\n", "row 3, timestamp"),
        ("timestamp,value\n2014-07-01 00:00:00,\n", "row 2, value: is missing"),
        ("timestamp,value\n2014-07-01 00:00:00\n", "row 2: 1 cells"),
    ],
)
def test_bad_series(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "series.csv"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_series(path)
    assert said in str(refused.value)


def test_series_that_are_too_short_and_unknown_forecasters() -> None:
    with pytest.raises(InputError, match="rhythm has 20 values; expected at most 14 rows of 5 steps"):
        Split(18, 5).first(rhythm(20))
    with pytest.raises(InputError, match="unknown forecaster 'combine'; did you mean 'combined'"):
        forecaster_by_name("combine")
    with pytest.raises(InputError, match="forecasts from value 0 on"):
        Persistence().roll(rhythm(20), 0, 5, 2)


# The published series: errors of a simple regression, 1, 5, 10 and 20 steps ahead, from the reference.
SIMPLE = {
    "nyc_taxi_1": (1.02, 1.55, 1.62, 1.67),
    "nyc_taxi_2": (1.03, 2.65, 3.36, 3.18),
    "nyc_taxi_3": (1.10, 1.54, 1.53, 1.54),
    "nyc_taxi_4": (1.02, 2.85, 3.76, 4.01),
    "art_daily_small_noise": (1.97, 1.98, 1.97, 1.98),
    "ambient_temperature_system_failure_1": (1.90, 2.78, 3.62, 4.62),
    "ambient_temperature_system_failure_2": (2.095, 2.80, 3.43, 4.16),
    "ambient_temperature_system_failure_3": (2.16, 3.35, 4.34, 5.04),
}


@pytest.mark.data
def test_errors_on_the_published_series(gang_data: Path) -> None:
    lower = 0
    for name, wanted in SIMPLE.items():
        series = read_series(gang_data / "series" / f"{name}.csv", 5000)
        (trial,) = try_forecasters(series, ["combined"], Split())
        found = [float(trial.rmse_H[step - 1]) for step in (1, 5, 10, 20)]
        assert all(ours <= 1.02 * simple for ours, simple in zip(found, wanted, strict=True)), (name, found)
        lower += sum(ours < simple for ours, simple in zip(found, wanted, strict=True))
    assert lower >= 16
