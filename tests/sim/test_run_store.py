"""Finished runs on disk: read back equal, found only where everything is the same, never trusted."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from contract.commands import POLICY
from pilotage.model.errors import InputError
from pilotage.sim.compare import Comparison, compare
from pilotage.sim.engines import Finished, LocalEngine, Task
from pilotage.sim.protocols import Timing
from pilotage.sim.run_store import PLACE, SECONDS, RunStore, decode, encode, run_key
from pilotage.sim.specs import RunSpec, TraceSource, policy_of
from pilotage.workloads import openb
from pilotage.workloads.generate import Times, openb_like_nodes, openb_like_pods


@pytest.fixture
def source(tmp_path: Path) -> TraceSource:
    openb.write_nodes(tmp_path / "nodes.csv", openb_like_nodes(0.01))
    openb.write_pods(tmp_path / "pods.csv", openb_like_pods(60, times=Times(nodes_scale=0.01)))
    return TraceSource(tmp_path / "nodes.csv", tmp_path / "pods.csv")


def specs_of(source: TraceSource) -> list[RunSpec]:
    timed = RunSpec(source, "best-fit", 2, "timed", 1.1, Timing(load=1.1), leftover=True)
    return [RunSpec(source, "fgd", 1, "openb", leftover=True), RunSpec(source, "random", 1, "openb"), timed]


def test_a_result_comes_back_to_the_last_bit(source: TraceSource, tmp_path: Path) -> None:
    for spec in specs_of(source):
        result, seconds = spec.execute()
        RunStore(tmp_path / "out").keep(spec, result, seconds)
        found = RunStore(tmp_path / "out").find(spec)  # as another process would
        assert found is not None
        assert encode(found[0]) == encode(result)
        assert found[0].figures() == result.figures()
        assert found[1] == seconds


def test_a_run_is_found_only_where_everything_is_the_same(source: TraceSource, tmp_path: Path) -> None:
    spec = specs_of(source)[0]
    timed = specs_of(source)[2]
    others = [
        replace(spec, seed=2),
        replace(spec, load=1.2),
        replace(spec, policy="best-fit"),
        replace(spec, policy="fgd+0.1*best-fit"),
        replace(spec, leftover=False),
        timed,
        replace(timed, timing=replace(timed.timing, warm_up=0.1)),
    ]
    keys = [run_key(one) for one in (spec, *others)]
    assert len(set(keys)) == len(keys)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (moved / "pods.csv").write_bytes((tmp_path / "pods.csv").read_bytes())
    assert run_key(replace(spec, source=TraceSource(tmp_path / "nodes.csv", moved / "pods.csv"))) == keys[0]
    openb.write_pods(tmp_path / "pods.csv", openb_like_pods(61))
    assert run_key(spec) != keys[0]  # the file has changed


def test_an_edit_of_a_users_policy_is_noticed(source: TraceSource, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY)
    spec = replace(specs_of(source)[0], policy=f"{tmp_path}/mine.py:Mine")
    before = run_key(spec)
    (tmp_path / "mine.py").write_text(POLICY.replace("= 0", "= 2"))
    assert run_key(spec) != before


def test_an_edit_of_what_a_users_policy_imports_is_noticed(
    source: TraceSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "their_weights.py").write_text("WEIGHT = 1\n")
    (tmp_path / "weighing.py").write_text("from their_weights import WEIGHT\n" + POLICY.replace("= 0", "= WEIGHT"))
    spec = replace(specs_of(source)[0], policy="weighing:Mine")
    before = run_key(spec)
    (tmp_path / "their_weights.py").write_text("WEIGHT = -1\n")
    assert run_key(spec) != before


def test_a_module_that_names_a_file_which_is_not_there_does_not_matter(
    source: TraceSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(POLICY)
    spec = replace(specs_of(source)[0], policy=f"{tmp_path}/mine.py:Mine")
    before = run_key(spec)
    odd = ModuleType("odd")
    odd.__file__ = "_classes.py"  # as torch has one
    monkeypatch.setitem(sys.modules, "odd", odd)
    assert run_key(spec) == before


def test_a_policy_that_imports_more_on_the_way_is_found_again(
    source: TraceSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "imported_late.py").write_text("")
    (tmp_path / "late.py").write_text(
        POLICY.replace("        return self\n", "        import imported_late\n        return self\n")
    )
    spec = replace(specs_of(source)[0], policy=f"{tmp_path}/late.py:Mine")
    store = RunStore(tmp_path / "out")
    assert store.find(spec) is None
    store.keep(spec, *spec.execute())
    assert "imported_late" in sys.modules
    assert store.find(spec) is not None


def test_a_policy_may_say_what_else_it_depends_on(source: TraceSource, tmp_path: Path) -> None:
    keys = []
    for fingerprint in ("one", "two"):
        (tmp_path / "mine.py").write_text(POLICY)
        spec = replace(specs_of(source)[0], policy=f"{tmp_path}/mine.py:Mine")
        policy_of(spec.policy).__class__.fingerprint = fingerprint  # type: ignore[attr-defined]
        keys.append(run_key(spec))
    assert keys[0] != keys[1]


def test_a_torn_line_of_seconds_costs_no_other(source: TraceSource, tmp_path: Path) -> None:
    spec = specs_of(source)[1]
    result, _ = spec.execute()
    RunStore(tmp_path).keep(spec, result, 1.0)
    with (tmp_path / PLACE / SECONDS).open("a") as stream:
        stream.write('\n["abc", 1.')
    other = specs_of(source)[0]
    RunStore(tmp_path).keep(other, other.execute()[0], 2.5)
    found = RunStore(tmp_path).find(other)
    assert found is not None
    assert found[1] == 2.5


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"trace": "t"}',
        b"\xff",
    ],
)
def test_what_cannot_be_read_is_as_good_as_absent(source: TraceSource, tmp_path: Path, content: bytes) -> None:
    spec = specs_of(source)[0]
    store = RunStore(tmp_path / "out")
    (tmp_path / "out" / PLACE).mkdir(parents=True)
    (tmp_path / "out" / PLACE / f"{run_key(spec)}.json").write_bytes(content)
    (tmp_path / "out" / PLACE / SECONDS).write_bytes(content)
    assert RunStore(tmp_path / "out").find(spec) is None
    assert store.found == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", "1"),
        ("seed", True),
        ("trace", None),
        ("gpu_allocation_percent", "high"),
        ("curve", {"x_L": 1}),
        ("curve", {"other": {"dtype": "<f8", "shape": [0], "data": ""}}),
        ("lost_at", [{"dtype": "|O", "shape": [1], "data": "AAAA"}]),
        ("lost_at", [{"dtype": "<f8", "shape": [7], "data": "AAAAAAAAAAA="}]),
    ],
)
def test_a_damaged_result_is_not_taken(source: TraceSource, name: str, value: object) -> None:
    content = json.loads(json.dumps(encode(specs_of(source)[0].execute()[0])))
    assert encode(decode(content)) == content
    with pytest.raises((ValueError, TypeError, KeyError)):
        decode(content | {name: value})


def test_two_comparisons_do_not_share_a_directory(source: TraceSource, tmp_path: Path) -> None:
    with RunStore(tmp_path / "out").alone():
        with (
            pytest.raises(InputError, match="--out: another comparison is writing there"),
            RunStore(tmp_path / "out").alone(),
        ):
            pass
        compare(Comparison((source,), ("fgd",), (1,)), store=RunStore(tmp_path / "out"))
    with RunStore(tmp_path / "out").alone():
        pass  # free again
    assert len(list((tmp_path / "out" / PLACE).glob("*.json"))) == 1


def test_a_directory_in_which_nothing_came_about_is_not_left_behind(tmp_path: Path) -> None:
    with RunStore(tmp_path / "out").alone():
        assert (tmp_path / "out" / PLACE).is_dir()
    assert not (tmp_path / "out").exists()


def test_only_what_is_missing_runs(source: TraceSource, tmp_path: Path) -> None:
    ran: list[RunSpec] = []

    class Counting:
        def finished(self, tasks: Sequence[Task]) -> Iterator[list[Finished]]:
            ran.extend(spec for task in tasks for spec in task)
            return LocalEngine().finished(tasks)

    comparison = Comparison((source,), ("fgd", "random"), (1, 2))
    whole = compare(comparison, Counting(), RunStore(tmp_path / "out"))
    assert len(ran) == 4
    (tmp_path / "out" / PLACE / f"{run_key(ran[2])}.json").unlink()
    store = RunStore(tmp_path / "out")
    again = compare(comparison, Counting(), store)
    assert ran[4:] == [ran[2]]
    assert store.found == 3
    assert [r.figures() for r in again.runs] == [r.figures() for r in whole.runs]
    assert again.summary == whole.summary
    compare(comparison, Counting(), RunStore(tmp_path / "out", fresh=True))
    assert len(ran) == 9


def test_what_killed_processes_left_behind_is_removed(tmp_path: Path) -> None:
    RunStore(tmp_path)
    gone, ours = tmp_path / ".results.json.4194399.partial", tmp_path / f".results.csv.{os.getpid()}.partial"
    for path in (gone, ours):
        path.write_text("half")
    RunStore(tmp_path)
    assert not gone.exists()
    assert ours.exists()  # that process still runs
