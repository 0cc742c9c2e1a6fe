"""The table of `pilotage lab faults`; what it counts is in tests/lab."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from pilotage.cli.lab_faults import faults_table
from pilotage.lab.faults.counting import Counts
from pilotage.lab.faults.rounds import Row


def test_the_table_names_fault_and_harm_in_full_on_a_narrow_terminal() -> None:
    written = StringIO()
    rows = [
        Row("scheduler-killed-15s", 10, 20_000, Counts(conflicts=3)),
        Row("kwok-gone", 5, 2500, Counts(lost=2)),
    ]
    Console(file=written, width=80).print(faults_table(rows))
    lines = [line.split() for line in written.getvalue().splitlines()]
    assert ["scheduler-killed-15s", "10", "20000", "none", "0", "3", "0"] in lines
    assert ["kwok-gone", "5", "2500", "2", "lost", "0", "0", "0"] in lines
