"""The monotone model: monotone everywhere, near the truth under noise, chosen where it is better."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.gang.monotone_durations import (
    USUAL_SPREAD,
    MonotoneDurations,
    choose_durations,
    interval_factor,
    monotone,
)
from pilotage.gang.profile import Profile, read_profile
from pilotage.gang.published import PROFILE_FILE, TASKS
from pilotage.model.workload import FloatArray
from pilotage.report.gang_durations import durations_figures, durations_section
from reference.strategies import checked

SIZES, SHARES = np.arange(10.0, 51.0, 5.0), np.arange(500.0, 4001.0, 500.0)


def truth(size: FloatArray, share: FloatArray) -> FloatArray:
    return 2 + 40 * size / share


def noisy(seed: int, noise: float, tries: int = 2) -> Profile:
    rng = np.random.default_rng(seed)
    size_M, share_M = (np.repeat(grid.ravel(), tries) for grid in np.meshgrid(SIZES, SHARES, indexing="ij"))
    seconds_M = truth(size_M, share_M) * np.exp(noise * rng.normal(size=len(size_M)))
    return Profile(("a",), np.zeros(len(size_M), np.int64), size_M, share_M, seconds_M)


@given(seed=st.integers(0, 10**6), noise=st.sampled_from([0.0, 0.1, 1.0]))
@checked(15)
def test_more_work_takes_no_less_and_more_cpu_no_more(seed: int, noise: float) -> None:
    model = MonotoneDurations.of(noisy(seed, noise), ["a"])
    rng = np.random.default_rng(seed)
    size_S, share_C = np.sort(rng.uniform(0, 60, 30)), np.sort(rng.uniform(100, 6000, 30))
    seconds_SC = model.grid(0, size_S, share_C)
    assert (np.diff(seconds_SC, axis=0) >= -1e-9).all()
    assert (np.diff(seconds_SC, axis=1) <= 1e-9).all()
    low_SC, high_SC = model.interval(0, size_S, share_C)
    assert ((low_SC <= seconds_SC) & (seconds_SC <= high_SC)).all()


def test_the_projection_leaves_a_monotone_surface_as_it_is() -> None:
    log_SC = np.log(truth(SIZES[:, None], SHARES[None]))
    assert monotone(log_SC) == pytest.approx(log_SC, abs=1e-12)


def test_noise_is_smoothed_away_and_intervals_hold() -> None:
    model = MonotoneDurations.of(noisy(3, 0.1), ["a"])
    wanted_SC = truth(SIZES[:, None], SHARES[None])
    raw_SC = noisy(3, 0.1).grid("a")[2]
    found_SC = model.grid(0, SIZES, SHARES)
    assert np.abs(np.log(found_SC / wanted_SC)).mean() < 0.7 * np.abs(np.log(raw_SC / wanted_SC)).mean()
    fresh = noisy(4, 0.1, tries=1).grid("a")[2]
    low_SC, high_SC = model.interval(0, SIZES, SHARES)
    assert np.mean((low_SC <= fresh) & (fresh <= high_SC)) > 0.85


def test_the_model_that_predicts_better_is_chosen() -> None:
    assert choose_durations(noisy(5, 0.2), ["a"]).name == "monotone"
    smooth = choose_durations(noisy(5, 0.0), ["a"])
    assert smooth.spline_error < 0.02


def test_intervals_of_small_grids_are_those_of_their_tries() -> None:
    size_M, share_M = np.repeat([10.0, 20.0], 4), np.tile([100.0, 100.0, 200.0, 200.0], 2)
    seconds_M = size_M / share_M * np.tile([0.9, 1.1], 4)
    profile = Profile(("a",), np.zeros(8, np.int64), size_M, share_M, seconds_M)
    choice = choose_durations(profile, ["a"])
    assert choice.by_task[0].monotone == pytest.approx(np.log(1.1 / 0.9) / 2**0.5, rel=1e-6)
    once = Profile(("a",), np.zeros(4, np.int64), size_M[::2], share_M[::2], seconds_M[::2])
    assert choose_durations(once, ["a"]).by_task[0].monotone == USUAL_SPREAD
    assert interval_factor(0.1) == pytest.approx(np.exp(0.1959964))


def test_what_is_said_about_models() -> None:
    choice = choose_durations(noisy(5, 0.2), ["a"])
    found = durations_figures(choice, "best")
    assert (found["model"], found["better"]) == ("monotone", "monotone")
    page = durations_section(choice, "spline")
    assert "Model: spline, as the job says; monotone would be better" in page
    assert "Model: monotone, as the job says, and the better one" in durations_section(choice, "monotone")
    off = 100 * (interval_factor(choice.by_task[0].spline) - 1)
    assert f"+{off:.1f} %" in page


@pytest.mark.data
def test_the_published_profile(gang_data: Path) -> None:
    profile = read_profile(gang_data / PROFILE_FILE)
    choice = choose_durations(profile, TASKS)
    assert choice.name == "monotone"
    assert choice.monotone_error < choice.spline_error


@pytest.mark.parametrize(("sizes", "shares"), [(3, 3), (4, 3), (3, 5), (1, 4), (2, 5)])
def test_small_grids_are_no_splines(sizes: int, shares: int) -> None:
    size_M, share_M = (grid.ravel() for grid in np.meshgrid(10.0 + np.arange(sizes), 100.0 * np.arange(1, shares + 1)))
    profile = Profile(("a",), np.zeros(len(size_M), np.int64), size_M, share_M, 1.0 + size_M / share_M)
    chosen = choose_durations(profile, ["a"])
    assert (chosen.name, chosen.spline_error) == ("monotone", float("inf"))
    seconds_SC = chosen.model.grid(0, np.array([5.0, 11.0, 30.0]), np.array([50.0, 250.0, 900.0]))
    assert np.isfinite(seconds_SC).all()
