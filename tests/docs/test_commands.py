"""Commands, links, file names and tables of the documentation are true.

A command is a line of a `bash` or `console` block that starts with `pilotage` (or `$ pilotage`), or a code span in a
table that does. Lines of one document run one after the other in one directory that holds the examples. A comment
at the end of a line says what is special about it:

    # exit 1    ends with this code
    # data      needs the public data
    # slow      only its options are checked
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

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PILOTAGE = Path(sys.executable).with_name("pilotage")
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{path.name}" for path in ROOT.glob("docs/*.md"))]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NOTE = re.compile(r"\s+#\s*(exit (?P<code>\d+)|(?P<data>data)|(?P<slow>slow))\s*$")
_PATH = re.compile(
    r"(?:src|tests|docs|examples|\.ci)/[\w./-]*|[A-Z]\w*\.(?:md|txt)|Makefile|LICENSE|NOTICE|[a-z]+\.toml"
)


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
    for language, content in _BLOCK.findall(text_of(document)):
        if language in languages:
            yield content


def prose(document: str) -> str:
    return _BLOCK.sub("", text_of(document))


def shell_lines(document: str) -> Iterator[str]:
    """Lines of shell blocks, continued ones joined, and code spans of tables."""
    for block in blocks(document, "bash", "console"):
        yield from (line.strip() for line in block.replace("\\\n", " ").splitlines())
    for line in prose(document).splitlines():
        if line.startswith("|"):
            yield from _SPAN.findall(line)


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


def documents_with(**wanted: bool) -> list[str]:
    return [
        document
        for document in DOCUMENTS
        if any(all(getattr(c, key) == value for key, value in wanted.items()) for c in commands(document))
    ]


@pytest.mark.parametrize("document", documents_with(data=False, slow=False))
def test_commands_run(document: str, tmp_path: Path) -> None:
    run_all([c for c in commands(document) if not c.data and not c.slow], tmp_path)


@pytest.mark.data
@pytest.mark.parametrize("document", documents_with(data=True))
def test_commands_on_the_public_data_run(
    document: str, tmp_path: Path, openb_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTAGE_DATA", str(openb_data.parent.resolve()))
    run_all([c for c in commands(document) if c.data], tmp_path)


@pytest.mark.parametrize("document", documents_with(slow=True))
def test_slow_commands_have_the_options_they_use(document: str, tmp_path: Path) -> None:
    for command in (c for c in commands(document) if c.slow):
        grouped = command.words[0] in ("bench", "gang", "lab", "train")
        names = [word for word in command.words if not word.startswith("-")][: 2 if grouped else 1]
        done = run([*names, "--help"], tmp_path, {**os.environ, "COLUMNS": "200"})
        assert done.returncode == 0
        for word in command.words:
            assert not word.startswith("--") or word in done.stdout, f"{command.line}: no {word}"


def options_of(names: list[str], directory: Path) -> set[str]:
    done = run([*names, "--help"], directory, {**os.environ, "COLUMNS": "200"})
    assert done.returncode == 0, f"there is no {' '.join(names)}"
    return set(re.findall(r"--[\w-]+", done.stdout))


def test_what_users_of_other_projects_are_told_to_type_exists(tmp_path: Path) -> None:
    """Code spans of docs/coming-from.md that name a command without `pilotage` in front."""
    rows = [line.split("|")[2] for line in prose("docs/coming-from.md").splitlines() if line.startswith("| ")]
    spans = [shlex.split(span) for row in rows for span in _SPAN.findall(row)]
    chosen = [words for words in spans if words[0] in ("train", "gang", "lab") and len(words) > 1]
    chosen += [words for words in spans if words[0] in ("schedule", "serve", "record")]
    assert len(chosen) > 20
    known: dict[str, set[str]] = {}
    for words in chosen:
        depth = 3 if words[:2] == ["lab", "nodes"] else 2 if words[0] in ("train", "gang", "lab") else 1
        names = words[:depth]
        if " ".join(names) not in known:
            known[" ".join(names)] = options_of(names, tmp_path)
        assert {word for word in words if word.startswith("--")} <= known[" ".join(names)], words


def test_their_options_have_ours(tmp_path: Path) -> None:
    rows = table("docs/coming-from.md", "### Options of their agents, and of `train dqn`")
    ours = {word.strip("` ") for row in rows for word in row[1].split(",")}
    assert ours <= options_of(["train", "dqn"], tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_exist(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = [*shell_lines(document), *_SPAN.findall(prose(document))]
    used = {match[1] for line in lines if (match := re.match(r"(?:\$ )?make ([a-z-]+)", line))}
    assert used <= targets


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_file_names_exist(document: str) -> None:
    here = (ROOT / document).parent
    for link in _LINK.findall(prose(document)):
        path, _, heading = link.partition("#")
        if "://" in link:
            continue
        target = here / path if path else ROOT / document
        assert target.exists(), f"{document}: link to {link}"
        assert not heading or heading in headings(target), f"{document}: no heading for {link}"
    for span in _SPAN.findall(prose(document)):
        if _PATH.fullmatch(span):
            assert (ROOT / span).exists() or (here / span).exists(), f"{document}: {span}"


def headings(path: Path) -> set[str]:
    """Anchors as GitHub and mkdocs make them."""
    found = re.findall(r"^#+ (.*)$", _BLOCK.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in found}


def test_every_page_is_in_the_index() -> None:
    linked = set(_LINK.findall(text_of("docs/index.md")))
    assert {path.name for path in ROOT.glob("docs/*.md")} - {"index.md"} <= linked


def test_tree_for_contributors_shows_every_module_and_nothing_else() -> None:
    (tree,) = (block for block in blocks("CONTRIBUTING.md", "text") if block.startswith("src/pilotage/"))
    folders: dict[int, str] = {}
    shown = set()
    for line in tree.splitlines():
        depth = len(line) - len(line.lstrip())
        folder = "".join(folders[d] for d in sorted(folders) if d < depth)
        for name in line.split("  ")[depth // 2].split(", ") if line.strip() else ():
            assert (ROOT / (folder + name)).exists(), folder + name
            shown.add(folder + name)
            if name.endswith("/"):
                folders = {d: f for d, f in folders.items() if d < depth} | {depth: name}
    packages = {f"src/pilotage/{path.parent.name}/" for path in ROOT.glob("src/pilotage/*/__init__.py")}
    assert packages <= shown
    modules = {str(path.relative_to(ROOT)) for path in ROOT.glob("src/pilotage/**/*.py") if path.name != "__init__.py"}
    assert modules - shown == set()


# Tables that repeat what the code says


def table(document: str, heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, header row left out, code marks removed."""
    section = text_of(document).partition(f"\n{heading}\n")[2]
    rows = re.search(r"^\|.*?(?=^[^|]|^$|\Z)", section, re.MULTILINE | re.DOTALL)
    assert rows is not None, f"{document}: no table below {heading!r}"
    lines = rows[0].strip().splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def test_finding_codes() -> None:
    from pilotage.workloads.check import CODES

    expected = [[code, entry.severity, entry.meaning, entry.advice] for code, entry in CODES.items()]
    assert table("docs/traces.md", "## Finding codes") == expected


def test_policies() -> None:
    from pilotage.policies.heuristics import HEURISTICS

    assert [row[0] for row in table("docs/policies.md", "## Built-in policies")] == [p.name for p in HEURISTICS]


def test_fields_of_a_checkpoint() -> None:
    from pilotage.policies.architectures import SETTINGS
    from pilotage.policies.checkpoints import FIELDS

    assert [row[0] for row in table("docs/learned-policies.md", "## policy.json")] == list(FIELDS)
    assert [row[0] for row in table("docs/learned-policies.md", "## Kinds")] == list(SETTINGS)


@pytest.mark.parametrize(("heading", "kind"), [("### Pod columns", "POD"), ("### Node columns", "NODE")])
def test_features(heading: str, kind: str) -> None:
    from pilotage.kernels import features

    assert [row[0] for row in table("docs/policies.md", heading)] == list(getattr(features, f"{kind}_FEATURES"))


def test_keys_of_a_run() -> None:
    from dataclasses import fields

    from pilotage.sim.results import ARRAY_FIELDS, RunResult

    documented = {row[0] for row in table("docs/protocols.md", "### Keys of a run")}
    assert documented == {f.name for f in fields(RunResult)} - set(ARRAY_FIELDS) | {"seconds"}


def test_fields_of_a_scenario() -> None:
    from pilotage.sim.scenario import FIELDS

    rows = table("docs/comparing.md", "## Scenario files")
    assert [name.strip("` ") for row in rows for name in row[0].split(",")] == list(FIELDS)


def test_keys_of_the_summary() -> None:
    from dataclasses import fields

    from pilotage.sim.compare import Row

    assert [row[0] for row in table("docs/protocols.md", "### Keys of the summary")] == [f.name for f in fields(Row)]


def test_columns_of_the_tables() -> None:
    from pilotage.workloads.openb import NODE_COLUMNS, POD_COLUMNS

    assert [row[0] for row in table("docs/traces.md", "### Node list")] == [c.name for c in NODE_COLUMNS]
    assert [row[0] for row in table("docs/traces.md", "### Pod list")] == [c.name for c in POD_COLUMNS]


def test_shipped_traces() -> None:
    from pilotage.workloads.generate import SHIPPED

    assert [row[0] for row in table("docs/traces.md", "## Shipped traces")] == list(SHIPPED)


def test_families_of_traces() -> None:
    from pilotage.workloads.families import FAMILIES

    expected = [[f"{name}-N", family.meaning] for name, family in FAMILIES.items()]
    assert table("docs/traces.md", "### Families") == expected


def test_columns_of_a_data_set() -> None:
    from pilotage.sim.offline import CHANGES

    documented = [row[0] for row in table("docs/evaluation.md", "## Decisions to learn from")]
    changes = [f"change_{name}" for name in CHANGES]
    assert documented == ["pod", "pod_*", "node_*", "mask", "action", *changes, "done"]


def test_keys_of_an_evaluation() -> None:
    from pilotage.sim.evaluation import Evaluation, trial_of
    from pilotage.sim.scenario import Scenario
    from pilotage.sim.specs import TraceSource

    trial = trial_of(Scenario(traces=(TraceSource(name="balance-1"),), policies=("first-fit",)))
    documented = [row[0] for row in table("docs/evaluation.md", "## What it prints and writes")]
    assert documented == list(Evaluation(trial, (), (), ()).findings())
