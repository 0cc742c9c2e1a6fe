"""Whatever the service does, kube-scheduler places every pod, goes on running, and counts why it was alone."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.labs import DEADLINE, eventually, make_namespace, pod
from pilotage.kube.client import Client
from pilotage.lab import components
from pilotage.lab.controlplane import in_lab
from pilotage.lab.plugin_figures import PluginCounts, plugin_counts, start_service
from pilotage.lab.processes import stop
from pilotage.model.clock import SystemClock
from plugin import faulty
from plugin.conftest import Beside
from plugin.faulty import Answer, Faulty, serving

PODS = int(os.environ.get("PILOTAGE_FAULT_PODS", "100"))  # of each fault
RECOVERY_SECONDS = 10.0
ALWAYS_POSSIBLE = {"circuit-open", "deadline"}  # the deadline is short, and the machine may have much else to do


def placed(beside: Beside, count: int, profile: str = "pilotage") -> None:
    """Creates pods for a profile and waits until all of them have a node. None was called unschedulable meanwhile."""

    async def run(client: Client) -> None:
        namespace = await make_namespace(client)
        path = f"/api/v1/namespaces/{namespace}/pods"
        for i in range(count):
            await client.create(
                path, pod(f"p-{i}", scheduler=profile, cpu="1m", annotations={"pilotage/duration": "1"})
            )

        async def all_bound() -> bool | None:
            found, _ = await client.list_all(path)
            assert not any(
                condition["type"] == "PodScheduled" and condition["status"] == "False"
                for one in found
                for condition in one["status"].get("conditions") or ()
            )
            return True if all(one["spec"].get("nodeName") for one in found) else None

        await eventually(all_bound, "all pods have a node")
        await client.delete(f"/api/v1/namespaces/{namespace}")

    in_lab(beside.lab, run)


def since(beside: Beside, before: PluginCounts) -> PluginCounts:
    now = plugin_counts(beside.lab)
    return PluginCounts(now.scored - before.scored, now.fallbacks - before.fallbacks)


def recovered(beside: Beside, profile: str = "pilotage") -> None:
    """Pods are scored again within the promised time."""
    clock, before = SystemClock(), plugin_counts(beside.lab)
    began = clock.now()
    while since(beside, before).scored == 0:
        assert clock.now() - began < RECOVERY_SECONDS + DEADLINE / 10, "never recovered"
        last = clock.now()
        placed(beside, 1, profile)
    assert last - began < RECOVERY_SECONDS  # when the pod that was scored was created


@contextmanager
def one_scheduler(beside: Beside) -> Iterator[PluginCounts]:
    """What was counted before; kube-scheduler is the same process and alive afterwards."""
    process = beside.lab.processes[components.SCHEDULER]
    assert process.alive
    yield plugin_counts(beside.lab)
    assert process.alive


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (faulty.garbage, "malformed"),
        (faulty.late, "deadline"),
        (faulty.wrong_nodes, "wrong-nodes"),
        (faulty.not_a_number, "malformed"),
        (faulty.out_of_range, "wrong-score"),
        (faulty.huge, "too-large"),
    ],
)
def test_a_service_that_answers_wrongly(beside: Beside, answer: Answer, reason: str) -> None:
    service = Faulty()
    with serving(service, beside.socket), one_scheduler(beside) as before:
        recovered(beside)
        good = since(beside, before)
        service.answer = answer
        placed(beside, PODS)
        bad = since(beside, before)
        assert bad.pods - good.pods == PODS  # each was counted once
        assert bad.scored == good.scored
        assert set(bad.fallbacks - good.fallbacks) <= {reason, *ALWAYS_POSSIBLE}
        assert (bad.fallbacks - good.fallbacks)[reason] > 0
        service.answer = faulty.right
        recovered(beside)


def test_nobody_listens(beside: Beside) -> None:
    with one_scheduler(beside) as before:
        placed(beside, PODS)
        counts = since(beside, before)
    assert counts.scored == 0
    assert counts.pods == PODS
    assert set(counts.fallbacks) <= {"unreachable", *ALWAYS_POSSIBLE}


def test_a_certificate_that_has_expired(beside: Beside) -> None:
    """Through a profile that enables Score alone."""
    with one_scheduler(beside) as before:
        recovered(beside, "pilotage-tls")
        good = since(beside, before)
        beside.tls.load_cert_chain(*beside.expired)
        placed(beside, PODS, "pilotage-tls")
        bad = since(beside, before)
        assert bad.pods - good.pods == PODS
        assert set(bad.fallbacks - good.fallbacks) <= {"tls", *ALWAYS_POSSIBLE}
        assert (bad.fallbacks - good.fallbacks)["tls"] > 0
        beside.tls.load_cert_chain(*beside.valid)
        recovered(beside, "pilotage-tls")


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_the_service_is_gone_and_comes_back(beside: Beside, fault: signal.Signals) -> None:
    clock = SystemClock()
    service = start_service(beside.lab, beside.socket, "best-fit", clock)
    try:
        with one_scheduler(beside) as before:
            recovered(beside)
            good = since(beside, before)
            service.signal(fault)
            placed(beside, PODS)
            bad = since(beside, before)
            assert bad.pods - good.pods == PODS
            reasons: Counter[str] = bad.fallbacks - good.fallbacks
            assert set(reasons) <= {"unreachable" if fault == signal.SIGKILL else "deadline", *ALWAYS_POSSIBLE}
            assert reasons
            if fault == signal.SIGKILL:
                stop(service, clock)
                service = start_service(beside.lab, beside.socket, "best-fit", clock)
            else:
                service.signal(signal.SIGCONT)
            recovered(beside)
    finally:
        stop(service, clock)
