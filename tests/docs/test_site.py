"""The documentation as a site: it builds strictly, and its generated pages say what the code says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pilotage.serving.openapi import description
from pilotage.workloads.check import CODES

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def test_every_page_is_in_the_navigation(site: Path) -> None:
    shown = (ROOT / "mkdocs.yml").read_text()
    assert all(f" {path.name}\n" in shown for path in ROOT.glob("docs/*.md"))
    assert all((site / f"{path.stem}.html").exists() for path in ROOT.glob("docs/*.md"))


def test_the_reference_names_every_command_with_its_options(site: Path) -> None:
    page = (site / "reference-commands.html").read_text()
    for command in ("compare", "schedule", "trace check", "train dqn", "lab nodes add", "gang plan", "doctor"):
        assert f">pilotage {command}<" in page
    assert "--lease-name" in page


def test_the_reference_names_settings_metrics_and_findings(site: Path) -> None:
    assert "pods_per_node" in (site / "reference-settings.html").read_text()
    metrics = (site / "reference-metrics.html").read_text()
    for name in ("scheduler_pending_pods", "pilotage_advised_pods", "pilotage_serve_requests", "pilotage_load_queries"):
        assert f"<code>{name}</code>" in metrics
    findings = (site / "reference-findings.html").read_text()
    assert all(f"<code>{code}</code>" in findings for code in CODES)


def test_the_reference_describes_the_http_api(site: Path) -> None:
    page = (site / "reference-http.html").read_text()
    described = json.loads(description(extender=True))
    for path, methods in described["paths"].items():
        assert all(f"<code>{method.upper()} {path}</code>" in page for method in methods)
    for name in described["components"]["schemas"]:
        assert f'<h3 id="{name.lower()}">' in page


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    scripts = re.compile(r'<(?:script|img|iframe)[^>]+src="(https?:[^"]+)')
    styles = re.compile(r'<link rel="stylesheet" href="(https?:[^"]+)')
    for path in site.rglob("*.html"):
        text = path.read_text()
        assert scripts.findall(text) + styles.findall(text) == [], path


def test_the_new_heuristic_of_the_contributors_page_works(tmp_path: Path) -> None:
    """Its difference applies to the sources as they are, to two files, and the policy runs."""
    (difference,) = re.findall(r"^```diff\n(.*?)^```$", (ROOT / "docs/contributors-task.md").read_text(), re.M | re.S)
    files = re.findall(r"^\+\+\+ b/(.*)$", difference, re.M)
    assert len(files) == 2
    for name in files:
        target = tmp_path / name
        target.parent.mkdir(parents=True)
        target.write_bytes((ROOT / name).read_bytes())
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "-C1", "-"], cwd=tmp_path, input=difference, text=True, check=True)
    copy = tmp_path / "src" / "pilotage"
    for path in (ROOT / "src" / "pilotage").rglob("*"):
        place = copy / path.relative_to(ROOT / "src" / "pilotage")
        if path.is_file() and "__pycache__" not in path.parts and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path)
    words = ["simulate", "--pods", str(ROOT / "examples/04_manifests"), "--load", "0", "--policy", "idle-gpus"]
    code = "import sys; from pilotage.cli import main; sys.argv[0] = 'pilotage'; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--explain", "web-1"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src"), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "idle-gpus@1" in done.stdout
