"""Whatever the service does, kube-scheduler places every pod, goes on running, and counts why it was alone."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest

from lab.fault_table import RECOVERY_SECONDS, Row, fault_pods, note, reasons
from lab.labs import DEADLINE, all_bound, make_namespace, pod, refused_pods
from pilotage.kube.client import Client
from pilotage.lab import components
from pilotage.lab.controlplane import in_lab
from pilotage.lab.plugin_figures import PluginCounts, plugin_counts, start_service
from pilotage.lab.processes import stop
from pilotage.model.clock import SystemClock
from plugin import faulty
from plugin.conftest import Beside
from plugin.faulty import Answer, Faulty, serving

PODS = fault_pods(100)
ALWAYS_POSSIBLE = {"circuit-open", "deadline"}  # the deadline is short, and the machine may have much else to do


def placed(beside: Beside, count: int, profile: str = "pilotage") -> set[str]:
    """Creates pods for a profile and waits until all of them have a node. Those that were called unschedulable
    meanwhile."""
    refused: set[str] = set()

    async def run(client: Client) -> None:
        namespace = await make_namespace(client)
        for i in range(count):
            made = pod(f"p-{i}", scheduler=profile, cpu="1m", memory="1Mi", annotations={"pilotage/duration": "1"})
            await client.create(f"/api/v1/namespaces/{namespace}/pods", made)
        await all_bound(client, namespace, seconds=max(DEADLINE, count), pause=max(0.05, count / 1000))
        refused.update(await refused_pods(client, namespace))
        await client.delete(f"/api/v1/namespaces/{namespace}")

    in_lab(beside.lab, run)
    return refused


def since(beside: Beside, before: PluginCounts) -> PluginCounts:
    now = plugin_counts(beside.lab)
    return PluginCounts(now.scored - before.scored, now.fallbacks - before.fallbacks)


def recovered(beside: Beside, profile: str = "pilotage") -> float:
    """Pods are scored again within the promised time. The seconds until one was."""
    clock, before = SystemClock(), plugin_counts(beside.lab)
    began = clock.now()
    while since(beside, before).scored == 0:
        assert clock.now() - began < RECOVERY_SECONDS + DEADLINE / 10, "never recovered"
        last = clock.now()
        assert not placed(beside, 1, profile)
    took = clock.now() - began
    assert last - began < RECOVERY_SECONDS  # when the pod that was scored was created
    return took


@dataclass
class Bad:
    """What happens to the pods of a fault."""

    beside: Beside
    fault: str
    profile: str
    refused: set[str] = field(default_factory=set)
    counted: PluginCounts = field(default_factory=lambda: PluginCounts(0, Counter()))

    def come(self) -> None:
        """The pods, while the service fails."""
        before = plugin_counts(self.beside.lab)
        self.refused = placed(self.beside, PODS, self.profile)
        self.counted = since(self.beside, before)

    def expect(self, reason: str) -> None:
        """Each was counted once: for this reason, or while the circuit was open for it."""
        assert (self.counted.scored, self.counted.pods) == (0, PODS)
        assert set(self.counted.fallbacks) <= {reason, *ALWAYS_POSSIBLE}
        assert self.counted.fallbacks[reason] > 0


@contextmanager
def a_fault(beside: Beside, fault: str, profile: str = "pilotage") -> Iterator[Bad]:
    """Within it the service fails and comes back: the plugin has recovered at its end. kube-scheduler is the same
    process, and alive."""
    process, bad = beside.lab.processes[components.SCHEDULER], Bad(beside, fault, profile)
    assert process.alive
    yield bad
    took, restarts = recovered(beside, profile), int(not process.alive)
    told = reasons(bad.counted.fallbacks)
    note(Row("plugin", fault, PODS, len(bad.refused), restarts, told, 0, took))
    assert (bad.refused, restarts) == (set(), 0)


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
    with serving(service, beside.socket):
        recovered(beside)
        with a_fault(beside, answer.__name__.replace("_", "-")) as bad:
            service.answer = answer
            bad.come()
            bad.expect(reason)
            service.answer = faulty.right


def test_nobody_listens(beside: Beside) -> None:
    with ExitStack() as later, a_fault(beside, "not-started") as bad:
        bad.come()
        assert set(bad.counted.fallbacks) <= {"unreachable", *ALWAYS_POSSIBLE}
        assert (bad.counted.scored, bad.counted.pods) == (0, PODS)
        later.enter_context(serving(Faulty(), beside.socket))


def test_a_certificate_that_has_expired(beside: Beside) -> None:
    """Through a profile that enables Score alone."""
    recovered(beside, "pilotage-tls")
    with a_fault(beside, "tls-expired", "pilotage-tls") as bad:
        beside.tls.load_cert_chain(*beside.expired)
        bad.come()
        bad.expect("tls")
        beside.tls.load_cert_chain(*beside.valid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "paused"])
def test_the_service_is_gone_and_comes_back(beside: Beside, number: signal.Signals) -> None:
    clock, killed = SystemClock(), number == signal.SIGKILL
    service = start_service(beside.lab, beside.socket, "best-fit", clock)
    try:
        recovered(beside)
        with a_fault(beside, "killed" if killed else "paused") as bad:
            service.signal(number)
            bad.come()
            assert (bad.counted.scored, bad.counted.pods) == (0, PODS)
            assert set(bad.counted.fallbacks) <= {"unreachable" if killed else "deadline", *ALWAYS_POSSIBLE}
            if killed:
                stop(service, clock)
                service = start_service(beside.lab, beside.socket, "best-fit", clock)
            else:
                service.signal(signal.SIGCONT)
    finally:
        stop(service, clock)
