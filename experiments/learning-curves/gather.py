"""Curves of all trainings below a directory as two tables: every validation, and the spread over seeds at each step."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl


def curves(trained: Path) -> pl.DataFrame:
    """A row per validation: agent, training seed, and the columns of curve.csv."""
    found = []
    for path in sorted(trained.glob("*/curve.csv")):
        settings = json.loads((path.parent / "settings.json").read_text())
        about = (pl.lit(settings["agent"]).alias("agent"), pl.lit(settings["seed"]).alias("seed"))
        found.append(pl.read_csv(path).select(*about, pl.all()))
    if not found:
        sys.exit(f"{trained}: no training with a curve.csv")
    return pl.concat(found, how="diagonal_relaxed")


def spread(rows: pl.DataFrame) -> pl.DataFrame:
    """Over the seeds of an agent at each step: mean, lowest and highest of what was validated."""
    figures = [name for name in rows.columns if name.startswith("validation_")]
    parts = [
        aggregate
        for name in figures
        for aggregate in (
            pl.col(name).mean().alias(f"{name}_mean"),
            pl.col(name).min().alias(f"{name}_lowest"),
            pl.col(name).max().alias(f"{name}_highest"),
        )
    ]
    return rows.group_by("agent", "step", maintain_order=True).agg(pl.len().alias("seeds"), *parts)


if __name__ == "__main__":
    gathered = curves(Path(sys.argv[1]))
    gathered.write_csv(Path(sys.argv[2]) / "curves.csv")
    spread(gathered).write_csv(Path(sys.argv[2]) / "spread.csv")
