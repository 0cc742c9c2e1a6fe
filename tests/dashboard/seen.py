"""A page in a browser, and all that it says and asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import BrowserContext, Page, ViewportSize, expect

from dashboard.pages import Served, Told

DESKTOP, PHONE = ViewportSize(width=1400, height=900), ViewportSize(width=390, height=844)
SLOW = 60_000  # milliseconds: only a fault takes longer, also on a machine that has much else to do

expect.set_options(timeout=SLOW)


@dataclass
class Seen:
    """A page and all that it said and asked for."""

    page: Page
    told: Told
    served: Served
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def happens(self, name: str, node: str, **more: Any) -> None:
        """A pod arrives and is placed."""
        self.served.do(lambda: self.told.placed(name, node, **more))

    def row(self, node: str) -> Any:
        return self.page.locator(f'#node-rows tr[data-node="{node}"]')

    def rows(self) -> list[str]:
        """Names in the order in which they are seen."""
        names: list[str] = self.page.evaluate(
            "[...document.querySelectorAll('#node-rows tr[data-node]')].map((row) => row.dataset.node)"
        )
        return names


def open_page(context: BrowserContext, served: Served, told: Told, url: str = "") -> Seen:
    seen = Seen(context.new_page(), told, served)
    seen.page.set_default_timeout(SLOW)
    seen.page.on("console", lambda message: seen.messages.append(message.text))
    seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.goto(url or served.url)
    return seen
