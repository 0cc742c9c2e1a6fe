"""`pilotage bench`: one JSON line per measurement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.commands import pilotage, small_trace
from pilotage.policies.registry import registered


def test_json_lines_have_the_agreed_keys_for_every_policy(tmp_path: Path) -> None:
    done = pilotage("bench", "sim", *small_trace(tmp_path), "--json")
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["policy"] for line in lines] == [*registered()]
    for line in lines:
        assert set(line) >= {"policy", "nodes", "pods", "seconds", "decisions_per_second", "peak_rss_mb"}
        assert line["nodes"] == 24
        assert line["pods"] > 150
        assert line["decisions_per_second"] * line["seconds"] > 0.9 * line["pods"]
        assert line["peak_rss_mb"] > 10


def test_a_scaled_cluster_is_measured_with_fgd_alone() -> None:
    done = pilotage("bench", "sim", "--scales", "0.02,0.01", "--json")
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [(line["policy"], line["nodes"], line["pods"]) for line in lines] == [("fgd@1", 24, 217), ("fgd@1", 12, 109)]


def test_the_table_is_for_people(tmp_path: Path) -> None:
    done = pilotage("bench", "sim", *small_trace(tmp_path), "--policies", "fgd,best-fit")
    assert done.code == 0
    assert "decisions/s" in done.out
    assert "best-fit@1" in done.out
    assert "random" not in done.out


def test_each_environment_has_a_json_line() -> None:
    done = pilotage("bench", "env", "--steps", "2000", "--copies", "16", "--reference", "--json")
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["env"] for line in lines] == ["balance", "packing", "load"]
    for line in lines:
        assert line["copies"] == 16
        assert line["steps_per_second"] > 100
        assert line["greedy_return"] > line["random_return"]


def test_environments_of_another_size_as_a_table() -> None:
    done = pilotage("bench", "env", "--envs", "balance", "--nodes", "3-5", "--steps", "100", "--copies", "2")
    assert done.code == 0, done.err
    assert "steps/s" in done.out
    assert "3-5" in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--nodes", "3-x"), "a range such as 3-50"), (("--nodes", "9-3"), "nodes"), (("--envs", "bal"), "balance")],
)
def test_environments_that_do_not_exist_are_refused(options: tuple[str, str], said: str) -> None:
    done = pilotage("bench", "env", *options)
    assert done.code == 2
    assert said in done.err
