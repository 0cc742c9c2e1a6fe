"""Share of the room that is closed, percent: a row for what is missing, a column for each list."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl


def shares(evaluations: Path) -> pl.DataFrame:
    cases = pl.concat([pl.read_csv(path) for path in sorted(evaluations.glob("*/found/cases.csv"))])
    missing = pl.col("policy").str.strip_prefix("without-").str.strip_suffix("@1").alias("without")
    of_list = pl.col("trace").str.strip_prefix("openb_pod_list_").alias("list")
    table = cases.select(missing, of_list, pl.col("room_closed_percent").round(1)).pivot(on="list", index="without")
    return table.with_columns(pl.mean_horizontal(pl.exclude("without"), ignore_nulls=False).round(1).alias("mean"))


if __name__ == "__main__":
    sys.stdout.write(shares(Path(sys.argv[1])).write_csv())
