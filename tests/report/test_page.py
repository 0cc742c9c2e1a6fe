"""The report in a browser: opened from disk, on a phone, in the dark, on paper, with hostile names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from pilotage.report.drawing import LONGEST_NAME
from pilotage.report.figures import figures_of
from pilotage.report.html import write_report
from pilotage.report.section import sections_of
from pilotage.sim.compare import Outcome
from report.conftest import HOSTILE, KINDS

COMMAND = "pilotage compare --trace 'a b' --out out"
DESKTOP, PHONE = ViewportSize(width=1200, height=800), ViewportSize(width=390, height=844)
DRAWN = ".plot .main-svg:first-child"
CLOSED = "details:not([open])"


@dataclass
class Seen:
    """A page and all that it said and asked for."""

    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    drawn_first: int = 0  # figures before anything was opened

    def count(self, selector: str) -> int:
        return self.page.locator(selector).count()

    def set_open(self, expression: str) -> None:
        """Opens the parts for whose number `k` the expression is true, closes the others."""
        self.page.evaluate(f"document.querySelectorAll('details').forEach((part, k) => (part.open = {expression}))")

    def open_all(self) -> None:
        self.set_open("true")
        self.wait_for(DRAWN, self.count(".plot"))

    def wait_for(self, selector: str, count: int) -> None:
        """Waits without evaluating text in the page, which its policy forbids."""
        expect(self.page.locator(selector)).to_have_count(count)

    def all(self, selector: str, expression: str) -> list[Any]:
        """The value of an expression of `e` for every element."""
        found: list[Any] = self.page.evaluate(f"[...document.querySelectorAll({selector!r})].map((e) => {expression})")
        return found


@pytest.fixture(scope="module")
def pages(
    browser: Browser, outcomes: dict[str, Outcome], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Seen]]:
    """Every report, opened once: a page takes a second or more to load."""
    directory = tmp_path_factory.mktemp("reports")
    context = browser.new_context()
    found = {}
    for kind in KINDS:
        path = write_report(outcomes[kind], directory / f"{kind}.html", COMMAND)
        found[kind] = load(context, path)
    yield found
    context.close()


def load(context: BrowserContext, path: Path) -> Seen:
    seen = Seen(context.new_page())
    seen.page.on("console", lambda message: seen.messages.append(message.text))
    seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.goto(path.as_uri())
    seen.drawn_first = seen.count(DRAWN)
    return seen


@pytest.fixture
def opened(pages: dict[str, Seen]) -> Callable[[str], Seen]:
    def as_at_first(kind: str) -> Seen:
        seen = pages[kind]
        seen.page.set_viewport_size(DESKTOP)
        seen.page.emulate_media(media="screen", color_scheme="light")
        seen.set_open("k === 0")
        return seen

    return as_at_first


Opener = Callable[[str], Seen]


def intended(outcome: Outcome) -> int:
    return sum(len(figures_of(section)) for section in sections_of(outcome))


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_draws_and_nothing_is_said_or_asked_for(
    kind: str, opened: Opener, outcomes: dict[str, Outcome]
) -> None:
    seen = opened(kind)
    assert seen.drawn_first == len(figures_of(sections_of(outcomes[kind])[0]))  # the others when they are looked at
    seen.open_all()
    assert seen.count(".plot") == seen.count(DRAWN) == intended(outcomes[kind]) > 0
    assert seen.count(".plot[aria-label]") == seen.count("figcaption h4") == seen.count(".plot")
    assert seen.messages == []
    assert seen.requests[0].startswith("file:")
    assert all(url.startswith(("data:", "blob:")) for url in seen.requests[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_phone_shows_the_page_without_scrolling_sideways(kind: str, opened: Opener) -> None:
    seen = opened(kind)
    drawing = seen.page.locator(".wide .main-svg").first
    wide = drawing.get_attribute("width") or ""
    seen.page.set_viewport_size(PHONE)
    expect(drawing).not_to_have_attribute("width", wide)  # figures follow the window
    seen.open_all()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert max(seen.all("figure", "e.getBoundingClientRect().right")) <= PHONE["width"]
    assert float(drawing.get_attribute("width") or 0) <= PHONE["width"]


def test_paper_shows_every_part_and_the_screen_comes_back_as_it_was(
    opened: Opener, outcomes: dict[str, Outcome]
) -> None:
    seen = opened("loads")
    closed = seen.count(CLOSED)
    seen.page.emulate_media(media="print", color_scheme="light")
    seen.wait_for(CLOSED, 0)
    assert seen.count(DRAWN) == intended(outcomes["loads"])
    assert {float(width) for width in seen.all(DRAWN, "e.getAttribute('width')")} == {660}
    seen.page.emulate_media(media="screen", color_scheme="light")
    seen.wait_for(CLOSED, closed)
    assert closed == 2


def test_printing_from_a_dark_screen_opens_and_draws_everything(opened: Opener, outcomes: dict[str, Outcome]) -> None:
    seen = opened("loads")
    seen.page.emulate_media(media="screen", color_scheme="dark")
    seen.page.evaluate(
        "addEventListener('beforeprint', () => { window.printed = {"
        f"closed: document.querySelectorAll({CLOSED!r}).length, drawn: document.querySelectorAll({DRAWN!r}).length,"
        "ink: getComputedStyle(document.querySelector('.xtick text')).fill}; }, {once: true})"
    )
    assert len(seen.page.pdf(format="A4")) > 30_000
    printed = seen.page.evaluate("window.printed")
    assert (printed["closed"], printed["drawn"]) == (0, intended(outcomes["loads"]))
    assert luminance(printed["ink"]) < 0.1
    assert seen.count(CLOSED) == 2


def test_text_is_readable_in_both_colour_schemes(opened: Opener) -> None:
    seen = opened("loads")
    tick = seen.page.locator(".xtick text").first
    for scheme in ("light", "dark"):
        seen.page.emulate_media(media="screen", color_scheme=scheme)
        expect(tick).to_have_css("fill", seen.all("body", "getComputedStyle(e).color")[0])  # figures follow
        (page,) = seen.all("body", "getComputedStyle(e).backgroundColor")
        assert (luminance(page) < 0.1) == (scheme == "dark")
        for selector in ("body", ".fine", "thead th", ".unclear", "a", ".short"):
            colour = seen.all(selector, "getComputedStyle(e).color")[0]
            assert contrast(colour, page) >= 4.5, (scheme, selector)
        cells = seen.all("td.heat", "[getComputedStyle(e).color, getComputedStyle(e).backgroundColor]")
        assert min(contrast(*cell) for cell in cells) >= 4.5


def test_a_link_in_the_answer_opens_its_part(opened: Opener) -> None:
    seen = opened("loads")
    seen.page.click('a[href="#part-1"]')
    seen.wait_for("#part-1[open]", 1)
    seen.page.wait_for_selector("#part-1 .main-svg")
    assert seen.count("#runs[open]") == 0


def test_hostile_names_stay_text(opened: Opener, outcomes: dict[str, Outcome]) -> None:
    seen = opened("hostile")
    seen.open_all()
    assert seen.page.evaluate("window.stolen") is None
    assert seen.count("script") == 2 + intended(outcomes["hostile"])
    links = seen.all("[href], [src]", "e.getAttribute('href') ?? e.getAttribute('src')")
    assert links
    assert all(link.startswith("#") for link in links)
    assert seen.count("[onclick]") == 0
    assert f"{HOSTILE}3" in seen.page.inner_text("h1")
    legend = seen.page.text_content(".legendtext >> nth=0") or ""
    assert legend == shown(f"{HOSTILE}3")


def shown(name: str) -> str:
    """As a figure shows a name: as it is, shortened."""
    return f"{name[: LONGEST_NAME - 1]}…"


@pytest.mark.parametrize("kind", KINDS)
def test_headings_come_in_order_and_tables_say_what_their_heads_are_for(kind: str, opened: Opener) -> None:
    seen = opened(kind)
    levels = [int(tag[1]) for tag in seen.all("h1, h2, h3, h4", "e.tagName")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert seen.count("th") == seen.count("th[scope]") > 0
    assert seen.count("table") == seen.count(".scroll[aria-label] > table")


def luminance(colour: str) -> float:
    """Relative luminance of a computed colour, by the definition of the accessibility guidelines."""
    numbers = [float(x) for x in re.findall(r"[\d.]+", colour.removeprefix("color(srgb"))][:3]
    scale = 1 if colour.startswith("color(") else 255
    linear = [x / scale / 12.92 if x / scale <= 0.04045 else ((x / scale + 0.055) / 1.055) ** 2.4 for x in numbers]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_nearness_is_shown_with_its_price_and_moves_with_their_cost(pages: dict[str, Seen]) -> None:
    seen = pages["gangs"]
    seen.open_all()
    shown = seen.page.locator("body").inner_text()
    near = "1*fgd@1+0.2*gang-locality@1"
    heads = seen.all("table[aria-label='summary'] thead th, #part-0 table:first-of-type thead th", "e.innerText")
    assert any("distance" in head.lower() for head in heads)
    assert any("GPU allocated" in head for head in heads)
    assert "What moving pods gained" in shown
    assert f"{near} +fragOnePod, against {near}" in shown
    assert "GPU hours run before" in shown
