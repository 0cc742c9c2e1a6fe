"""`pilotage policies`: what can be named, what a learned policy is, and whether a policy keeps the contract."""

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
    show: Annotated[
        str | None, typer.Option("--show", metavar="POLICY", help="Show how a learned policy came about and end.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List registered policies with versions and features."""
    if check is not None:
        _check(check)
    elif show is not None:
        _show(show, as_json)
    else:
        _list(as_json)


def _check(text: str) -> None:
    from pilotage.policies.checking import check_policy
    from pilotage.policies.registry import find_policy

    policy = find_policy(text)
    check_policy(policy)
    typer.echo(f"{policy.name} keeps the contract")


def _show(text: str, as_json: bool) -> None:
    import json

    from rich.table import Table

    from pilotage.policies.registry import find_checkpoint

    checkpoint = find_checkpoint(text)
    content = checkpoint.specification()
    if as_json:
        print_json(content)
        return
    origin = checkpoint.origin
    table = Table(title=checkpoint.name, show_header=False)
    rows = {
        "prefers": checkpoint.summary,
        "kind": checkpoint.kind,
        **checkpoint.architecture.settings,
        "weights": checkpoint.architecture.weights,
        "fingerprint": checkpoint.fingerprint,
        "data": origin.data_hash,
        **{f"training {key}": value for key, value in origin.training.items()},
        **{f"seeds {key}": value for key, value in origin.seeds.items()},
        **{f"score {key}": value for key, value in origin.scores.items()},
    }
    for key, value in rows.items():
        table.add_row(
            key if key.isprintable() else json.dumps(key), value if isinstance(value, str) else json.dumps(value)
        )
    results().print(table)


def _list(as_json: bool) -> None:
    from rich.table import Table

    from pilotage.policies.api import compiled_rules, device_rule_of
    from pilotage.policies.registry import registered

    rows = [
        {
            "name": policy.name,
            "summary": getattr(policy, "summary", ""),
            "learned": hasattr(policy, "fingerprint"),
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
    typer.echo("Sums: 2*fgd+best-fit. Learned: the directory of a checkpoint.")
    typer.echo("Your own: file.py:Class or module:Class, or an entry point pilotage.policies.")
