"""Messages say where, what, and what would be right."""

from __future__ import annotations

import pytest

from pilotage.model.errors import InputError, PilotageError, PolicyError, StateError, UnknownNameError


def test_a_message_names_file_row_field_problem_and_remedy() -> None:
    error = InputError("bad value 'x'", file="pods.csv", row=7, field="cpu_milli", expected="a whole number")
    assert str(error) == "pods.csv, row 7, cpu_milli: bad value 'x'; expected a whole number"
    assert (error.file, error.row, error.field) == ("pods.csv", 7, "cpu_milli")


def test_a_message_leaves_out_what_is_not_known() -> None:
    assert str(InputError("no trace given")) == "no trace given"
    assert str(InputError("is empty", file="a.csv")) == "a.csv: is empty"


def test_an_unknown_name_comes_with_the_nearest_ones_or_all_of_them() -> None:
    assert "did you mean 'best-fit'?" in str(UnknownNameError("policy", "bestfit", ["best-fit", "fgd"]))
    assert "known: best-fit, fgd" in str(UnknownNameError("policy", "zzzz", ["fgd", "best-fit"]))


@pytest.mark.parametrize("kind", [InputError, StateError, PolicyError])
def test_every_error_is_one_callers_can_catch_and_exits_with_2(kind: type[PilotageError]) -> None:
    assert issubclass(kind, PilotageError)
    assert kind.exit_code == 2
