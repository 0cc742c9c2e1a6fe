"""Files from outside: what is wrong is said with file, row and field."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pilotage.gang.csv_files import read_matrix
from pilotage.gang.durations import SplineDurations, duration_table
from pilotage.gang.problem import Budget
from pilotage.gang.profile import read_profile
from pilotage.gang.sizes import read_published_sizes, scaled_by_column
from pilotage.model.errors import InputError

HEAD = "Task Name, Workload Size, CPU Shares, Duration\n"


def profile_text(tasks: tuple[str, ...] = ("a", "b"), leave_out: int = -1) -> str:
    rows = [
        f"{task}, {size}, {share}, {size * 1000 / share + k}"
        for k, task in enumerate(tasks)
        for size in (10, 20, 30, 40)
        for share in (1000, 2000, 3000, 4000)
    ]
    return HEAD + "\n".join(row for number, row in enumerate(rows) if number != leave_out) + "\n"


def test_a_profile_with_several_tries_has_their_mean(tmp_path: Path) -> None:
    path = tmp_path / "profile.csv"
    path.write_text(profile_text() + "b, 10, 1000, 21\n")
    profile = read_profile(path)
    assert profile.tasks == ("a", "b")
    size_S, share_C, seconds_SC = profile.grid("b")
    assert size_S.tolist() == [10, 20, 30, 40]
    assert share_C.tolist() == [1000, 2000, 3000, 4000]
    assert seconds_SC[0].tolist() == pytest.approx([16, 6, 10 / 3 + 1, 3.5])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "row 1: no column 'Task Name'"),
        (HEAD, "has no measurements"),
        (HEAD + "a, 10, 1000\n", "row 2: 3 cells; expected 4"),
        (HEAD + "a, 10, 1000, 3\na, 10, , 3\n", "row 3, CPU Shares: is missing"),
        (HEAD + "a, 10, 1000, -3\n", "row 2, Duration: '-3'; expected a number from 0 on"),
        (HEAD + "a, 10, 0, 3\n", "row 2, CPU Shares: is zero"),
        (HEAD + "a, ten, 1000, 3\n", "row 2, Workload Size: 'ten'"),
        (HEAD + "a, 10, 1000, nan\n", "row 2, Duration: 'nan'"),
        (HEAD + ", 10, 1000, 3\n", "row 2, Task Name: is missing"),
    ],
)
def test_bad_profiles(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "profile.csv"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_profile(path)
    assert str(refused.value).startswith(f"{path}")
    assert said in str(refused.value)


def test_a_spline_needs_every_cell(tmp_path: Path) -> None:
    path = tmp_path / "profile.csv"
    path.write_text(profile_text(leave_out=21))
    profile = read_profile(path)
    SplineDurations.of(profile, ["a"])
    with pytest.raises(InputError, match="b has no measurement at size 20 and share 2000"):
        SplineDurations.of(profile, ["b"])
    with pytest.raises(InputError, match="unknown task 'c'"):
        SplineDurations.of(profile, ["c"])


def test_durations_outside_the_grid_are_those_of_its_edge(tmp_path: Path) -> None:
    path = tmp_path / "profile.csv"
    path.write_text(profile_text())
    model = SplineDurations.of(read_profile(path), ["b", "a"])
    table_XJC = duration_table(model, np.array([[5.0, 99.0], [10.0, 40.0]]), np.array([1000.0, 4000.0, 9000.0]))
    assert table_XJC[0] == pytest.approx(table_XJC[1])
    assert table_XJC[0, :, 0].tolist() == pytest.approx([11, 40])
    assert (table_XJC[:, :, 1] == table_XJC[:, :, 2]).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("# t, t+1\n", "has a header only"),
        ("# t, t+1\n1,2\n3\n", "row 3: 1 cells; expected 2"),
        ("# t, t+1\n1,2\n3,\n", "row 3, t+1: is missing"),
        ("# t, t+1\n1,inf\n", "row 2, t+1: 'inf'"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_matrix(path)
    assert said in str(refused.value)


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is no text"):
        read_matrix(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_matrix(tmp_path / "none.csv")


def write_series(directory: Path, kind: str, name: str, rows: int) -> None:
    (directory / kind).mkdir(exist_ok=True)
    lines = "\n".join(f"{row},{row + 1}" for row in range(rows))
    (directory / kind / f"{name}.csv").write_text(f"# t, t+1\n{lines}\n")


def test_sizes_of_unequal_length_and_unknown_series(tmp_path: Path) -> None:
    for kind in ("forecasts", "actual"):
        write_series(tmp_path, kind, "one", 5)
        write_series(tmp_path, kind, "two", 5)
    sizes = read_published_sizes(tmp_path, ["one", "two"], 10, 50)
    assert sizes.forecast_THJ.shape == (5, 2, 2)
    assert sizes.actual_THJ[:, 1, 0].tolist() == [10, 20, 30, 40, 50]
    with pytest.raises(InputError, match="supersteps 3 to 6 asked for; expected within 0 to 4"):
        sizes.rows(3, 4)
    with pytest.raises(InputError, match="unknown series 'tow'; did you mean 'two'"):
        read_published_sizes(tmp_path, ["one", "tow"], 10, 50)
    write_series(tmp_path, "actual", "two", 4)
    with pytest.raises(InputError, match=r"two\.csv: 4 rows and 2 columns; expected as many as of one: 5 and 2"):
        read_published_sizes(tmp_path, ["one", "two"], 10, 50)


def test_a_constant_column_is_scaled_to_the_smallest_size() -> None:
    assert scaled_by_column(np.full((3, 1), 7.0), 10, 50).tolist() == [[10.0]] * 3


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(0), "budget.total: is 0"),
        (Budget(900, 200, 100), "budget.total: 900 is less than 5 tasks x 200"),
        (Budget(1000, 100, 300), "budget.step: 500 beyond the least shares is no multiple of 300"),
        (Budget(1000, 100, -1), "budget.step: is -1"),
    ],
)
def test_budgets_that_cannot_be_divided(budget: Budget, said: str) -> None:
    with pytest.raises(InputError) as refused:
        budget.units(5)
    assert said in str(refused.value)
