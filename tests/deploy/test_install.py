"""The chart installed into a lab by helm, changed, and taken away; its scheduler started as its pod would."""

from __future__ import annotations

import base64
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from deploy.chart import CHART, helm, write_account
from lab.labs import eventually, make_namespace, pod
from pilotage.kube.client import Client, Json
from pilotage.lab.controlplane import Lab, in_lab

NAMESPACE = "installed"
RELEASE = "pilotage-test"
INSTALL = (RELEASE, CHART, "--namespace", NAMESPACE, "--wait", "--timeout", "180s", "--set")
SMALL = "scheduler.leaseName=installed,scheduler.profiles.installed=best-fit,scheduler.profiles.pilotage=null"
EVERYWHERE = (
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    f"/api/v1/namespaces/{NAMESPACE}/services",
    f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    f"/api/v1/namespaces/{NAMESPACE}/secrets",
    f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies",
    f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
)
CHOSEN = {"labelSelector": f"app.kubernetes.io/instance={RELEASE}"}


@pytest.fixture(scope="module")
def installed(lab: Lab) -> Iterator[Lab]:
    """Into a namespace that refuses pods which are not restricted."""

    async def prepare(client: Client) -> None:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        await client.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}})

    in_lab(lab, prepare)
    helm("install", *INSTALL, SMALL, kubeconfig=lab.kubeconfig)
    yield lab
    helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found", kubeconfig=lab.kubeconfig)


async def own_pods(client: Client, part: str) -> list[Json]:
    chosen = f"{CHOSEN['labelSelector']},app.kubernetes.io/component={part}"
    found, _ = await client.list_all(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=chosen)
    return [one for one in found if "deletionTimestamp" not in one["metadata"]]


def secret(lab: Lab) -> Json:
    async def ask(client: Client) -> Json:
        found: Json = (await client.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{RELEASE}-tls"))["data"]
        return found

    return in_lab(lab, ask)


def test_its_pods_run_where_only_restricted_ones_may(installed: Lab) -> None:
    found = in_lab(installed, lambda client: own_pods(client, "scheduler"))
    assert [one["status"]["phase"] for one in found] == ["Running", "Running"]
    assert {one["spec"]["schedulerName"] for one in found} == {"default-scheduler"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_as_its_pod(lab: Lab, tmp_path: Path, port: int) -> subprocess.Popen[bytes]:
    """The arguments of the Deployment, the account of the Deployment, the certificates of the Deployment."""
    for name, data in secret(lab).items():
        (tmp_path / name).write_bytes(base64.b64decode(data))

    async def ask(client: Client) -> tuple[list[str], Path]:
        found = await client.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{RELEASE}-scheduler")
        spec = found["spec"]["template"]["spec"]
        account = await write_account(client, lab, spec["serviceAccountName"], NAMESPACE)
        return spec["containers"][0]["args"], account

    arguments, account = in_lab(lab, ask)
    here = {"--listen": f"127.0.0.1:{port}", "--tls": str(tmp_path)}
    words = []
    for argument in arguments:
        name = argument.partition("=")[0]
        words.append(f"{name}={here[name]}" if name in here else argument)
    command = [Path(sys.executable).with_name("pilotage"), *words, "--kubeconfig", account]
    with (tmp_path / "log").open("wb") as log:
        return subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)


async def answer(port: int, path: str, tls: ssl.SSLContext, name: str | None = None) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}{path}", ssl=tls, server_hostname=name) as found,
    ):
        return found.status, await found.text()


def test_it_schedules_with_the_rights_and_answers_the_probes_of_its_pod(installed: Lab, tmp_path: Path) -> None:
    port = free_port()
    kubelet = ssl.create_default_context()
    kubelet.check_hostname, kubelet.verify_mode = False, ssl.CERT_NONE  # as kubelets ask

    async def test(client: Client) -> None:
        async def ready() -> bool | None:
            assert process.poll() is None, (tmp_path / "log").read_text()
            try:
                return (await answer(port, "/readyz", kubelet))[0] == 200 or None
            except aiohttp.ClientError:
                return None

        await eventually(ready, "it is ready")
        namespace = await make_namespace(client)
        await client.create(f"/api/v1/namespaces/{namespace}/pods", pod("one", scheduler="installed"))

        async def bound() -> bool | None:
            found = await client.get(f"/api/v1/namespaces/{namespace}/pods/one")
            return "nodeName" in found["spec"] or None

        assert await eventually(bound, "the pod is bound")
        assert await answer(port, "/healthz", kubelet) == (200, "ok")
        assert (await answer(port, "/metrics", kubelet))[0] == 401
        prometheus = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        prometheus.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
        status, text = await answer(port, "/metrics", prometheus, f"{RELEASE}-scheduler.{NAMESPACE}.svc")
        assert status == 200
        assert 'scheduler_schedule_attempts_total{profile="installed",result="scheduled"} 1.0' in text

    process = start_as_its_pod(installed, tmp_path, port)
    try:
        in_lab(installed, test)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert process.returncode == 0
    assert "forbidden" not in (tmp_path / "log").read_text()


def test_an_upgrade_keeps_its_certificates_and_a_rollback_its_arguments(installed: Lab) -> None:
    before = secret(installed)
    helm("upgrade", *INSTALL, f"{SMALL},scheduler.mode=advise", kubeconfig=installed.kubeconfig)

    async def rights(client: Client) -> set[str]:
        role = await client.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{RELEASE}-scheduler")
        return {verb for rule in role["rules"] for verb in rule["verbs"]}

    assert in_lab(installed, rights) == {"list", "watch"}
    assert secret(installed) == before
    back = ("rollback", RELEASE, "1", "--namespace", NAMESPACE, "--wait", "--timeout", "180s")
    helm(*back, kubeconfig=installed.kubeconfig)
    assert in_lab(installed, rights) == {"create", "get", "list", "patch", "watch"}


def test_nothing_is_left_when_it_is_uninstalled(installed: Lab) -> None:
    async def left(client: Client) -> list[str]:
        found = []
        for path in EVERYWHERE:
            items, _ = await client.list_all(path, **CHOSEN)
            found += [f"{path}/{one['metadata']['name']}" for one in items]
        return found

    assert len(in_lab(installed, left)) >= len(EVERYWHERE) - 1  # it has no ConfigMap
    helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", kubeconfig=installed.kubeconfig)
    assert in_lab(installed, left) == []
