"""Pages that are made from the code when the documentation is built, so that they are never out of date."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    for name, content in pages().items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the repository that are no pages become their names."""
    return _OUTSIDE.sub(lambda match: f"{match[1]} (`{match[2].removeprefix('../')}`)", markdown)


def pages() -> dict[str, str]:
    """Name and text of each page."""
    return {
        "reference-commands.md": "\n".join(commands()),
        "reference-settings.md": "\n".join(settings()),
        "reference-metrics.md": "\n".join(metrics()),
        "reference-findings.md": "\n".join(findings()),
    }


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in row)} |"
    yield ""


def commands() -> Iterator[str]:
    """Every command with its options, walked as the command line itself does."""
    from pilotage.cli import app

    yield "# Commands\n"
    yield "Exit codes: 0 done, 1 the work ran and its answer is bad, 2 bad input or usage.\n"
    yield from _command(typer.main.get_group(app), ("pilotage",))


def _command(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    context: Any = type(command).context_class(command, info_name=path[-1])
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            yield from _command(command.get_command(context, name), (*path, name))
        return
    yield f"## {' '.join(path)}\n"
    yield f"{(command.help or '').strip()}\n"
    if command.epilog:
        yield f"{command.epilog.partition(': ')[0]}: `{command.epilog.partition(': ')[2]}`\n"
    rows = []
    for parameter in command.params:
        record = getattr(parameter, "help", None) or ""
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        default = parameter.default
        shown = "" if default in (None, False, ...) or callable(default) else f"`{default}`"
        rows.append((names, record, "required" if parameter.required else shown))
    yield from _table(("option", "meaning", "default"), rows)


def settings() -> Iterator[str]:
    """What can be set about trainings: the command line is made from the same fields."""
    from pilotage.training.settings import AGENTS

    yield "# Settings of trainings\n"
    yield "As options of `pilotage train AGENT`, with `-` for `_`.\n"
    for name, defaults in AGENTS.items():
        yield f"## {name}\n"
        rows = []
        for entry in dataclasses.fields(defaults):
            bounds = entry.metadata["bounds"]
            limits = "" if bounds is None else f"{bounds.least:g} to {bounds.most:g}"
            rows.append((f"`{entry.name}`", entry.metadata["help"], f"`{getattr(defaults, entry.name)}`", limits))
        yield from _table(("setting", "meaning", "default", "limits"), rows)


def metrics() -> Iterator[str]:
    """What the scheduler tells Prometheus."""
    from pilotage.scheduler.metrics import Metrics

    yield "# Metrics of the scheduler\n"
    found = sorted(Metrics().registry.collect(), key=lambda metric: metric.name)
    yield from _table(("metric", "type", "meaning"), [(f"`{one.name}`", one.type, one.documentation) for one in found])


def findings() -> Iterator[str]:
    """Codes of `pilotage trace check`."""
    from pilotage.workloads.check import CODES

    yield "# Findings of `pilotage trace check`\n"
    rows = [(f"`{code}`", entry.severity, entry.meaning, entry.advice) for code, entry in CODES.items()]
    yield from _table(("code", "severity", "meaning", "advice"), rows)
