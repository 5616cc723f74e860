"""Accessibility of the page: contrast, names for screen readers, focus order, motion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.server.browsing import PATIENCE, PHONE, WIDE, search_for, until

# WCAG 2.2: text 4.5 : 1, large text 3 : 1 (1.4.3); edges of controls 3 : 1 (1.4.11).
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
NAMELESS = """() => [...document.querySelectorAll("button, input, select, svg[role], dialog")]
  .filter((e) => e.checkVisibility() && !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby"))
  .filter((e) => !e.innerText?.trim() && !e.labels?.length)
  .map((e) => e.outerHTML.slice(0, 80))"""


def opened(browser: Any, address: str, **how: Any) -> Any:
    page = browser.new_context(base_url=address, **how).new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto("/")
    page.wait_for_selector("#holds[data-videos]")
    return page


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_text_has_contrast_and_controls_have_names(
    browser: Any, address: str, sentence: str, size: dict[str, int]
) -> None:
    page = opened(browser, address, viewport=size)

    def check(least: int) -> None:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            count, poor = page.evaluate(CONTRAST)
            assert count >= least
            assert poor == [], scheme
        assert page.evaluate(NAMELESS) == []

    page.wait_for_selector(".film")
    page.click("#filters summary")
    check(40)
    page.locator(".film > button").first.click()
    page.click("#details summary")
    page.locator("#stage .pick input").check()
    check(50)
    page.click("#remove")
    check(5)
    page.click("#confirm-no")
    page.click("#picked-clear")
    page.keyboard.press("Escape")
    search_for(page, sentence)
    page.locator(".hit > button").first.click()
    page.click("#why summary")
    page.wait_for_selector("#registers svg")
    check(40)
    page.locator("#trace").uncheck()
    until(page, "document.getElementById('status').innerText.includes('single matches only')")
    page.wait_for_selector("#registers svg")
    check(40)
    page.keyboard.press("Escape")
    search_for(page, "xyzzy plugh")
    until(page, "document.getElementById('status').innerText.includes('understands nothing')")
    check(12)
    page.route("**/v1/search", lambda route: route.abort())
    search_for(page, "a red square")
    page.wait_for_selector(".notice.bad >> visible=true")
    check(12)
    page.click("#open-add")
    page.click("#folders button")
    until(page, "document.activeElement.id === 'add-here'")  # the focus does not jump back to the start of the page
    check(4)
    page.context.close()


def test_low_contrast_is_detected(browser: Any, address: str) -> None:
    page = opened(browser, address, viewport=WIDE, color_scheme="light")
    page.evaluate("document.documentElement.style.setProperty('--quiet', '#b0b0b0')")
    page.evaluate("document.documentElement.style.setProperty('--edge', '#dedfe4')")
    poor = " ".join(page.evaluate(CONTRAST)[1])
    assert "#holds" in poor
    assert "edge of INPUT#query" in poor
    page.context.close()


def test_reduced_motion_announcements_and_focus_order(browser: Any, address: str, sentence: str) -> None:
    page = opened(browser, address, viewport=WIDE, reduced_motion="reduce")
    moving = "[...document.querySelectorAll('*')].filter((e) => parseFloat(getComputedStyle(e).transitionDuration) > 0)"
    assert page.evaluate(f"{moving}.length") == 0
    for place in ("#status", "#verdict", "#add-status"):
        assert page.evaluate(f"document.querySelector('{place}').matches('[role=status], [aria-live=polite]')")
    search_for(page, sentence)
    page.wait_for_selector(".hit")
    assert page.title().startswith(sentence)
    order = []
    for _ in range(4):
        page.keyboard.press("Tab")
        order.append(page.evaluate("(document.activeElement.closest('.hit') ?? document.activeElement).tagName"))
    assert order == ["BUTTON", "BUTTON", "SUMMARY", "LI"]  # picture, search, filters, first hit
    page.locator(".hit > button").first.press("Enter")
    page.wait_for_selector("#curves svg")
    assert page.locator(".hit[aria-current=true]").count() == 1
    page.context.close()
