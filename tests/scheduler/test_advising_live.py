"""Advice beside the real kube-scheduler, with the right to read and no other."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from lab.labs import eventually, pod
from pilotage.kube.client import Client, Json
from pilotage.kube.errors import KubeError
from pilotage.lab.controlplane import Lab
from pilotage.lab.namespaces import ensure
from pilotage.lab.nodes import remove
from pilotage.model.clock import VirtualClock
from pilotage.model.errors import InputError
from pilotage.policies.registry import find_policy
from pilotage.scheduler.advising import COLUMNS, Adviser
from scheduler.test_live import add_ready, all_bound, live, make, own_nodes

RBAC = "/apis/rbac.authorization.k8s.io/v1"
READS = {"apiGroups": [""], "resources": ["nodes", "pods", "namespaces"], "verbs": ["list", "watch"]}


async def reader_kubeconfig(client: Client, lab: Lab, namespace: str, path: Path) -> Path:
    """Of a service account that may list and watch what docs/scheduler.md says, and nothing else."""
    await client.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "adviser"}})
    await ensure(client, f"{RBAC}/clusterroles", {"metadata": {"name": "pilotage-adviser"}, "rules": [READS]})
    binding = {
        "metadata": {"name": f"adviser-{namespace}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pilotage-adviser"},
        "subjects": [{"kind": "ServiceAccount", "name": "adviser", "namespace": namespace}],
    }
    await client.create(f"{RBAC}/clusterrolebindings", binding)
    answer = await client.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/adviser/token", {"spec": {"expirationSeconds": 3600}}
    )
    config: Json = yaml.safe_load(lab.kubeconfig.read_text())
    config["users"] = [
        {"name": entry["name"], "user": {"token": answer["status"]["token"]}} for entry in config["users"]
    ]
    path.write_text(yaml.safe_dump(config))
    return path


def test_differences_to_kube_scheduler_are_written_down(lab: Lab, tmp_path: Path) -> None:
    async def test(client: Client, namespace: str) -> None:
        await add_ready(client, own_nodes(namespace, 2))
        kubeconfig = await reader_kubeconfig(client, lab, namespace, tmp_path / "reader")
        out, report = tmp_path / "advice.csv", tmp_path / "report.json"
        command = [sys.executable, "-m", "pilotage", "schedule", "--kubeconfig", str(kubeconfig), "--advise", str(out)]
        command += ["--profile", "default-scheduler=most-allocated", "--report", str(report)]
        log = tmp_path / "log"
        with log.open("w") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
        try:
            manifests = [pod(f"p{i}", nodeSelector={"test": namespace}) for i in range(4)]

            async def rows() -> pl.DataFrame | None:
                """SIGUSR1 asks for the table at once."""
                assert process.poll() is None
                process.send_signal(signal.SIGUSR1)
                if not out.exists():
                    return None
                found = pl.read_csv(out).filter(pl.col("namespace") == namespace)
                return found if found.height == 4 else None

            async def ready() -> bool | None:
                assert process.poll() is None, log.read_text()
                return "advises only" in log.read_text() or None

            await eventually(ready, "the adviser follows the cluster")
            await make(client, namespace, *manifests)
            bound = await eventually(lambda: all_bound(client, namespace, 4), "kube-scheduler has bound them")
            found = await eventually(rows, "four rows are written")
        finally:
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait, 120)
        said = log.read_text()
        assert process.returncode == 0, said
        assert "What would have been done differently" in said
        assert tuple(found.columns) == COLUMNS
        actual = {row["pod"]: row["actual_node"] for row in found.iter_rows(named=True)}
        assert actual == {name: one["spec"]["nodeName"] for name, one in bound.items()}
        # kube-scheduler spreads these pods over both nodes, most-allocated packs them. Which of them are alike depends
        # on how kube-scheduler broke its ties.
        assert set(actual.values()) == {node.name for node in own_nodes(namespace, 2)}
        assert found["same"].to_list().count(False) >= 1
        assert set(found["actual_rank"].to_list()) <= {1, 2}
        assert ((found["actual_rank"] == 1) == found["same"]).all()
        assert report.exists()
        await remove(client, [node.name for node in own_nodes(namespace, 2)])

    live(lab, test)


def test_the_account_of_the_adviser_cannot_write(lab: Lab, tmp_path: Path) -> None:
    from pilotage.kube.access import read_kubeconfig
    from pilotage.model.clock import SystemClock

    async def test(client: Client, namespace: str) -> None:
        kubeconfig = await reader_kubeconfig(client, lab, namespace, tmp_path / "reader")
        async with Client(read_kubeconfig(kubeconfig, None, SystemClock())) as reader:
            adviser = Adviser(reader, {"default-scheduler": find_policy("fgd")}, SystemClock())
            stop = asyncio.Event()
            task = asyncio.create_task(adviser.run(stop))
            await asyncio.wait_for(adviser.synced.wait(), 120)
            stop.set()
            await task
            assert {kind.split()[0] for kind in reader.calls} == {"GET", "WATCH"}
            with pytest.raises(KubeError, match="403"):
                await reader.create(f"/api/v1/namespaces/{namespace}/pods", pod("x"))

    live(lab, test)


def test_pods_that_wait_are_reported_with_those_that_would_have_a_node() -> None:
    from kube.objects import a_node, a_pod
    from pilotage.kube.cache import NodeFollower, PodFollower

    none: Any = None
    adviser = Adviser(none, {"default-scheduler": find_policy("best-fit")}, VirtualClock())
    NodeFollower(adviser.cache).listed([a_node("n0", "4"), a_node("n1", "8")])
    pods = PodFollower(adviser.cache)
    small = {"schedulerName": "default-scheduler", "requests": {"cpu": "3"}}
    pods.listed([a_pod("a", **small), a_pod("b", **small), a_pod("huge", **{**small, "requests": {"cpu": "9"}})])
    pods.changed(a_pod("a", node="n1", **small))
    (row,) = adviser.rows
    assert (row.advised_node, row.actual_node, row.same, row.actual_rank, row.candidates) == ("n0", "n1", False, 2, 2)
    figures = adviser.report()
    assert (figures["pods"], figures["other_node"], figures["mean_rank_of_actual"]) == (1, 1, 2.0)
    assert (figures["waiting_now"], figures["waiting_that_would_be_placed"]) == (2, 1)
    assert adviser.cache.state.placement("uid-b") is None  # asked about, not taken


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from pilotage.cli import app

    done = CliRunner().invoke(app, ["schedule", "--advise", str(tmp_path / "advice.txt")])
    assert isinstance(done.exception, InputError)
    assert "--advise" in str(done.exception)
