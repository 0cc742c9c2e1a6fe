"""What docs/testing.md says of mutants is what `make mutation` found, and every survivor has a reason."""

from __future__ import annotations

import csv
import re
import tomllib
from collections import Counter

from documents import ROOT, table, text_of

PLACE = ROOT / "tests" / "mutation"
PACKAGE = ROOT / "src" / "pilotage"


def rows(name: str) -> list[dict[str, str]]:
    with (PLACE / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_is_that_of_the_last_run() -> None:
    shown = table("docs/testing.md", "### What came of it")
    stored = [list(row.values()) for row in rows("results.csv")]
    assert [row[:4] for row in shown if row[0] != "together"] == stored
    (total,) = [row for row in shown if row[0] == "together"]
    assert total[1:4] == [f"{sum(int(row[k]) for row in stored):,}" for k in (1, 2, 3)]


def test_every_survivor_has_a_class_that_is_explained() -> None:
    survivors = rows("survivors.csv")
    counted = Counter(row["module"] for row in survivors)
    assert counted == {row["module"]: int(row["survived"]) for row in rows("results.csv") if int(row["survived"])}
    explained = {row[0]: int(row[1]) for row in table("docs/testing.md", "### Why the rest survive")}
    assert Counter(row["class"] for row in survivors) == explained


def test_all_kernels_that_compute_are_tried() -> None:
    parts = tomllib.loads((PLACE / "settings.toml").read_text())["parts"]
    tried = {module for part in parts for module in part["modules"]}
    left_out = {"compiling", "scene", "env_state", "gang_windows", "gang_window"}  # docs/testing.md says why
    kernels = {f"kernels/{path.name}" for path in (PACKAGE / "kernels").glob("[!_]*.py") if path.stem not in left_out}
    assert tried == kernels | {"kube/cache.py", "policies/choose.py"}
    assert tried == {row["module"] for row in rows("results.csv")}
    for name in re.findall(r"`(kernels/\w+\.py)`", text_of("docs/testing.md")):
        assert (PACKAGE / name).exists()
