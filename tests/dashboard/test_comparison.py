"""The page in a browser: schedulers and a shadow side by side, and the curves."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from dashboard.pages import Told, a_page, gpu_nodes, told_cluster
from dashboard.seen import DESKTOP, PHONE, Seen, open_page
from pilotage.policies.registry import find_policy
from pilotage.scheduler.shadow import Shadow
from report.test_page import contrast

LONG = "a-pod-of-a-job-with-a-name-that-is-as-long-as-names-may-well-be-in-large-clusters-0"
COLOURED = (
    ".tag",
    ".tag.same",
    "#policy-rows td",
    "#difference-rows td",
    ".where",
    ".figure .fine",
    ".axis .fine",
    "dt",
)


@pytest.fixture(scope="module")
def open_all_the_time(browser: Browser) -> Iterator[Seen]:
    """Two schedulers, and best-fit as a shadow: it takes the fullest node, node-1."""
    told = told_cluster()
    told.cluster.advisor = Shadow(told.cluster.cache, find_policy("best-fit"))
    told.nodes(*gpu_nodes(3))
    told.pod("there", node="node-1", requests={"cpu": "40", "memory": "1Gi"})
    with a_page(told.cluster) as served:
        context = browser.new_context(viewport=DESKTOP)
        seen = open_page(context, served, told)
        seen.page.wait_for_selector("html[data-rendered]")
        seen.served.do(lambda: placed(told, "agreed", "node-1"))
        seen.served.do(lambda: placed(told, "otherwise", "node-2"))
        seen.served.do(lambda: placed(told, LONG, "node-0", by="batch-scheduler"))
        expect(seen.page.locator("#difference-rows tr")).to_have_count(2)
        yield seen
        assert seen.messages == []
        context.close()


@pytest.fixture
def seen(open_all_the_time: Seen) -> Seen:
    open_all_the_time.page.set_viewport_size(DESKTOP)
    open_all_the_time.page.emulate_media(color_scheme="light")
    open_all_the_time.page.check('input[name="which"][value="all"]', force=True)
    return open_all_the_time


def placed(told: Told, name: str, node: str, by: str = "default-scheduler") -> None:
    told.placed(name, node, schedulerName=by, requests={"cpu": "1", "memory": "1Gi"})


def cells(row: Locator) -> list[str]:
    return [text.strip() for text in row.locator("th, td").all_inner_texts()]


def test_schedulers_stand_side_by_side_and_follow(seen: Seen) -> None:
    rows = seen.page.locator("#policy-rows tr")
    expect(rows).to_have_count(2)
    ours, batch = cells(rows.nth(0)), cells(rows.nth(1))
    assert (ours[0], ours[2:4], ours[6]) == ("default-scheduler", ["2", "0"], "50 % of 2")
    assert (batch[0], batch[2:4], batch[6]) == ("batch-scheduler", ["1", "0"], "0 % of 1")
    assert all(re.fullmatch(r"\d+(\.\d)? (ms|s)", text) for text in (*ours[4:6], *batch[4:6]))
    note = seen.page.locator("#shadow-note")
    expect(note).to_contain_text("was asked about 3 placements and would have chosen another node for 2 of them")
    seen.served.do(lambda: placed(seen.told, "later", "node-1", "batch-scheduler"))
    expect(rows.filter(has_text="batch-scheduler").locator("td").last).to_have_text("50 % of 2")
    expect(note).to_contain_text("4 placements")


def test_differences_are_listed_and_can_be_shown_alone(seen: Seen) -> None:
    rows = seen.page.locator("#difference-rows tr")
    assert [cells(row) for row in rows.all()] == [
        [f"default/{LONG}", "node-0", "node-1"],
        ["default/otherwise", "node-2", "node-1"],
    ]
    decisions = seen.page.locator("#decision-list > li")
    everything = decisions.count()
    seen.page.locator('input[name="which"][value="all"]').focus()
    for _ in range(3):  # by keyboard, to the last of the choices
        seen.page.keyboard.press("ArrowRight")
    expect(decisions).to_have_count(2)
    assert everything > 2
    expect(decisions.first).to_contain_text("shadow: node-1")


def test_the_explanation_of_a_difference_says_what_the_shadow_thought(seen: Seen) -> None:
    button = seen.page.locator("#decision-list button", has_text="default/otherwise")
    button.click()
    panel = seen.page.locator(f"#{button.get_attribute('aria-controls')}")
    expect(panel).to_contain_text("best-fit@1 would have chosen node-1")
    expect(panel).to_contain_text("To it, node-2 is number 3 of 3 candidates.")
    expect(panel.locator("tbody tr").first).to_contain_text("node-1")
    expect(panel.locator("tr.went")).to_contain_text("node-2")
    button.click()
    expect(panel).to_be_hidden()


def test_curves_are_drawn_and_walked_by_keyboard(seen: Seen) -> None:
    card = seen.page.locator("#card-allocated")
    expect(card.locator(".line-1").last).to_have_attribute("d", re.compile(r"^M[\d. ]+h0L"))  # two samples, a stroke
    expect(card.locator(".figure", has_text="CPU")).to_contain_text(re.compile(r"2\d(\.\d)? %"))  # 44 of 192
    picture, said = card.locator("svg"), card.locator(".said-now")
    expect(said).to_have_text("now")
    picture.focus()
    seen.page.keyboard.press("Home")
    expect(said).to_have_text(re.compile(r"^[\d:]+.*: GPU 0 %, CPU [\d.]+ %, Memory [\d.]+ %$"))
    first = said.inner_text()
    assert seen.page.locator("#spoken").text_content() == first
    seen.page.keyboard.press("End")
    expect(said).not_to_have_text(first)
    seen.page.keyboard.press("Home")
    expect(said).to_have_text(first)
    cursor = card.locator(".cursor")
    before = float(cursor.get_attribute("x1") or "nan")
    samples = seen.page.locator("#card-waiting .line-0").get_attribute("d") or ""
    expect(seen.page.locator("#card-waiting .line-0")).not_to_have_attribute("d", samples)  # another sample has come
    assert float(cursor.get_attribute("x1") or "nan") < before  # the moment that is looked at moves with the curve
    expect(said).to_have_text(first)
    picture.blur()
    expect(said).to_have_text("now")
    expect(picture).to_have_attribute("aria-label", re.compile(r"^Allocated, last .*CPU now [\d.]+ %, from"))


def test_every_curve_that_is_promised_is_there(seen: Seen) -> None:
    heads = seen.page.locator("#cards h2").all_inner_texts()
    for promised in ("Allocated", "Objective", "Reward", "Pods placed per second", "From arrival to node", "wait"):
        assert any(promised in head for head in heads)
    own = seen.page.locator("#cards li", has_text="Shadow agrees")
    expect(own.locator(".figure b")).to_have_text(re.compile(r"\d+"))


def test_what_is_compared_is_readable_in_both_colour_schemes(seen: Seen) -> None:
    button = seen.page.locator("#decision-list button", has_text="default/otherwise")
    button.click()
    expect(seen.page.locator("tr.went .tag.same")).to_have_count(1)
    for scheme in ("light", "dark"):
        seen.page.emulate_media(color_scheme=scheme)
        for selector in COLOURED:
            colour, behind = seen.page.locator(selector).first.evaluate(BEHIND)
            assert contrast(colour, behind) >= 4.5, (scheme, selector)
    button.click()


def test_tables_have_room_for_all_their_columns_on_a_desktop(seen: Seen) -> None:
    """They may scroll sideways, but nobody should have to."""
    for inside in ("#policy-rows", "#difference-rows", "#node-rows"):
        width, room = seen.page.locator(f".scroll:has({inside})").evaluate("(e) => [e.scrollWidth, e.clientWidth]")
        assert width <= room, inside


# The colour of a text and of what is painted behind it.
BEHIND = """(e) => {
  let behind = e;
  while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  return [getComputedStyle(e).color, getComputedStyle(behind).backgroundColor];
}"""


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_long_names_do_not_widen_the_page(seen: Seen, size: dict[str, int]) -> None:
    seen.page.set_viewport_size(size)  # type: ignore[arg-type]
    button = seen.page.locator("#decision-list button", has_text=LONG)
    button.click()
    expect(seen.page.locator(".explanation:not([hidden])")).to_contain_text("Scores by")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    cut = seen.page.evaluate("""[...document.querySelectorAll('section, .cards li, .stream > li')]
      .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.id || e.className || e.tagName)""")
    assert cut == []
    button.click()
