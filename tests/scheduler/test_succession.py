"""Another policy takes over while pods are being bound, and learning beside a scheduler ends with it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path

from contract.commands import SCRIPT, installed_pilotage
from lab.labs import eventually
from pilotage.kube.client import Client
from pilotage.lab.controlplane import Lab
from pilotage.lab.nodes import add, remove
from pilotage.policies import registry
from pilotage.scheduler.succession import Succession
from scheduler.live import a_scheduler
from scheduler.test_live import all_bound, for_test, live, make, own_nodes

PACK = Path(registry.__file__).with_name("shipped") / "pilotage-pack"


def test_a_learned_policy_takes_over_between_two_decisions(lab: Lab, tmp_path: Path) -> None:
    async def test(client: Client, namespace: str) -> None:
        await add(client, own_nodes(namespace, 2, gpu_count=2, gpu_model="A"))
        said: list[str] = []
        async with a_scheduler(lab, "pilotage=fgd") as scheduler:
            succession = Succession(scheduler, "pilotage", tmp_path / "current", said.append, seconds=0.05)
            stop = asyncio.Event()
            task = asyncio.create_task(succession.run(stop))
            await make(client, namespace, *(for_test(namespace, f"a{i}") for i in range(3)))
            await eventually(lambda: all_bound(client, namespace, 3), "pods are bound by the first policy")
            assert scheduler.profiles["pilotage"].name == "fgd@1"
            (tmp_path / "broken").mkdir()
            (tmp_path / "current").symlink_to("broken")

            async def refused() -> bool | None:
                return True if said else None

            await eventually(refused, "a policy that cannot be read is refused")
            assert "does not take over" in said[0]
            assert scheduler.profiles["pilotage"].name == "fgd@1"
            (tmp_path / "fresh").symlink_to(PACK)
            (tmp_path / "fresh").replace(tmp_path / "current")

            async def taken() -> bool | None:
                return True if succession.taken else None

            await eventually(taken, "the other policy is in use")
            assert scheduler.profiles["pilotage"].name.startswith("pilotage-pack")
            await make(client, namespace, *(for_test(namespace, f"b{i}") for i in range(3)))
            await eventually(lambda: all_bound(client, namespace, 6), "pods are bound by the second policy")
            stop.set()
            await task
        await remove(client, [node.name for node in own_nodes(namespace, 2)])

    live(lab, test)


def test_learning_ends_with_the_scheduler(lab: Lab, tmp_path: Path) -> None:
    command = [SCRIPT, "schedule", "--kubeconfig", lab.kubeconfig_of("kube-scheduler"), "--no-leader-election"]
    command += ["--profile", "learns=pilotage-pack", "--learn", tmp_path / "learned", "--learn-every", "600"]
    with subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "learns in process" in line)
        pid = int(said.split("process ")[1].split(";")[0])
        assert Path(f"/proc/{pid}").exists()
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
    assert process.returncode == 0
    assert not Path(f"/proc/{pid}").exists()


def test_only_policies_that_can_be_tuned_learn(lab: Lab, tmp_path: Path) -> None:
    refused = installed_pilotage("schedule", "--kubeconfig", lab.kubeconfig, "--profile", "x=fgd", "--learn", tmp_path)
    assert refused.code == 2
    assert "cannot be tuned" in refused.err


def test_a_cluster_is_recorded_and_learned_from(lab: Lab, tmp_path: Path) -> None:
    async def test(client: Client, namespace: str) -> None:
        await add(client, own_nodes(namespace, 4, gpu_count=8, gpu_model="A"))
        share = {"alibabacloud.com/gpu-milli": "400", "alibabacloud.com/gpu-count": "1"}
        pods = [for_test(namespace, f"p{i}", cpu="100m", annotations=share) for i in range(60)]
        async with a_scheduler(lab, "pilotage=best-fit"):
            await make(client, namespace, *pods)
            await eventually(lambda: all_bound(client, namespace, 60), "sixty pods are bound")
        words = ["--kubeconfig", lab.kubeconfig, "--out", tmp_path / "learned", "--every", 1, "--rounds", 1]
        done = await asyncio.to_thread(
            installed_pilotage, "train", "cluster", *words, "--generations", 1, "--json", seconds=900
        )
        assert done.code == 0, done.err
        verdict = json.loads(done.out)
        assert verdict["pods"] >= 60
        assert verdict["taken_over"] == (verdict["low"] > 0)
        assert (tmp_path / "learned" / "recorded" / "decisions.parquet").exists()
        await remove(client, [node.name for node in own_nodes(namespace, 4)])

    live(lab, test)
