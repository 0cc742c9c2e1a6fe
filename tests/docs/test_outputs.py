"""What the README shows as output is what the commands print."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from documents import ROOT, blocks, run, table

WIDE = {**os.environ, "COLUMNS": "100"}
ANSWERS = table("README.md", "")  # the first table: what one wants, the command, its answer


def printed(line: str, directory: Path) -> str:
    done = run(shlex.split(line)[1:], directory, WIDE)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_quickstart_prints_what_is_shown(tmp_path: Path) -> None:
    (shown,) = blocks("README.md", "text")
    rule = re.search(r"^quickstart:.*\n\t(.*(?:\\\n.*)*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert rule is not None
    text = printed(rule[1].replace("\\\n", " ").replace("$(BIN)/", ""), tmp_path)
    written = re.compile(r"^report: .*$", re.MULTILINE)  # where it is depends on the directory
    assert [line.rstrip() for line in written.sub("", text).strip().splitlines()] == shown.strip().splitlines()


@pytest.mark.parametrize(("command", "answer"), [row[1:] for row in ANSWERS if row[1].startswith("pilotage ")])
def test_an_answer_of_the_first_table_is_printed(command: str, answer: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    text = " ".join(printed(command, tmp_path).split())
    assert answer in text, text[-2000:]
