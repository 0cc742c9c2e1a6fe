"""`pilotage explain POD`: why a pod of a live cluster went where it went, or where it would go now."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pilotage.cli.options import JsonOption, print_json, results
from pilotage.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pilotage.kube.client import Json
    from pilotage.policies.api import Policy
    from pilotage.policies.explain import Explanation

EXAMPLE = "Example: pilotage explain web-0 --namespace shop --kubeconfig $(pilotage lab kubeconfig)"


def explain(
    pod: Annotated[str, typer.Argument(metavar="POD", help="Its name.")],
    *,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Of the pod.")] = "default",
    policy: Annotated[str, typer.Option("--policy", help="Who would decide.")] = "fgd",
    now: Annotated[bool, typer.Option("--now", help="Decide afresh, whatever was written down.")] = False,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Else KUBECONFIG, else the pod's own account.")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="Of the kubeconfig.")] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Candidates to show.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Say why a pod is where it is: as written down when it was bound, else as it would be decided now.

    A pod that is bound is decided about as if it were not there. Only reads.
    """
    from pilotage.policies.registry import find_policy

    found = asyncio.run(_explained(namespace, pod, find_policy(policy), kubeconfig, context, now=now))
    if as_json:
        print_json(found if isinstance(found, dict) else {"source": "now", **found.as_dict()})
    elif isinstance(found, dict):
        results().print(_written(f"{namespace}/{pod}", found))
    else:
        from pilotage.report.tables import explanation_table

        results().print(explanation_table(found, top))


async def _explained(
    namespace: str, name: str, policy: Policy, kubeconfig: Path | None, context: str | None, *, now: bool
) -> Explanation | dict[str, Any]:
    from pilotage.kube.access import find_access
    from pilotage.kube.client import Client
    from pilotage.kube.errors import KubeError
    from pilotage.model.clock import SystemClock
    from pilotage.scheduler.explaining import read_annotation
    from pilotage.scheduler.snapshot import explain_now

    clock = SystemClock()
    async with Client(find_access(kubeconfig, context), agent="pilotage-explain") as client:
        try:
            found: Json = await client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        except KubeError as error:
            if error.status != 404:
                raise
            raise InputError(f"there is no pod {name!r} in namespace {namespace!r}", field="POD") from error
        written = read_annotation(found["metadata"].get("annotations") or {})
        if written is not None and not now:
            return {"source": "annotation", "pod": f"{namespace}/{name}", **written}
        return await explain_now(client, found, policy, clock)


def _written(pod: str, found: dict[str, Any]) -> RenderableType:
    """What the annotation says. It is text from outside: shown as it is, never as markup."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    lines: list[RenderableType] = [Text(f"{pod} by {found.get('policy', '?')}, as written down when it was bound")]
    reasons = Table("filtered out because", "nodes")
    for entry in _pairs(found.get("reasons")):
        reasons.add_row(Text(str(entry[0])), Text(str(entry[1])))
    best = Table("candidate", "total")
    for entry in _pairs(found.get("best")):
        best.add_row(Text(str(entry[0])), Text(str(entry[1])))
    lines += [table for table in (reasons, best) if table.row_count]
    lines.append(Text(f"Verdict: {found.get('why', '')}."))
    if found.get("devices"):
        lines.append(Text(f"Devices: {found['devices']}."))
    if found.get("victims"):
        lines.append(Text(f"Went for it: {found['victims']}."))
    return Group(*lines)


def _pairs(value: object) -> list[Any]:
    entries = value if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, list) and len(entry) == 2]
