"""The Go side: its own tests, vet, layout, and that it is made of what kube-scheduler of the lab is made of."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pilotage.lab.build import MODULES, go_environment
from pilotage.lab.plugin_build import plugin_directory, plugin_sources
from pilotage.lab.plugin_figures import PROFILES
from pilotage.lab.toolchain import find_go

ROOT = Path(__file__).resolve().parent.parent.parent


def go(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [find_go(), *arguments], cwd=plugin_sources(), env=go_environment(), capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "arguments", [("test", "-trimpath", "-vet=off", "./..."), ("vet", "-trimpath", "./score")], ids=["test", "vet"]
)
def test_go(arguments: tuple[str, ...]) -> None:
    """With the options of the build, so that what it compiled is used."""
    done = go(*arguments)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]


def test_sources_are_formatted() -> None:
    gofmt = Path(go("env", "GOROOT").stdout.strip()) / "bin" / "gofmt"
    done = subprocess.run([gofmt, "-l", "."], cwd=plugin_sources(), capture_output=True, text=True, check=True)
    assert done.stdout == ""


def required(go_mod: Path) -> set[str]:
    """Modules with versions, and what stands for them."""
    return set(re.findall(r"^\t(\S+ (?:=> \S+ )?v\S+)", go_mod.read_text(), re.MULTILINE))


def test_it_is_made_of_what_the_labs_kube_scheduler_is_made_of() -> None:
    ours, theirs = required(plugin_sources() / "go.mod"), required(MODULES / "kubernetes" / "go.mod")
    assert len(ours) > 50
    assert ours <= theirs | {"k8s.io/kubernetes v1.36.3"}


def test_tests_do_not_decide_what_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pilotage.lab import plugin_build

    for path in plugin_sources().rglob("*"):
        if path.is_file():
            copy = tmp_path / path.relative_to(plugin_sources())
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(path.read_bytes())
    before = plugin_directory()
    monkeypatch.setattr(plugin_build, "plugin_sources", lambda: tmp_path)
    assert plugin_directory() == before
    (tmp_path / "score" / "more_test.go").write_text("package score")
    assert plugin_directory() == before
    (tmp_path / "score" / "more.go").write_text("package score")
    assert plugin_directory() != before


def test_the_documented_configuration_is_the_one_that_tests_use() -> None:
    assert f"```yaml\n{PROFILES.read_text()}```" in (ROOT / "docs" / "plugin.md").read_text()


def test_reasons_in_the_documentation_are_those_of_the_metric() -> None:
    source = (plugin_sources() / "score" / "fallback.go").read_text()
    document = (ROOT / "docs" / "plugin.md").read_text().partition("| reason | |")[2].partition("\n\n")[0]
    counted = re.findall(r'^\t\w+ +reason = "([a-z-]+)"', source, re.MULTILINE)
    assert counted
    assert re.findall(r"^\| `([a-z-]+)`", document, re.MULTILINE) == counted


def test_arguments_in_the_documentation_are_those_of_the_plugin() -> None:
    source = (plugin_sources() / "score" / "args.go").read_text()
    document = (ROOT / "docs" / "plugin.md").read_text().partition("| argument | default")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in document.splitlines() if row.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(re.findall(r'json:"(\w+),', source))
