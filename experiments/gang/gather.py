"""Tables of the gang experiment: our controllers beside the best window of Dynamic MPC, value by value."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

from pilotage.sim.statistics import interval

STEPS = (1, 5, 10, 20)
MPC, OURS, LEARNED = "dynamic-mpc(", "pilotage", "learned:"


def totals_of(directory: Path) -> dict[tuple[str, float], dict[str, float]]:
    """Mean totals by sweep and value, by strategy."""
    found: dict[tuple[str, float], dict[str, float]] = {}
    for entry in json.loads((directory / "results.json").read_text())["sweeps"]:
        key = str(entry["sweep"]), float(entry["value"])
        found.setdefault(key, {})[str(entry["strategy"])] = float(entry["total"])
    return found


def best_mpc(totals: dict[str, float]) -> str:
    return min((name for name in totals if name.startswith(MPC)), key=lambda name: totals[name])


def planned(directory: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for (sweep, value), totals in totals_of(directory).items():
        best = best_mpc(totals)
        rows.append(
            {
                "sweep": sweep,
                "value": value,
                "best_dynamic_mpc": best,
                "best_dynamic_mpc_total": round(totals[best], 2),
                "pilotage_total": round(totals[OURS], 2),
                "not_worse": totals[OURS] <= totals[best],
            }
        )
    return rows


def learned(directory: Path, baseline: Path) -> list[dict[str, object]]:
    """Mean over trainings with its interval, and the worst of them."""
    rows: list[dict[str, object]] = []
    others = totals_of(baseline)
    for (sweep, value), totals in totals_of(directory).items():
        own = [total for name, total in totals.items() if name.startswith(LEARNED)]
        mean = interval(own)
        best = best_mpc(others[sweep, value])
        rows.append(
            {
                "sweep": sweep,
                "value": value,
                "best_dynamic_mpc": best,
                "best_dynamic_mpc_total": round(others[sweep, value][best], 2),
                "trainings": len(own),
                "learned_mean": round(mean.mean, 2),
                "learned_low": None if mean.low is None else round(mean.low, 2),
                "learned_high": None if mean.high is None else round(mean.high, 2),
                "learned_worst": round(max(own), 2),
                "not_worse": max(own) <= others[sweep, value][best],
            }
        )
    return rows


def forecasts(file: Path, *named: str) -> list[dict[str, object]]:
    """Root mean square errors by steps ahead."""
    found = json.loads(file.read_text())["series"]
    return [{**{key: one[key] for key in named}, **{f"ahead_{k}": one["rmse"][k - 1] for k in STEPS}} for one in found]


def trainings(out: Path) -> list[dict[str, object]]:
    """Of each seed: gain over the plan on rows that were not learned from, and how long it took."""
    found = json.loads((out / "trainings.json").read_text())["trainings"]
    return [{key: one[key] for key in ("seed", "gain_percent", "seconds")} for one in found]


def write(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(out: Path, here: Path) -> None:
    write(here / "penalties.csv", planned(out / "0-399"))
    write(here / "lengths.csv", planned(out / "lengths"))
    write(here / "forecasts.csv", forecasts(out / "forecasts.json", "series"))
    write(here / "forecasters.csv", forecasts(out / "forecasters.json", "series", "forecaster"))
    write(here / "trainings.csv", trainings(out))
    write(here / "learned.csv", learned(out / "learned", out / "0-399"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
