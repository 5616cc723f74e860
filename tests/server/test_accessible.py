"""The page for people who see little, hear it read out, or use no mouse: names, contrast, order, motion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.server.browsing import PHONE, WIDE, look_for, until

# WCAG 2.2: text 4.5 : 1, large text 3 : 1 (1.4.3); edges of what can be operated 3 : 1 (1.4.11).
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
NAMELESS = """() => [...document.querySelectorAll("button, input, select, svg[role], dialog")]
  .filter((e) => e.checkVisibility() && !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby"))
  .filter((e) => !e.innerText?.trim() && !e.labels?.length)
  .map((e) => e.outerHTML.slice(0, 80))"""


def opened(browser: Any, address: str, **how: Any) -> Any:
    page = browser.new_context(base_url=address, **how).new_page()
    page.set_default_timeout(20_000)
    page.goto("/")
    page.wait_for_selector("#holds[data-videos]")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_all_text_can_be_read_and_everything_has_a_name(
    browser: Any, address: str, sentence: str, scheme: str, size: dict[str, int]
) -> None:
    page = opened(browser, address, viewport=size, color_scheme=scheme)

    def look(least: int) -> None:
        looked, poor = page.evaluate(CONTRAST)
        assert looked >= least
        assert poor == []
        assert page.evaluate(NAMELESS) == []

    page.click("#filters summary")
    look(12)
    look_for(page, sentence)
    page.locator(".hit > button").first.click()
    page.wait_for_selector("#registers svg")
    look(40)
    page.locator("#trace").uncheck()
    until(page, "document.getElementById('status').innerText.includes('max pooling')")
    page.wait_for_selector("#registers svg")
    look(40)
    page.keyboard.press("Escape")
    look_for(page, "xyzzy plugh")
    until(page, "document.getElementById('status').innerText.includes('understands nothing')")
    look(12)
    page.route("**/v1/search", lambda route: route.abort())
    look_for(page, "a red square")
    page.wait_for_selector(".notice.bad >> visible=true")
    look(12)
    page.click("#open-add")
    page.click("#folders button")
    until(page, "document.activeElement.id === 'add-here'")  # whoever uses keys is not sent back to the beginning
    look(4)
    page.context.close()


def test_contrast_that_is_too_low_would_be_found(browser: Any, address: str) -> None:
    page = opened(browser, address, viewport=WIDE, color_scheme="light")
    page.evaluate("document.documentElement.style.setProperty('--quiet', '#b0b0b0')")
    page.evaluate("document.documentElement.style.setProperty('--edge', '#dedfe4')")
    poor = " ".join(page.evaluate(CONTRAST)[1])
    assert "#holds" in poor
    assert "edge of INPUT#query" in poor
    page.context.close()


def test_nothing_moves_for_whoever_wants_that_and_what_happens_is_announced(
    browser: Any, address: str, sentence: str
) -> None:
    page = opened(browser, address, viewport=WIDE, reduced_motion="reduce")
    moving = "[...document.querySelectorAll('*')].filter((e) => parseFloat(getComputedStyle(e).transitionDuration) > 0)"
    assert page.evaluate(f"{moving}.length") == 0
    for place in ("#status", "#verdict", "#add-status"):
        assert page.evaluate(f"document.querySelector('{place}').matches('[role=status], [aria-live=polite]')")
    look_for(page, sentence)
    page.wait_for_selector(".hit")
    assert page.title().startswith(sentence)
    order = []
    for _ in range(4):
        page.keyboard.press("Tab")
        order.append(page.evaluate("(document.activeElement.closest('.hit') ?? document.activeElement).tagName"))
    assert order == ["BUTTON", "INPUT", "SUMMARY", "LI"]  # from the box over its choices to the cards
    page.locator(".hit > button").first.press("Enter")
    page.wait_for_selector("#curves svg")
    assert page.locator(".hit[aria-current=true]").count() == 1
    page.context.close()
