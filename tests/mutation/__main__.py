"""`make mutation`: kernels, cache and chooser are changed in one place each, and the tests must notice.

A survivor that tests/mutation/survivors.csv does not explain ends it with 1. The mutants go to out/mutation.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation.places import Mutant, mutants
from mutation.trying import ENDLESS, KILLED, SURVIVED, outcome, prepare

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = ROOT / "src" / "pilotage"
EXPLAINED = HERE / "survivors.csv"
LONGER = 5
Key = tuple[str, str, str]  # module, line before, line after


@dataclass(frozen=True)
class Tried:
    """A mutant, and what came of it."""

    mutant: Mutant
    outcome: str
    seconds: float

    @property
    def key(self) -> Key:
        return self.mutant.module, self.mutant.before, self.mutant.after


def explained() -> dict[Key, str]:
    """Class of each survivor that is known."""
    if not EXPLAINED.exists():
        return {}
    with EXPLAINED.open(newline="") as file:
        return {(row["module"], row["before"], row["after"]): row["class"] for row in csv.DictReader(file)}


def try_part(settings: dict[str, Any], part: dict[str, Any], module: str) -> list[Tried]:
    path, tests = PACKAGE / module, [f"tests/{name}" for name in part["tests"]]
    memory = int(settings["most_memory"])
    as_it_is, seconds = outcome(path, path.read_text(), tests, 600.0, memory)
    if as_it_is != SURVIVED:
        raise SystemExit(f"{module}: {' '.join(tests)} fail without any change")
    most = max(float(settings["least_seconds"]), LONGER * seconds)
    found = mutants(PACKAGE, module, settings["left_out"], part.get("places"), settings["seed"])
    return [Tried(m, *outcome(path, m.source, tests, most, memory)) for m in found]


def write(path: Path, tried: list[Tried]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["module", "line", "operator", "outcome", "seconds", "before", "after"])
        for one in tried:
            m = one.mutant
            rows.writerow([m.module, m.line, m.operator, one.outcome, f"{one.seconds:.1f}", m.before, m.after])


def write_tally(out: Path) -> None:
    """How many mutants of each module there were and what became of them, over all tables that are there."""
    rows: dict[str, Counter[str]] = {}
    for path in sorted((out / "mutants").glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                rows.setdefault(row["module"], Counter())[row["outcome"]] += 1
    with (out / "results.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["module", "mutants", "killed", "survived"])
        for module, count in sorted(rows.items()):
            table.writerow([module, count.total(), count[KILLED] + count[ENDLESS], count[SURVIVED]])


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="modules whose path holds one of these, separated by commas")
    options.add_argument("--out", type=Path, default=ROOT / "out" / "mutation", help="where tables go")
    given = options.parse_args()
    settings = tomllib.loads((HERE / "settings.toml").read_text())
    prepare(settings["preload"])
    known, tried = explained(), list[Tried]()
    for part in settings["parts"]:
        for module in (name for name in part["modules"] if any(word in name for word in given.only.split(","))):
            now = try_part(settings, part, module)
            tried += now
            write(given.out / "mutants" / f"{Path(module).stem}.csv", now)
            count = Counter(one.outcome for one in now)
            seconds = sum(one.seconds for one in now)
            sys.stdout.write(f"{module:28} {len(now):4} mutants  {dict(count)}  {seconds:.0f} s\n")
            sys.stdout.flush()
    write_tally(given.out)
    unexplained = [one for one in tried if one.outcome == SURVIVED and one.key not in known]
    for one in unexplained:
        m = one.mutant
        sys.stdout.write(f"\n{m.module}:{m.line} {m.operator}\n  - {m.before}\n  + {m.after}\n")
    sys.stdout.write(f"\n{len(tried)} mutants, {len(unexplained)} survivors without an explanation\n")
    return 1 if unexplained else 0


if __name__ == "__main__":
    raise SystemExit(main())
