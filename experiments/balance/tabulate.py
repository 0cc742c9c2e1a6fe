"""Variance of CPU use by policy and trace, and as a share of random placement's, from the stored results."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

RANDOM = "random@1"


def variances(here: Path) -> pl.DataFrame:
    """A row per policy and trace: mean over the seeds, and over that of random placement."""
    runs = pl.concat([pl.read_csv(path) for path in sorted(here.glob("*/results.csv"))], how="vertical_relaxed")
    means = runs.group_by("trace", "policy", maintain_order=True).agg(
        pl.col("cpu_variance").mean(),
        pl.col("memory_variance").mean(),
        pl.col("failed_pods").sum(),
        pl.len().alias("seeds"),
    )
    chance = means.filter(pl.col("policy") == RANDOM).select("trace", pl.col("cpu_variance").alias("of_random"))
    share = (pl.col("cpu_variance") / pl.col("of_random")).alias("share_of_random")
    return means.join(chance, on="trace", maintain_order="left").with_columns(share).drop("of_random")


if __name__ == "__main__":
    sys.stdout.write(variances(Path(sys.argv[1])).write_csv())
