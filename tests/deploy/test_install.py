"""The chart installed into a lab by helm, changed, and taken away; each part started as its pod would."""

from __future__ import annotations

import csv
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.releases import Part, Release, a_release, started
from lab.labs import eventually, make_namespace, pod
from pilotage.kube.client import Client, Json
from pilotage.lab.controlplane import Lab, in_lab

PARTS = (
    "scheduler.profiles.installed=best-fit",
    "scheduler.profiles.pilotage=null",
    "service.enabled=true",
    "service.policies[0]=best-fit",
    "dashboard.enabled=true",
    "dashboard.shadow=best-fit",
    "pluginScheduler.enabled=true",
    "pluginScheduler.pluginArgs.deadline=5s",
)
EVERYWHERE = (
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "/api/v1/namespaces/{}/serviceaccounts",
    "/api/v1/namespaces/{}/services",
    "/api/v1/namespaces/{}/configmaps",
    "/api/v1/namespaces/{}/secrets",
    "/apis/apps/v1/namespaces/{}/deployments",
    "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
)


@pytest.fixture(scope="module")
def installed(lab: Lab) -> Iterator[Release]:
    """All parts. Tests change nothing about it: which of them runs first, and where, is left to the runner."""
    with a_release(lab, *PARTS) as release:
        yield release


async def bound(client: Client, scheduler: str) -> str:
    """The node of a new pod."""
    namespace = await make_namespace(client)
    await client.create(f"/api/v1/namespaces/{namespace}/pods", pod("one", scheduler=scheduler))

    async def ask() -> str | None:
        found = await client.get(f"/api/v1/namespaces/{namespace}/pods/one")
        node: str | None = found["spec"].get("nodeName")
        return node

    return await eventually(ask, f"{scheduler} has bound the pod")


async def counted(part: Part, line: str) -> None:
    """The metrics of a pod have this: what it did is to be seen in the cluster before it is counted."""

    async def ask() -> bool | None:
        status, text = await part.asked("/metrics", certified=True)
        assert status == 200
        return line in text or None

    await eventually(ask, line)


def test_the_scheduler_runs_as_its_pod(installed: Release, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        await part.probed()
        await bound(client, "installed")
        assert (await part.asked("/metrics", certified=False))[0] == 401
        await counted(part, 'scheduler_schedule_attempts_total{profile="installed",result="scheduled"} 1.0')

    with started(installed, "scheduler", tmp_path / "pod") as part:
        in_lab(installed.lab, test)


def test_the_adviser_runs_as_its_pod(lab: Lab, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        await part.probed()
        node = await bound(client, "default-scheduler")
        await counted(part, 'pilotage_advised_pods_total{profile="default-scheduler"')
        advice = part.directory / "advice" / "advice.csv"

        async def written() -> list[dict[str, str]] | None:
            part.process.send_signal(signal.SIGUSR1)  # else once a minute
            rows = list(csv.DictReader(advice.read_text().splitlines())) if advice.exists() else []
            return [row for row in rows if row["actual_node"] == node] or None

        assert await eventually(written, "the pod is in the table")

    with a_release(lab, "scheduler.mode=advise", "scheduler.advises.default-scheduler=best-fit") as release:
        assert "exec deploy/" in release.notes
        assert "-- cat /var/lib/pilotage/advice.csv" in release.notes
        with started(release, "scheduler", tmp_path / "pod") as part:
            in_lab(lab, test)


def test_the_service_runs_as_its_pod(installed: Release, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        await part.probed()
        assert (await part.asked("/metrics", certified=False))[0] == 401

        async def follows() -> bool | None:
            status, text = await part.asked("/metrics", certified=True)
            assert status == 200
            (nodes,) = re.findall(r"^pilotage_serve_cluster_nodes (.*)$", text, re.M)
            return float(nodes) > 0 or None

        await eventually(follows, "it has seen the nodes of the cluster")

    with started(installed, "service", tmp_path / "pod") as part:
        in_lab(installed.lab, test)


def test_the_dashboard_runs_as_its_pod(installed: Release, tmp_path: Path) -> None:
    token = installed.data("secrets", f"{installed.name}-dashboard-token")["token"].decode()

    async def test(client: Client) -> None:
        await part.probed()
        assert (await part.asked("/api/nodes/node-0000", certified=False))[0] == 401
        found, _ = await client.list_all("/api/v1/nodes")
        path = f"/api/nodes/{found[0]['metadata']['name']}"
        assert (await part.asked(path, certified=False, token=token))[0] == 200

    with started(installed, "dashboard", tmp_path / "pod") as part:
        in_lab(installed.lab, test)
        assert token not in part.log()


def test_the_plugin_scheduler_runs_as_its_pod_and_asks_the_service(installed: Release, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        await service.probed()
        await plugin.probed()
        await bound(client, "pilotage-plugin")
        _, text = await service.asked("/metrics", certified=True)
        assert 'pilotage_serve_requests_total{reason="ok",verb="score"} 1.0' in text

    with (
        started(installed, "service", tmp_path / "service") as service,
        started(installed, "plugin-scheduler", tmp_path / "plugin", service) as plugin,
    ):
        in_lab(installed.lab, test)


def test_it_is_installed_changed_taken_back_and_uninstalled(lab: Lab) -> None:
    with a_release(lab, *PARTS) as release:
        chosen = {"labelSelector": f"app.kubernetes.io/instance={release.name}"}

        async def running(client: Client) -> list[Json]:
            found, _ = await client.list_all(f"/api/v1/namespaces/{release.name}/pods", **chosen)
            return [one for one in found if "deletionTimestamp" not in one["metadata"]]

        async def left(client: Client) -> dict[str, int]:
            places = [path.format(release.name) for path in EVERYWHERE]
            return {path: len((await client.list_all(path, **chosen))[0]) for path in places}

        def rights() -> set[str]:
            path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{release.name}-scheduler"
            return {verb for rule in release.object(path)["rules"] for verb in rule["verbs"]}

        def secrets() -> list[dict[str, bytes]]:
            return [release.data("secrets", f"{release.name}-{name}") for name in ("tls", "dashboard-token")]

        pods = in_lab(lab, running)
        assert {one["status"]["phase"] for one in pods} == {"Running"}
        assert {one["spec"]["schedulerName"] for one in pods} == {"default-scheduler"}
        assert len(pods) == 7  # two of each but the dashboard
        assert all(in_lab(lab, left).values())

        before = secrets()
        release.upgrade(*PARTS, "scheduler.mode=advise")
        assert rights() == {"list", "watch"}
        assert secrets() == before
        release.helm("rollback", release.name, "1", "--namespace", release.name, "--wait", "--timeout", "180s")
        assert rights() == {"create", "get", "list", "patch", "watch"}

        release.helm("uninstall", release.name, "--namespace", release.name, "--wait")
        assert not any(in_lab(lab, left).values())
