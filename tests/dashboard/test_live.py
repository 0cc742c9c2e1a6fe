"""`pilotage dashboard` beside real schedulers on a real API server, in a browser."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from playwright.sync_api import Browser, expect

from lab.labs import DEADLINE, eventually, fresh_namespace, pod
from pilotage.kube.client import Client
from pilotage.lab.controlplane import Lab, in_lab
from pilotage.lab.namespaces import ensure_namespace
from pilotage.lab.nodes import add, numbered, remove
from pilotage.model.clock import SystemClock
from pilotage.model.cluster import Node

T = TypeVar("T")

PILOTAGE = Path(sys.executable).with_name("pilotage")
SLOW = 1000 * DEADLINE  # milliseconds


@contextmanager
def command(*words: str) -> Iterator[str]:
    """A command that serves a page, and the address it prints; ends well when it is told to."""
    process = subprocess.Popen([str(PILOTAGE), *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = ""
        while not (found := re.search(r"dashboard is at (http\S+)", said)):
            line = process.stderr.readline()
            assert line, said
            said += line
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            rest = process.communicate(timeout=DEADLINE)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, rest


def do(lab: Lab, action: Callable[[Client], Awaitable[T]]) -> T:
    """In a thread of its own: the browser has a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(in_lab, lab, action).result()


def test_the_page_follows_a_pod_of_kube_scheduler(lab: Lab, browser: Browser) -> None:
    name = fresh_namespace()
    nodes = numbered(Node("node", 8_000, 32 * 2**30, labels=(("test", name),)), 2, name)

    async def prepare(client: Client) -> None:
        await ensure_namespace(client, name, SystemClock())
        await add(client, nodes)

    async def make(client: Client) -> None:
        for manifest in (pod("fits", cpu="3"), pod("large", cpu="9")):
            manifest["spec"]["nodeSelector"] = {"test": name}
            await client.create(f"/api/v1/namespaces/{name}/pods", manifest)

    do(lab, prepare)
    kubeconfig = str(lab.kubeconfig_of("kube-scheduler"))
    with command("dashboard", "--kubeconfig", kubeconfig, "--address", "127.0.0.1:0") as url:
        context = browser.new_context()
        page = context.new_page()
        messages: list[str] = []
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(url)
        page.fill("#filter", name)
        rows = page.locator("#node-rows tr[data-node]")
        expect(rows).to_have_count(2, timeout=SLOW)
        do(lab, make)
        expect(rows.filter(has_text="3 / 8")).to_have_count(1, timeout=SLOW)
        expect(page.locator("#pending-rows tr", has_text=f"{name}/large")).to_contain_text(
            "Insufficient cpu", timeout=SLOW
        )
        decision = page.locator("#decision-list button", has_text=f"{name}/fits")
        decision.click()
        panel = page.locator(f"#{decision.get_attribute('aria-controls')}")
        expect(panel).to_contain_text("3 CPU, 1 GiB", timeout=SLOW)
        assert messages == []
        context.close()
    do(lab, lambda client: remove(client, [node.name for node in nodes]))


def test_an_explanation_holds_the_event_of_the_scheduler(lab: Lab, browser: Browser) -> None:
    name = fresh_namespace()

    async def make(client: Client) -> None:
        await ensure_namespace(client, name, SystemClock())
        await client.create(f"/api/v1/namespaces/{name}/pods", pod("told", cpu="100m"))

        async def said() -> bool | None:
            events, _ = await client.list_all(f"/apis/events.k8s.io/v1/namespaces/{name}/events")
            return True if any(event["reason"] == "Scheduled" for event in events) else None

        await eventually(said, "the scheduler has said where the pod goes")

    with command("dashboard", "--kubeconfig", str(lab.kubeconfig), "--address", "127.0.0.1:0") as url:
        context = browser.new_context()
        page = context.new_page()
        page.goto(url)
        expect(page.locator("#node-rows tr[data-node]").first).to_be_visible(timeout=SLOW)
        do(lab, make)
        decision = page.locator("#decision-list button", has_text=f"{name}/told")
        decision.click(timeout=SLOW)
        panel = page.locator(f"#{decision.get_attribute('aria-controls')}")
        expect(panel).to_contain_text(f"Successfully assigned {name}/told to", timeout=SLOW)
        context.close()


def test_a_scheduler_shows_its_own_decisions_with_their_scores(lab: Lab, browser: Browser) -> None:
    name = fresh_namespace()
    nodes = numbered(Node("node", 8_000, 32 * 2**30, gpu_count=2, labels=(("test", name),)), 3, name)
    share = {"alibabacloud.com/gpu-milli": "400", "alibabacloud.com/gpu-count": "1"}

    async def prepare(client: Client) -> None:
        await ensure_namespace(client, name, SystemClock())
        await add(client, nodes)

    async def make(client: Client) -> None:
        manifest = pod("scored", scheduler=name, annotations=share, nodeSelector={"test": name})
        await client.create(f"/api/v1/namespaces/{name}/pods", manifest)

    do(lab, prepare)
    kubeconfig = str(lab.kubeconfig_of("kube-scheduler"))
    words = ("--kubeconfig", kubeconfig, "--profile", f"{name}=best-fit", "--no-leader-election")
    with command("schedule", *words, "--dashboard", "127.0.0.1:0") as url:
        context = browser.new_context()
        page = context.new_page()
        page.goto(url)
        expect(page.locator("#policy-rows tr", has_text=name)).to_contain_text("best-fit@1", timeout=SLOW)
        page.fill("#filter", name)
        expect(page.locator("#node-rows tr[data-node]")).to_have_count(3, timeout=SLOW)
        do(lab, make)
        decision = page.locator("#decision-list button", has_text="\u2192").filter(has_text=f"{name}/scored")
        decision.click(timeout=SLOW)
        panel = page.locator(f"#{decision.get_attribute('aria-controls')}")
        expect(panel).to_contain_text("Scores by best-fit@1", timeout=SLOW)
        expect(panel.locator("tr.went")).to_have_count(1)
        expect(page.locator("#node-rows tr", has_text="0.4 / 2")).to_have_count(1, timeout=SLOW)
        context.close()
    do(lab, lambda client: remove(client, [node.name for node in nodes]))
