"""The chart installed by helm, and its parts started on this machine as their pods would be."""

from __future__ import annotations

import base64
import itertools
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml

from deploy.chart import CHART, helm, write_account
from lab.labs import eventually
from pilotage.kube.client import Client, Json
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.lab.plugin_build import built_plugin

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
_numbers = itertools.count()


@dataclass(frozen=True)
class Release:
    """One installation of the chart."""

    lab: Lab
    name: str  # of the release, and of its namespace
    notes: str

    def helm(self, *arguments: object) -> str:
        return helm(*arguments, kubeconfig=self.lab.kubeconfig)

    def upgrade(self, *values: str) -> None:
        self.helm("upgrade", self.name, CHART, "--namespace", self.name, "--wait", "--timeout", "180s", *_sets(values))

    def object(self, path: str) -> Json:
        async def ask(client: Client) -> Json:
            return await client.get(path)

        return in_lab(self.lab, ask)

    def data(self, kind: str, name: str) -> dict[str, bytes]:
        """Files of a ConfigMap or a Secret."""
        found = self.object(f"/api/v1/namespaces/{self.name}/{kind}/{name}")["data"]
        return {key: base64.b64decode(text) if kind == "secrets" else text.encode() for key, text in found.items()}

    def pod(self, part: str) -> Json:
        """What its Deployment says of a part's pods."""
        path = f"/apis/apps/v1/namespaces/{self.name}/deployments/{self.name}-{part}"
        found: Json = self.object(path)["spec"]["template"]["spec"]
        return found


def _sets(values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in ("--set", value)]


@contextmanager
def a_release(lab: Lab, *values: str) -> Iterator[Release]:
    """Into a namespace of its own, which refuses pods that are not restricted."""
    name = f"pilotage-{os.getpid()}-{next(_numbers)}"

    async def prepare(client: Client) -> None:
        await client.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": RESTRICTED}})

    in_lab(lab, prepare)
    place = ("--namespace", name, "--wait", "--timeout", "180s")
    said = helm(
        "install", name, CHART, *place, *_sets((f"scheduler.leaseName={name}", *values)), kubeconfig=lab.kubeconfig
    )
    try:
        yield Release(lab, name, said)
    finally:
        helm("uninstall", name, "--namespace", name, "--ignore-not-found", kubeconfig=lab.kubeconfig)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Part:
    """A part that runs."""

    container: Json
    process: subprocess.Popen[bytes]
    port: int
    directory: Path  # its volumes, by name
    address: str  # that its certificate is for

    def log(self) -> str:
        return (self.directory / "log").read_text()

    async def probed(self) -> None:
        """Waits until it is ready; then all its probes are answered as a kubelet wants, which verifies nothing."""
        kubelet = ssl.create_default_context()
        kubelet.check_hostname, kubelet.verify_mode = False, ssl.CERT_NONE
        (port,) = [one["name"] for one in self.container["ports"]]

        async def ready() -> bool | None:
            assert self.process.poll() is None, self.log()
            for probe in PROBES:
                asked = self.container[probe]["httpGet"]
                assert (asked["port"], asked["scheme"]) == (port, "HTTPS")
                try:
                    status, _ = await self._answer(asked["path"], kubelet, None)
                except aiohttp.ClientError:
                    return None
                if status != 200:
                    return None
            return True

        await eventually(ready, f"{self.address} answers its probes")

    async def asked(self, path: str, *, certified: bool, token: str = "") -> tuple[int, str]:
        """As somebody in the cluster, who knows its name and authority; `certified` shows a certificate, too."""
        context = ssl.create_default_context(cafile=str(self.directory / "tls" / "ca.crt"))
        if certified:
            context.load_cert_chain(self.directory / "tls" / "tls.crt", self.directory / "tls" / "tls.key")
        return await self._answer(path, context, self.address, token)

    async def _answer(self, path: str, tls: ssl.SSLContext, name: str | None, token: str = "") -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"https://127.0.0.1:{self.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, ssl=tls, server_hostname=name, headers=headers) as found,
        ):
            return found.status, await found.text()


@contextmanager
def started(release: Release, part: str, directory: Path, service: Part | None = None) -> Iterator[Part]:
    """The arguments, the account and the volumes of the Deployment; only ports and places are those of this machine.

    `service` is where the plugin scheduler finds the service. At the end the part has ended by itself when it was
    told to, and the API server has refused it nothing.
    """
    directory.mkdir()
    pod = release.pod(part)
    (container,) = pod["containers"]
    places = _volumes(release, pod, directory)
    account = in_lab(
        release.lab, lambda client: write_account(client, release.lab, pod["serviceAccountName"], release.name)
    )
    (port,) = container["ports"]
    here = free_port()
    words = [_here(word, places, port["containerPort"], here) for word in container["args"]]
    if service is not None:
        _configure(directory / "configuration" / "kube-scheduler.yaml", places, account, service)
        words += [f"--authentication-kubeconfig={account}", f"--authorization-kubeconfig={account}"]
        command = [built_plugin() / "kube-scheduler", *words, f"--secure-port={here}"]
    else:
        words = [word for word in words if word != "--in-cluster"]
        command = [Path(sys.executable).with_name("pilotage"), *words, f"--kubeconfig={account}"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(list(map(str, command)), cwd=directory, stdout=log, stderr=log)
    running = Part(container, process, here, directory, f"{release.name}-{part}.{release.name}.svc")
    try:
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert process.returncode == 0, running.log()
    assert "forbidden" not in running.log()


def _volumes(release: Release, pod: Json, directory: Path) -> dict[str, Path]:
    """Volumes as directories, by where they are mounted."""
    found: dict[str, Path] = {}
    (container,) = pod["containers"]
    for volume in pod["volumes"]:
        place = directory / volume["name"]
        place.mkdir()
        files: dict[str, bytes] = {}
        if "secret" in volume:
            files = release.data("secrets", volume["secret"]["secretName"])
        elif "configMap" in volume:
            files = release.data("configmaps", volume["configMap"]["name"])
        for name, content in files.items():
            (place / name).write_bytes(content)
        for mount in container["volumeMounts"]:
            if mount["name"] == volume["name"]:
                found[mount["mountPath"]] = place / mount["subPath"] if "subPath" in mount else place
    return found


def _here(word: str, places: dict[str, Path], port: int, free: int) -> str:
    name, equals, value = word.partition("=")
    for mounted, place in places.items():
        if value == mounted or value.startswith(f"{mounted}/"):
            value = f"{place}{value.removeprefix(mounted)}"
    if value in (str(port), f"0.0.0.0:{port}"):
        value = value.replace(str(port), str(free))
    return f"{name}{equals}{value}"


def _configure(path: Path, places: dict[str, Path], account: Path, service: Part) -> None:
    """The configuration of the plugin scheduler, but for the places of this machine."""
    written: Json = yaml.safe_load(path.read_text())
    written["clientConnection"] = {"kubeconfig": str(account)}
    (profile,) = written["profiles"]
    (plugin,) = profile["pluginConfig"]
    arguments = {key: _here(f"={value}", places, 0, 0)[1:] for key, value in plugin["args"].items()}
    assert arguments["url"].startswith(f"https://{service.address}:")
    plugin["args"] = {**arguments, "url": f"https://127.0.0.1:{service.port}", "serverName": service.address}
    path.write_text(yaml.safe_dump(written))
