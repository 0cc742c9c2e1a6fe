"""Documents taken apart: commands, blocks, tables.

A command is a line of a `bash` or `console` block that starts with `pilotage` (or `$ pilotage`), or a code span in a
table that does. Lines of one document run one after the other in one directory that holds the examples. A comment
at the end of a line says what is special about it:

    # exit 1    ends with this code
    # data      needs the public data
    # slow      not run as it stands: docs/testing.md
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PILOTAGE = Path(sys.executable).with_name("pilotage")
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{path.name}" for path in ROOT.glob("docs/*.md"))]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
_NOTE = re.compile(r"\s+#\s*(exit (?P<code>\d+)|(?P<data>data)|(?P<slow>slow))\s*$")


@dataclass(frozen=True)
class Command:
    """One command of a document."""

    line: str
    code: int = 0
    data: bool = False
    slow: bool = False

    @classmethod
    def of(cls, text: str) -> Command:
        line = text.removeprefix("$ ")
        note = _NOTE.search(line)
        if note is None:
            return cls(line)
        return cls(line[: note.start()], int(note["code"] or 0), note["data"] is not None, note["slow"] is not None)

    def with_answers(self, directory: Path, environment: dict[str, str]) -> Command:
        """What a shell makes of $(pilotage ...): the answer of that command."""

        def answer(match: re.Match[str]) -> str:
            return run(shlex.split(match[1]), directory, environment).stdout.strip()

        return replace(self, line=re.sub(r"\$\(pilotage ([^)]*)\)", answer, self.line))

    @property
    def words(self) -> list[str]:
        return shlex.split(os.path.expandvars(self.line))[1:]


def text_of(document: str) -> str:
    return (ROOT / document).read_text()


def blocks(document: str, *languages: str) -> Iterator[str]:
    for language, content in BLOCK.findall(text_of(document)):
        if language in languages:
            yield content


def prose(document: str) -> str:
    return BLOCK.sub("", text_of(document))


def shell_lines(document: str) -> Iterator[str]:
    """Lines of shell blocks, continued ones joined, and code spans of tables."""
    for block in blocks(document, "bash", "console"):
        yield from (line.strip() for line in block.replace("\\\n", " ").splitlines())
    for line in prose(document).splitlines():
        if line.startswith("|"):
            yield from SPAN.findall(line)


def commands(document: str) -> list[Command]:
    found = [line for line in shell_lines(document) if re.match(r"(\$ )?pilotage ", line)]
    return [Command.of(line) for line in dict.fromkeys(found)]


def run(words: list[str], directory: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PILOTAGE), *words], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def run_all(chosen: list[Command], directory: Path, **variables: str) -> None:
    shutil.copytree(ROOT / "examples", directory / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "COLUMNS": "120", "PILOTAGE_LABS": str(directory / "labs"), **variables}
    for command in chosen:
        done = run(command.with_answers(directory, environment).words, directory, environment)
        assert done.returncode == command.code, f"{command.line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def table(document: str, heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, header row left out, code marks removed."""
    section = text_of(document).partition(f"\n{heading}\n")[2]
    rows = re.search(r"^\|.*?(?=^[^|]|^$|\Z)", section, re.MULTILINE | re.DOTALL)
    assert rows is not None, f"{document}: no table below {heading!r}"
    lines = rows[0].strip().splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]
