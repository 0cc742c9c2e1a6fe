"""`pilotage doctor`: what is installed, what is missing, what to type."""

from __future__ import annotations

import os
import platform
import shutil
from importlib import metadata, util
from typing import Annotated

import typer

from pilotage import __version__
from pilotage.cli.options import JsonOption, print_json, results

EXAMPLE = "Example: pilotage doctor"

OPTIONAL = "not there"  # what only some commands need
CORE = ("numba", "numpy", "polars", "plotly", "pyyaml", "rich", "scipy", "typer")


def doctor(
    *,
    compile_now: Annotated[
        bool, typer.Option("--compile", help="Compile the kernels now, so that the next command starts at once.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the installation and say what to type where something is missing."""
    from rich.table import Table

    from pilotage.kernels.compiling import cache_directory

    findings = [("pilotage", "ok", __version__), ("python", "ok", platform.python_version())]
    for name in CORE:
        findings.append(_package(name))
    findings += [_ray(), _helm()]
    findings.append(("cores", "ok", str(os.cpu_count())))
    if compile_now:
        compile_kernels()
    directory = cache_directory()
    compiled = any(directory.rglob("*run_episode*.nbc"))
    advice = "" if compiled else "; compiled by the first command, or now by: pilotage doctor --compile"
    findings.append(("kernels", "ok" if compiled else "not compiled yet", f"{directory}{advice}"))
    findings.append(_cache_writable(directory))
    if as_json:
        print_json([{"part": part, "state": state, "detail": detail} for part, state, detail in findings])
    else:
        table = Table("part", "state", "detail", title="pilotage doctor")
        for row in findings:
            table.add_row(*row)
        results().print(table)
    if any(state in ("missing", "not writable") for _, state, _ in findings):
        raise typer.Exit(1)


def _package(name: str) -> tuple[str, str, str]:
    module = {"pyyaml": "yaml"}.get(name, name)
    if util.find_spec(module) is None:
        return name, "missing", f"pip install {name}"
    return name, "ok", metadata.version(name)


def _ray() -> tuple[str, str, str]:
    if util.find_spec("ray") is None:
        return "ray", OPTIONAL, "for compare --engine ray: pip install 'pilotage[ray]'"
    return "ray", "ok", metadata.version("ray")


def _helm() -> tuple[str, str, str]:
    found = shutil.which("helm")
    return ("helm", "ok", found) if found else ("helm", OPTIONAL, "for charts in apply: install Helm 3")


def _cache_writable(directory: object) -> tuple[str, str, str]:
    if os.access(str(directory), os.W_OK):
        return "kernel cache", "ok", "writable"
    return "kernel cache", "not writable", "set PILOTAGE_CACHE to a directory you may write to"


def compile_kernels() -> None:
    """Runs a small case: what is not on disk yet is compiled."""
    from pilotage.policies.registry import find_policy
    from pilotage.sim.protocols import run_openb
    from pilotage.workloads.generate import openb_like_nodes, openb_like_pods
    from pilotage.workloads.trace import Trace

    run_openb(Trace.of("small", openb_like_nodes(0.01), openb_like_pods(20)), find_policy("fgd"), 0, 0.0)
