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
        "reference-http.md": "\n".join(http()),
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
    """What each process tells Prometheus."""
    from pilotage.load.collecting import Collector
    from pilotage.load.columns import LoadColumns
    from pilotage.load.settings import preset
    from pilotage.model.clock import SystemClock
    from pilotage.scheduler import metrics as scheduler
    from pilotage.serving import metrics as serving

    service, clock = serving.Metrics().registry, SystemClock()
    Collector(LoadColumns(preset("http://127.0.0.1:9090", "node-exporter"), clock), clock, service, lambda: None)
    yield "# Metrics\n"
    yield "Counters end in `_total`, histograms in `_bucket`, `_sum` and `_count`.\n"
    for title, where, registry in (
        ("pilotage schedule", "On `--metrics-port` and `--listen`.", scheduler.Metrics({}).registry),
        ("pilotage schedule --advise", "On `--metrics-port` and `--listen`.", scheduler.AdviceMetrics().registry),
        ("pilotage serve", "On its own address; those of load with `--prometheus` or `--load`.", service),
    ):
        yield f"## {title}\n"
        yield f"{where}\n"
        found = sorted(registry.collect(), key=lambda metric: metric.name)
        rows = [(f"`{one.name}`", one.type, one.documentation) for one in found]
        yield from _table(("metric", "type", "meaning"), rows)
    yield "## pilotage dashboard\n"
    yield "None: it decides nothing. `/healthz` and `/readyz` say whether it runs and has seen the cluster.\n"
    yield "## The plugin of kube-scheduler\n"
    yield "Beside kube-scheduler's own: [plugin.md](plugin.md#metrics).\n"


def findings() -> Iterator[str]:
    """Codes of `pilotage trace check`."""
    from pilotage.workloads.check import CODES

    yield "# Findings of `pilotage trace check`\n"
    rows = [(f"`{code}`", entry.severity, entry.meaning, entry.advice) for code, entry in CODES.items()]
    yield from _table(("code", "severity", "meaning", "advice"), rows)


def http() -> Iterator[str]:
    """The API of `pilotage serve`, from the description that it gives of itself."""
    import orjson

    from pilotage.serving.openapi import VERSION, description

    whole: dict[str, Any] = orjson.loads(description(extender=True))
    yield f"# HTTP API of `pilotage serve`, version {VERSION}\n"
    yield "A running service has the same as OpenAPI 3.1 at `/openapi.json`. [serve.md](serve.md) explains it.\n"
    rows = []
    for path, methods in whole["paths"].items():
        for method, operation in methods.items():
            asked = _type(_json_schema(operation.get("requestBody", {})))
            answered = _type(_json_schema(operation["responses"]["200"]))
            rows.append((f"`{method.upper()} {path}`", operation["summary"], asked, answered))
    yield from _table(("request", "does", "body", "answer"), rows)
    yield "## Refusals\n"
    statuses = whole["paths"]["/v1/score"]["post"]["responses"]
    yield "With a body of type `Problem`.\n"
    refusals = [(f"`{status}`", entry["description"]) for status, entry in statuses.items() if status != "200"]
    yield from _table(("status", "meaning"), refusals)
    yield "## Types\n"
    for name, schema in whole["components"]["schemas"].items():
        yield f"### {name}\n"
        if "description" in schema:
            yield f"{schema['description']}\n"
        required = schema.get("required", ())
        fields = [
            (f"`{field}`", _type(kind), "yes" if field in required else "")
            for field, kind in schema.get("properties", {}).items()
        ]
        if fields:
            yield from _table(("field", "type", "required"), fields)


def _json_schema(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = content.get("content", {}).get("application/json", {}).get("schema", {})
    return found


def _type(schema: dict[str, Any]) -> str:
    """In a few words, with its limits."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    limits = "".join(f", {words} {schema[key]}" for key, words in _LIMITS.items() if key in schema)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}{limits}"
    if isinstance(schema.get("additionalProperties"), dict) and schema["additionalProperties"]:
        return f"object of {_type(schema['additionalProperties'])}{limits}"
    return f"{schema.get('type', '')}{limits}"


_LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "length at least",
    "maxLength": "length at most",
    "minItems": "at least",
    "maxItems": "at most",
}
