"""A real control plane: it comes up, pods run on its nodes, and nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from contract.commands import Done, installed_pilotage
from lab.labs import eventually, make_namespace, pod
from pilotage.kube.access import Access
from pilotage.kube.client import STRATEGIC_PATCH, Client, Json
from pilotage.kube.errors import KubeError
from pilotage.lab import components
from pilotage.lab.controlplane import Lab, find_lab, in_lab
from pilotage.workloads import openb
from pilotage.workloads.generate import openb_like_nodes


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for labs of this test alone; whatever it leaves up is stopped."""
    monkeypatch.setenv("PILOTAGE_LABS", str(tmp_path / "labs"))
    return tmp_path / "labs"


def succeeded(*arguments: object) -> Done:
    done = installed_pilotage("lab", *arguments)
    assert done.code == 0, done.err
    return done


async def node_is_ready(client: Client, name: str) -> Json | None:
    node = await client.get(f"/api/v1/nodes/{name}")
    ready = [c for c in node["status"].get("conditions", ()) if c["type"] == "Ready" and c["status"] == "True"]
    return node if ready and not node["spec"].get("taints") else None


async def in_phase(client: Client, namespace: str, name: str, phase: str) -> Json | None:
    found = await client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return found if found["status"].get("phase") == phase else None


def test_from_nothing_to_a_running_pod_and_back(labs: Path) -> None:
    made = json.loads(succeeded("up", "--name", "one", "--nodes", "2", "--json").out)
    try:
        lab = find_lab("one")
        assert made["kubeconfig"] == str(lab.kubeconfig)
        assert succeeded("kubeconfig", "--name", "one").out.strip() == str(lab.kubeconfig)
        shown = json.loads(succeeded("status", "--name", "one", "--json").out)
        assert {row["state"] for row in shown["programs"]} == {"runs"}
        assert [row["program"] for row in shown["programs"]] == list(components.START_ORDER)

        async def run(client: Client) -> None:
            assert (await client.get("/version"))["gitVersion"] == "v1.36.3"
            await eventually(lambda: node_is_ready(client, "node-0"), "a node is ready")
            namespace = await make_namespace(client)
            await client.create(
                f"/api/v1/namespaces/{namespace}/pods", pod("short", annotations={"pilotage/duration": "1"})
            )
            done = await eventually(lambda: in_phase(client, namespace, "short", "Succeeded"), "the pod has ended")
            assert done["spec"]["nodeName"] in ("node-0", "node-1")
            await client.delete(f"/api/v1/namespaces/{namespace}/pods/short")

        in_lab(lab, run)
        again = installed_pilotage("lab", "up", "--name", "one")
        assert again.code == 2
        assert "is up already" in again.err
    finally:
        succeeded("down", "--name", "one")
    assert not any(process.alive for process in lab.processes.values())
    assert list(labs.iterdir()) == []
    gone = installed_pilotage("lab", "status", "--name", "one")
    assert gone.code == 2
    assert "no lab 'one' is up" in gone.err


def opened_by(pid: int) -> list[str]:
    """What the files of a process are; some are closed while we look."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return found


def test_everything_is_private_and_on_loopback(lab: Lab) -> None:
    for path in (lab.directory, *lab.directory.glob("*.key"), *lab.directory.glob("*.kubeconfig")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert len(list(lab.directory.glob("*.key"))) == 3
    opened = [opened_by(process.pid) for process in lab.processes.values()]
    inodes = {name.removeprefix("socket:[").removesuffix("]") for names in opened for name in names}
    listening = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[9] in inodes
    ]
    loopback = socket.inet_aton("127.0.0.1")[::-1].hex().upper()
    assert {fields[1].split(":")[0] for fields in listening} == {loopback}
    assert {int(fields[1].split(":")[1], 16) for fields in listening} == set(lab.ports.values())


def test_strangers_are_refused(lab: Lab) -> None:
    trusted = ssl.create_default_context(cafile=str(lab.directory / "ca.crt"))

    async def ask() -> int:
        async with Client(Access(f"https://127.0.0.1:{lab.ports[components.API]}", trusted)) as client:
            try:
                await client.get("/api/v1/pods")
            except KubeError as error:
                return error.status
        return 200

    assert asyncio.run(ask()) == 401


def test_a_dead_program_is_named_with_its_last_words(labs: Path) -> None:
    succeeded("up", "--no-kube-scheduler")
    try:
        lab = find_lab("default")
        assert components.SCHEDULER not in lab.processes
        kwok = lab.processes[components.KWOK]
        kwok.signal(signal.SIGKILL)
        with lab.log(components.KWOK).open("a") as stream:
            stream.write("its last words\n")

        async def ended() -> bool | None:
            return None if kwok.alive else True

        asyncio.run(eventually(ended, "kwok has ended"))
        shown = installed_pilotage("lab", "status")
        assert shown.code == 1
        assert "kwok ended" in shown.err
        assert "its last words" in shown.err
    finally:
        succeeded("down", "--all")


def test_a_taken_port_is_named(labs: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = installed_pilotage("lab", "up", "--port", port)
    assert refused.code == 2
    assert f"port {port}" in refused.err
    assert not labs.exists() or list(labs.iterdir()) == []


def test_nodes_come_fail_recover_and_go(lab: Lab) -> None:
    done = installed_pilotage(
        "lab", "nodes", "add", 2, "--name", lab.name, "--prefix", "gpu", "--gpus", 8, "--model", "V100M32",
        "--taint", "gpu=yes:NoSchedule", "--label", "pool=a", "--servers-per-rack", 1,
    )  # fmt: skip
    assert done.code == 0, done.err

    async def added(client: Client) -> Json | None:
        node = await client.get("/api/v1/nodes/gpu-1")
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
        return node if ready else None

    node = in_lab(lab, lambda client: eventually(lambda: added(client), "the GPU node is ready"))
    assert node["status"]["allocatable"]["alibabacloud.com/gpu-count"] == "8"
    assert node["metadata"]["labels"]["alibabacloud.com/gpu-card-model"] == "V100M32"
    assert node["metadata"]["labels"]["topology.kubernetes.io/rack"] == "rack-1"
    assert node["metadata"]["labels"]["pool"] == "a"
    assert {"key": "gpu", "value": "yes", "effect": "NoSchedule"} in node["spec"]["taints"]

    async def tainted(client: Client) -> bool | None:
        found = (await client.get("/api/v1/nodes/gpu-1"))["spec"].get("taints") or ()
        return True if any(taint["key"] == "node.kubernetes.io/not-ready" for taint in found) else None

    async def clean(client: Client) -> bool | None:
        return None if await tainted(client) else True

    assert installed_pilotage("lab", "nodes", "fail", "gpu-1", "--name", lab.name).code == 0
    in_lab(lab, lambda client: eventually(lambda: tainted(client), "a failed node is tainted"))
    assert installed_pilotage("lab", "nodes", "fail", "gpu-1", "--recover", "--name", lab.name).code == 0
    in_lab(lab, lambda client: eventually(lambda: clean(client), "a recovered node is not tainted"))
    assert installed_pilotage("lab", "nodes", "remove", "gpu-0", "gpu-1", "--name", lab.name).code == 0
    unknown = installed_pilotage("lab", "nodes", "remove", "gpu-0", "--name", lab.name)
    assert unknown.code == 2
    assert "unknown node 'gpu-0'" in unknown.err


def test_a_running_pod_is_resized_in_place(lab: Lab) -> None:
    async def run(client: Client) -> None:
        namespace = await make_namespace(client)
        path = f"/api/v1/namespaces/{namespace}/pods"
        await client.create(path, pod("grows", cpu="1"))
        running = await eventually(lambda: in_phase(client, namespace, "grows", "Running"), "the pod runs")
        assert given(running) == ("1", "1")
        wanted = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1500m"}}}]}}
        await client.patch(f"{path}/grows/resize", wanted, STRATEGIC_PATCH)

        async def resized() -> Json | None:
            found = await client.get(f"{path}/grows")
            return found if given(found) == ("1500m", "1500m") else None

        after = await eventually(resized, "the pod has what it asked for")
        assert after["status"]["startTime"] == running["status"]["startTime"]
        assert after["status"]["containerStatuses"][0]["restartCount"] == 0

    def given(found: Json) -> tuple[str, str]:
        (status,) = found["status"]["containerStatuses"]
        return status["resources"]["requests"]["cpu"], status["allocatedResources"]["cpu"]

    in_lab(lab, run)


def test_nodes_of_a_list(lab: Lab, tmp_path: Path) -> None:
    nodes = openb_like_nodes(0.01)
    openb.write_nodes(tmp_path / "nodes.csv", nodes)
    done = installed_pilotage("lab", "nodes", "add", "--nodes", tmp_path / "nodes.csv", "--name", lab.name)
    assert done.code == 0, done.err

    async def there(client: Client) -> set[str]:
        found, _ = await client.list_all("/api/v1/nodes")
        return {node["metadata"]["name"] for node in found}

    names = {node.name for node in nodes}
    assert names <= in_lab(lab, there)
    assert installed_pilotage("lab", "nodes", "remove", *sorted(names), "--name", lab.name).code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["up", "--name", "Not A Name"], "is no name of a lab"),
        (["nodes", "add"], "what is to be added?"),
        (["nodes", "add", "1", "--model", "A"], "a model without devices"),
        (["nodes", "add", "1", "--taint", "x"], "is no taint"),
        (["nodes", "add", "1", "--label", "x"], "is no label"),
        (["down"], "no lab 'default' is up"),
    ],
)
def test_bad_input(labs: Path, arguments: list[str], said: str) -> None:
    refused = installed_pilotage("lab", *arguments)
    assert refused.code == 2
    assert said in refused.err
