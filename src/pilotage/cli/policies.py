"""`pilotage policies`: what can be named, and whether it keeps the contract."""

from __future__ import annotations

from typing import Annotated

import typer

from pilotage.cli.options import JsonOption, print_json, results

EXAMPLE = "Example: pilotage policies --check examples/02_own_policy.py:TightestCpu"


def policies(
    *,
    check: Annotated[
        str | None, typer.Option("--check", metavar="POLICY", help="Check one policy against the contract and end.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List registered policies with versions and features."""
    from rich.table import Table

    from pilotage.policies.api import compiled_rules, device_rule_of
    from pilotage.policies.checking import check_policy
    from pilotage.policies.registry import find_policy, registered

    if check is not None:
        policy = find_policy(check)
        check_policy(policy)
        typer.echo(f"{policy.name} keeps the contract")
        return
    rows = [
        {
            "name": policy.name,
            "summary": getattr(policy, "summary", ""),
            "compiled": compiled_rules(policy) is not None,
            "scope": policy.scope,
            "normalise": policy.normalise,
            "device_rule": device_rule_of(policy),
            "pod_features": list(policy.features.pod),
            "node_features": list(policy.features.node),
        }
        for policy in registered().values()
    ]
    if as_json:
        print_json(rows)
        return
    table = Table("policy", "prefers", "scope", "device", title="Policies")
    for row in rows:
        table.add_row(str(row["name"]), str(row["summary"]), str(row["scope"]), str(row["device_rule"]))
    results().print(table)
    typer.echo("Sums: 2*fgd+best-fit. Your own: file.py:Class or module:Class, or an entry point pilotage.policies.")
