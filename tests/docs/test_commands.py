"""Commands, links, file names and tables of the documentation are true."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from documents import (
    BLOCK,
    DOCUMENTS,
    ROOT,
    SPAN,
    Command,
    blocks,
    commands,
    prose,
    run,
    run_all,
    shell_lines,
    table,
    text_of,
)

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(
    r"(?:src|tests|docs|examples|\.ci)/[\w./-]*|[A-Z]\w*\.(?:md|txt)|Makefile|LICENSE|NOTICE|[a-z]+\.toml"
)

# Commands that take too long as they stand, and options that make them small. The last of an option counts.
SMALLER = {
    "bench sim": "--policies fgd --scales 0.01",
    "bench env": "--steps 2000 --copies 16",
    "bench serve": "--nodes 10 --calls 300 --seconds 0.1",
    "bench schedule": "--nodes 3 --there 6 --pods 6 --rounds 1",
    "bench plugin": "--nodes 3 --pods 6 --rounds 1",
    "lab demo": "--nodes 4 --pods 6",
    "compare": "--seeds 42",
}
GROUPS = ("bench", "gang", "lab", "train")


def name_of(command: Command) -> str:
    """The command without its arguments: lab demo, compare."""
    return " ".join(command.words[: 2 if command.words[0] in GROUPS else 1])


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
        known = options_of(name_of(command).split(), tmp_path)
        assert {word for word in command.words if word.startswith("--")} <= known, command.line


SLOW = [(document, command) for document in DOCUMENTS for command in commands(document) if command.slow]


@pytest.mark.parametrize("line", dict.fromkeys(c.line for _, c in SLOW if name_of(c) in SMALLER))
def test_slow_commands_run_where_their_sizes_can_be_made_small(line: str, tmp_path: Path) -> None:
    command = Command.of(line)
    run_all([Command(f"{line} {SMALLER[name_of(command)]}")], tmp_path)


def test_slow_commands_that_are_not_run_are_listed_with_the_tests_that_run_the_like() -> None:
    rows = table("docs/testing.md", "### Commands that are not run as they stand")
    listed = {row[0] for row in rows}
    assert {name_of(c) for _, c in SLOW} - set(SMALLER) == listed
    for row in rows:
        for path in re.findall(r"tests/[\w/.]+", row[1]):
            assert (ROOT / path).exists(), path


def options_of(names: list[str], directory: Path) -> set[str]:
    done = run([*names, "--help"], directory, {**os.environ, "COLUMNS": "200"})
    assert done.returncode == 0, f"there is no {' '.join(names)}"
    return set(re.findall(r"--[\w-]+", done.stdout))


def test_what_users_of_other_projects_are_told_to_type_exists(tmp_path: Path) -> None:
    """Code spans of docs/coming-from.md that name a command without `pilotage` in front."""
    rows = [line.split("|")[2] for line in prose("docs/coming-from.md").splitlines() if line.startswith("| ")]
    spans = [shlex.split(span) for row in rows for span in SPAN.findall(row)]
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
    lines = [*shell_lines(document), *SPAN.findall(prose(document))]
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
    for span in SPAN.findall(prose(document)):
        if _PATH.fullmatch(span):
            assert (ROOT / span).exists() or (here / span).exists(), f"{document}: {span}"


def headings(path: Path) -> set[str]:
    """Anchors as GitHub and mkdocs make them."""
    found = re.findall(r"^#+ (.*)$", BLOCK.sub("", path.read_text()), re.MULTILINE)
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
