"""`pilotage schedule` before it decides: what happens in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.commands import pilotage
from pilotage.model.errors import InputError

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: nowhere
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
clusters: [{name: nowhere, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: nobody, user: {}}]
"""


def test_what_is_not_compiled_yet_is_compiled_before_it_asks_to_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that leads and compiles would keep all others from deciding."""
    order: list[str] = []

    def lease(*_: object) -> None:
        order.append("lease")
        raise InputError("nobody leads here")

    monkeypatch.setattr(
        "pilotage.scheduler.cycle.compile_decisions",
        lambda policies: order.extend(f"compiled {policy.name}" for policy in policies),
    )
    monkeypatch.setattr("pilotage.kube.lease.Lease", lease)
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    done = pilotage("schedule", "--profile", "ours=fgd", "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert (done.code, "nobody leads here" in done.err) == (2, True), done.err
    assert order == ["compiled fgd@1", "lease"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--report", "{}/file/report.json"], "--report"),
        (["--tls", "{}"], "--tls: has no effect without --listen"),
        (["--learn", "{}/learned", "--advise", "{}/advice.csv"], "--learn: has no effect with --advise"),
    ],
)
def test_options_that_cannot_work_are_refused_before_anything_runs(
    words: list[str], named: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = pilotage("schedule", *(word.format(tmp_path) for word in words))
    assert (done.code, named in done.err) == (2, True), done.err
