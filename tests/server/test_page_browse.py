"""Browsing the library in a real browser: folders, tags, failed files, scrolling, examples, addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.server.browsing import PATIENCE, PHONE, place, search_for, until


def address_of(page: Any) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(place(page)).query).items()}


def films(page: Any) -> int:
    return int(page.locator(".film").count())


def test_the_page_opens_with_the_library(page: Any, address: str) -> None:
    page.wait_for_selector(".film")
    newest = httpx.get(f"{address}/v1/videos?order=newest").json()["videos"]
    shown = page.locator(".film .title").all_text_contents()
    assert shown == [video["filename"] for video in newest]
    until(page, "[...document.querySelectorAll('.film img')].slice(0, 4).every((image) => image.naturalWidth > 0)")
    page.select_option("#sort", "name")
    until(
        page,
        f"(document.querySelector('.film .title')?.innerText ?? {json.dumps(shown[0])}) !== {json.dumps(shown[0])}",
    )
    assert address_of(page) == {"sort": "name"}


def test_folders_and_tags_narrow_the_list_and_the_search(page: Any, sentence: str) -> None:
    page.wait_for_selector(".film")
    page.locator("#inner .chip", has_text="inner").click()
    until(page, "document.querySelectorAll('.film').length === 1")
    assert page.inner_text("#place") == "All videos / inner"
    search_for(page, sentence)
    until(page, "document.querySelectorAll('.hit').length === 1")
    assert address_of(page) == {"folder": "inner", "q": sentence}
    page.go_back()
    until(page, "document.querySelectorAll('.film').length === 1 && document.getElementById('found').hidden")
    page.locator("#place button", has_text="All videos").click()
    until(page, "document.querySelectorAll('.film').length === 10")
    page.locator("#tags .chip", has_text="drawn").click()
    until(page, "document.querySelector('#tags [aria-pressed=true]') !== null")
    assert address_of(page) == {"tag": "drawn"}


def test_every_state_can_be_reloaded_and_left_with_back(page: Any, sentence: str) -> None:
    search_for(page, sentence)
    page.locator(".hit > button").first.click()
    page.wait_for_selector("#curves svg path.routed")
    page.evaluate("document.getElementById('video').pause()")
    box = page.locator("#curves svg").bounding_box()
    page.mouse.click(box["x"] + 0.6 * box["width"], box["y"] + box["height"] / 2)
    until(page, "!document.getElementById('video').seeking")
    where, title = address_of(page), page.inner_text("#playing")
    assert set(where) == {"q", "video", "t"}
    page.reload()
    page.wait_for_selector("#curves svg path.routed")
    until(page, "document.getElementById('video').played.length > 0")
    assert page.evaluate("document.getElementById('video').played.start(0)") == pytest.approx(float(where["t"]), abs=3)
    assert page.inner_text("#playing") == title
    assert page.input_value("#query") == sentence
    page.keyboard.press("Escape")
    assert "video" not in address_of(page)
    page.go_back()
    page.wait_for_selector("#stage:not([hidden])")
    page.go_back()
    until(page, "document.getElementById('stage').hidden && document.querySelectorAll('.hit').length > 0")
    page.go_back()
    page.wait_for_selector(".film >> visible=true")
    assert address_of(page) == {}
    assert page.input_value("#query") == ""
    page.go_forward()
    page.wait_for_selector(".hit >> visible=true")


def test_a_video_of_the_library_plays_without_a_search(page: Any) -> None:
    page.locator(".film > button").first.click()
    until(page, "document.getElementById('video').duration > 0")
    assert page.locator("#evidence").is_hidden()
    assert page.locator("#why").is_hidden()
    page.go_back()
    until(page, "document.getElementById('stage').hidden")


def test_adding_shows_its_progress_and_files_that_failed_their_reasons(own_page: Any) -> None:
    assert own_page.locator("#show-failed").is_hidden()
    own_page.click("#open-add")
    own_page.click("#folders button")
    own_page.click("#add-here")
    own_page.wait_for_selector(".job progress")
    own_page.wait_for_selector(".job[data-state=done]")
    text = own_page.inner_text(".job")
    assert "2 added" in text
    assert "broken.mp4" in text
    own_page.click("#add-close")
    until(own_page, "document.getElementById('holds').dataset.videos === '12'")
    own_page.wait_for_selector("#show-failed >> visible=true")
    own_page.click("#show-failed")
    own_page.wait_for_selector(".film.failed .title:has-text('broken.mp4')")
    until(own_page, "(document.querySelector('.film.failed .reason')?.innerText ?? '').length > 10")
    own_page.locator(".film.failed button").click()
    own_page.click("#confirm-yes")
    until(own_page, "document.querySelectorAll('.film.failed').length === 0")
    until(own_page, "!document.getElementById('holds').innerText.includes('could not be read')")


def test_the_folder_that_is_added_is_the_one_that_is_named(own_page: Any, tmp_path: Path) -> None:
    slow: list[Any] = []
    for name in ("deleted", "slow", "quick"):
        (tmp_path / "new" / name).mkdir()
    own_page.route("**/v1/folders?*path=slow", lambda route: slow.append(route))  # answered later
    own_page.route("**/v1/videos", lambda route: route.fulfill(status=404, json={"detail": "None here.", "remedy": ""}))

    def added() -> str:
        with own_page.expect_request(lambda request: request.method == "POST") as asked:
            own_page.click("#add-here")
        return str(asked.value.post_data_json["path"])

    own_page.click("#open-add")
    own_page.click("#folders button")
    own_page.wait_for_selector("#folders button >> text=deleted")
    (tmp_path / "new" / "deleted").rmdir()
    own_page.locator("#folders button", has_text="deleted").click()
    own_page.wait_for_selector("#jobs .bad")
    assert own_page.inner_text("#add-here") == "Add “new”"
    assert added() == ""
    own_page.locator("#folders button", has_text="slow").click()
    own_page.locator("#folders button", has_text="quick").click()
    own_page.wait_for_selector("#add-here >> text=quick")
    for route in slow:
        with own_page.expect_response("**/v1/folders?*path=slow"):
            route.continue_()
    own_page.wait_for_timeout(200)
    assert own_page.inner_text("#add-here") == "Add “quick”"
    assert added() == "quick"


def test_long_lists_come_page_by_page(page: Any) -> None:
    """Scrolling loads further pages; what is already shown is not shown again."""
    video = httpx.get(f"{urlsplit(page.url)._replace(path='/v1/videos').geturl()}").json()["videos"][0]

    def answer(route: Any) -> None:
        offset = int(parse_qs(urlsplit(route.request.url).query).get("cursor", ["p0"])[0][1:])
        videos = [video | {"id": 1000 + n, "filename": f"{n}.mp4"} for n in range(max(0, offset - 2), offset + 48)]
        route.fulfill(json={"videos": videos, "total": 100_000, "next_cursor": f"p{offset + 48}"})

    page.route("**/v1/videos?*", answer)
    page.select_option("#sort", "longest")
    until(page, "document.querySelectorAll('.film').length >= 48")
    until(page, "(scrollTo(0, document.body.scrollHeight), document.querySelectorAll('.film').length >= 144)")
    titles = page.locator(".film .title").all_text_contents()
    assert len(titles) == len(set(titles))
    assert "left" in page.inner_text("#more-films")


def test_examples_lead_to_clear_answers(page: Any) -> None:
    """Beside a clear answer, cards that say nothing stay folded and are shown on request."""
    page.wait_for_selector("#examples .chip")
    text = page.locator("#examples .chip").first.inner_text()
    page.locator("#examples .chip").first.click()
    page.wait_for_selector(".hit")
    assert page.input_value("#query") == text
    assert "stands out" in page.inner_text("#status")
    folded = page.locator(".hit.weak").count()
    if not folded:
        pytest.skip("all films of this world answer the example about as clearly")
    assert page.locator(".hit.weak >> visible=true").count() == 0
    page.click("#weaker")
    assert page.locator(".hit.weak >> visible=true").count() == folded


def test_a_slow_network_shows_placeholders_and_nothing_jumps(browser: Any, address: str) -> None:
    page = browser.new_context(viewport=PHONE, base_url=address).new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.route("**/v1/videos?*", lambda route: (page.wait_for_timeout(400), route.continue_()))
    page.goto("/")
    page.wait_for_selector(".placeholder")
    before = page.locator(".placeholder").first.bounding_box()
    page.wait_for_selector(".film")
    after = page.locator(".film").first.bounding_box()
    assert abs(before["y"] - after["y"]) < 3
    assert before["width"] == after["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.context.close()


def test_a_long_name_or_tag_stays_inside_a_narrow_screen(browser: Any, address: str) -> None:
    page = browser.new_context(viewport=PHONE, base_url=address).new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto("/")
    page.locator(".film > button").first.click()
    page.wait_for_selector("#stage >> visible=true")
    page.evaluate("document.getElementById('playing').textContent = 'n'.repeat(150)")
    page.evaluate("document.getElementById('details').open = true")
    page.evaluate("document.getElementById('details-facts').textContent = 'f'.repeat(150)")
    page.evaluate("document.getElementById('tag-list').hidden = false")
    tag = f"<span class='tag'>{'t' * 100}<button>✕</button></span>"
    page.evaluate("tag => { document.getElementById('tag-list').innerHTML = tag; }", tag)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.context.close()


def test_a_bad_address_is_answered_with_a_sentence(page: Any) -> None:
    for where, says in (
        ("/?video=999", "no video 999"),
        ("/?video=abc", "names no video"),
        ("/?like=zzz", "names no moment"),
        ("/?folder=nope", "no videos here"),
        ("/#picture=garbage", "cannot be used"),
        ("/?q=red&after=never", "filters.after"),
    ):
        page.goto("about:blank")
        page.goto(where)
        until(page, f"document.getElementById('status').innerText.includes({json.dumps(says)})")
        assert page.locator("#stage").is_hidden()


def test_a_typed_sentence_stays_while_filters_change_and_the_page_loads(browser: Any, address: str) -> None:
    context = browser.new_context(base_url=address)
    page = context.new_page()

    def answer(route: Any) -> None:
        page.evaluate("document.getElementById('query').value = 'a red square'")
        route.continue_()

    page.route("**/v1/library", answer)
    page.goto("/")
    page.wait_for_selector(".film")
    assert page.input_value("#query") == "a red square"
    page.click("#filters summary")
    page.select_option("#folder", "inner")
    until(page, "document.querySelectorAll('.film').length === 1")
    assert page.input_value("#query") == "a red square"
    page.press("#query", "Enter")
    page.wait_for_selector(".hit >> visible=true")
    assert address_of(page) == {"q": "a red square", "folder": "inner"}
    page.fill("#query", "not sent")
    page.click("#home")
    page.wait_for_selector(".film >> visible=true")
    assert page.input_value("#query") == ""
    context.close()


def test_arrow_keys_walk_through_the_videos(page: Any) -> None:
    page.locator(".film > button").first.focus()
    at = "[...document.querySelectorAll('.film > button')].indexOf(document.activeElement)"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(at) == 1
    page.keyboard.press("ArrowDown")
    assert page.evaluate(at) > 2
    page.keyboard.press("ArrowUp")
    assert page.evaluate(at) == 1
    page.keyboard.press("Enter")
    page.wait_for_selector("#stage:not([hidden])")
