"""The gang experiment: what its README says is what its tables hold, and what comes out again."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from gang.test_forecasting import SIMPLE
from pilotage.gang.combining import HALF_LIFE, POWER
from pilotage.gang.controllers import DynamicMpc
from pilotage.gang.forecast_trial import Split, try_forecasters
from pilotage.gang.published import published_job
from pilotage.gang.scenario_mpc import ScenarioMpc
from pilotage.gang.series import read_series
from pilotage.gang.strategies import Comparison

PLACE = Path(__file__).resolve().parent.parent.parent / "experiments" / "gang"
README = (PLACE / "README.md").read_text()


def rows(name: str) -> list[dict[str, str]]:
    with (PLACE / f"{name}.csv").open() as stream:
        return list(csv.DictReader(stream))


def line(first: str, *after: str) -> str:
    """The line of a table of the README below a heading."""
    text = README
    for heading in after:
        text = text[text.index(heading) :]
    found = re.search(rf"^\| {re.escape(first)} \|.*$", text, re.MULTILINE)
    assert found, first
    return found[0]


@pytest.mark.parametrize(("name", "heading"), [("penalties", "## Penalties"), ("lengths", "## Lengths")])
def test_sweeps(name: str, heading: str) -> None:
    for row in rows(name):
        best, ours = float(row["best_dynamic_mpc_total"]), float(row["pilotage_total"])
        assert (ours <= best) == (row["not_worse"] == "True")
        window = row["best_dynamic_mpc"].removeprefix("dynamic-mpc(").removesuffix(")")
        wanted = f"| {best:,.0f} (W {window}) | {ours:,.0f} | {best - ours:,.0f} |"
        assert line(f"{float(row['value']):g}", heading).endswith(wanted)


def test_learned_controllers() -> None:
    trainings = rows("trainings")
    assert len(trainings) == 10
    assert all(float(row["seconds"]) < 600 for row in trainings)
    planned = {row["value"]: float(row["pilotage_total"]) for row in rows("penalties")}
    for row in rows("learned"):
        best, mean = float(row["best_dynamic_mpc_total"]), float(row["learned_mean"])
        half, worst = float(row["learned_high"]) - mean, float(row["learned_worst"])
        assert (row["trainings"], row["not_worse"]) == ("10", "True")
        assert worst <= best
        cells = f"| {best:,.0f} | {planned[row['value']]:,.0f} | {mean:,.0f} ± {half:.0f} | {worst:,.0f} |"
        assert line(f"{float(row['value']):g}", "## The learned controller").endswith(cells)


@pytest.mark.parametrize("name", ["0-399", "600-979"])
def test_totals(name: str) -> None:
    ours = [float(row["total"]) for row in rows(f"totals-{name}") if row["strategy"] == "pilotage"]
    best = min(float(row["total"]) for row in rows(f"totals-{name}") if row["strategy"].startswith("dynamic-mpc"))
    assert len(ours) == 5
    said = line(name, "## Totals")
    assert f"| {np.mean(ours):,.0f} ±" in said
    assert f"| {best:,.0f} (W" in said


def test_forecasts_and_what_they_were_chosen_by() -> None:
    lower = 0
    for row in rows("forecasts"):
        shares = [
            float(row[f"ahead_{k}"]) / simple for k, simple in zip((1, 5, 10, 20), SIMPLE[row["series"]], strict=True)
        ]
        assert line(row["series"]).endswith(" | ".join(f"{share:.3f}" for share in shares) + " |")
        lower += sum(share < 1 for share in shares)
    assert f"lower in {lower} of 32" in README
    chosen = json.loads((PLACE / "choice.json").read_text())
    assert (chosen["half_life"], chosen["power"]) == (HALF_LIFE, POWER)
    assert chosen["left_out_mean_percent"] > 0


def test_forecasters_beside_each_other() -> None:
    found = {
        (row["series"], row["forecaster"]): [float(row[f"ahead_{k}"]) for k in (1, 5, 10, 20)]
        for row in rows("forecasters")
    }
    lower = {"combined": 0, "regression": 0}
    for name in SIMPLE:
        own = found[name, "learned"]
        shares = [ours / theirs for ours, theirs in zip(own, found[name, "combined"], strict=True)]
        said = line(name, "## A forecaster that learns")
        assert said.endswith(" | ".join(f"{share:.3f}" for share in shares) + " |")
        for other in lower:
            lower[other] += sum(ours < theirs for ours, theirs in zip(own, found[name, other], strict=True))
    assert (
        f"Lower than `combined` in {lower['combined']} of 32 cells, than `regression` in {lower['regression']}."
        in README
    )


@pytest.mark.data
def test_some_of_it_again(gang_data: Path) -> None:
    stored = {(row["strategy"], row["seed"]): float(row["total"]) for row in rows("totals-600-979")}
    job = published_job(gang_data, "combined")
    for run in Comparison(job, (DynamicMpc(3), ScenarioMpc()), (0,), 600, 380).runs(job.outlook()):
        key = run.strategy, "" if run.seed is None else str(run.seed)
        assert run.total == pytest.approx(stored[key], abs=1e-3)
    name = "nyc_taxi_2"
    (trial,) = try_forecasters(read_series(gang_data / "series" / f"{name}.csv", 5000), ["combined"], Split())
    (row,) = (row for row in rows("forecasts") if row["series"] == name)
    assert float(trial.rmse_H[9]) == pytest.approx(float(row["ahead_10"]), rel=1e-4)
