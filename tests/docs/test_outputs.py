"""What the README shows as output is what the commands print."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from documents import ROOT, SPAN, blocks, run, text_of

WIDE = {**os.environ, "COLUMNS": "100"}


def answers() -> list[list[str]]:
    """Code spans of the rows of the first table: a command, and what of its answer is shown."""
    first = text_of("README.md").partition("\n|")[2].partition("\n\n")[0]
    rows = [SPAN.findall(line) for line in first.splitlines()]
    return [spans for spans in rows if spans and spans[0].startswith("pilotage ")]


def printed(line: str, directory: Path) -> str:
    done = run(shlex.split(line)[1:], directory, WIDE)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_quickstart_prints_what_is_shown(tmp_path: Path) -> None:
    (shown,) = blocks("README.md", "text")
    rule = re.search(r"^quickstart:.*\n\t((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert rule is not None
    text = printed(rule[1].replace("\\\n", " ").replace("$(BIN)/", ""), tmp_path)
    written = re.compile(r"^report: .*$", re.MULTILINE)  # where it is depends on the directory
    assert [line.rstrip() for line in written.sub("", text).strip().splitlines()] == shown.strip().splitlines()


@pytest.mark.parametrize("spans", answers(), ids=lambda spans: " ".join(spans[0].split()[:3]))
def test_an_answer_of_the_first_table_is_printed(spans: list[str], tmp_path: Path) -> None:
    command, *shown = spans
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    text = " ".join(printed(command, tmp_path).split())
    assert shown
    for answer in shown:
        assert answer in text, text[-2000:]
