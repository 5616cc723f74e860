"""What the page does with moments in a real browser: pictures, more like this, clips, picking, tags, removal."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.server.browsing import place, search_for, until

# Hands a file to the page as a browser does when somebody drops or pastes it.
GIVE = """([kind, data, name]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, { type: "image/jpeg" }));
  const how = { bubbles: true, cancelable: true };
  document.body.dispatchEvent(kind === "paste" ? new ClipboardEvent("paste", { ...how, clipboardData: transfer })
    : new DragEvent(kind, { ...how, dataTransfer: transfer }));
}"""


@pytest.fixture
def picture(address: str) -> str:
    """A frame of the first film, as the base64 of a JPEG."""
    return base64.b64encode(httpx.get(f"{address}/v1/videos/1/thumbnail?time=2&width=640").content).decode()


@pytest.mark.parametrize("kind", ["drop", "paste"])
def test_a_picture_is_a_query_and_its_address_can_be_shared(page: Any, picture: str, kind: str) -> None:
    page.evaluate(GIVE, ["dragenter", picture, "a.jpg"])
    assert page.locator("#drop").is_visible()
    page.evaluate(GIVE, ["dragleave", picture, "a.jpg"])
    assert page.locator("#drop").is_hidden()
    with page.expect_response("**/v1/search") as answer:
        page.evaluate(GIVE, [kind, picture, "a.jpg"])
    sent = base64.b64decode(answer.value.request.post_data_json["picture"])
    assert sent.startswith(b"\xff\xd8")
    assert len(sent) < 20_000  # short enough for an address
    first = str(answer.value.json()["hits"][0]["video"]["id"])
    page.wait_for_selector(".hit")
    assert page.locator(".hit").first.get_attribute("data-video") == first
    assert page.locator("#asked-picture").is_visible()
    assert "picture=" in urlsplit(place(page)).fragment
    page.reload()
    page.wait_for_selector(".hit")
    assert page.locator(".hit").first.get_attribute("data-video") == first
    page.locator(".hit > button").first.click()
    page.wait_for_selector("#curves svg path")
    page.click("#asked-close")
    page.wait_for_selector(".film >> visible=true")


def test_the_skip_link_keeps_the_picture_of_a_search(page: Any, picture: str) -> None:
    page.evaluate(GIVE, ["drop", picture, "a.jpg"])
    page.wait_for_selector(".hit >> visible=true")
    shown = place(page)
    page.locator(".skip").press("Enter")
    assert page.evaluate("document.activeElement.id") == "list"
    assert place(page) == shown
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.hit') !== null")


def test_what_is_no_picture_is_refused_with_a_sentence(page: Any) -> None:
    page.wait_for_selector(".film")
    page.evaluate(GIVE, ["drop", base64.b64encode(b"no picture").decode(), "a.jpg"])
    page.wait_for_selector(".notice.bad")
    assert "not a picture" in page.inner_text("#status")


def test_more_like_this(page: Any, sentence: str) -> None:
    search_for(page, sentence)
    page.wait_for_selector(".hit")
    video = page.locator(".hit").first.get_attribute("data-video")
    with page.expect_request("**/v1/search") as asked:
        page.locator(".hit .chip", has_text="More like this").first.click()
    assert str(asked.value.post_data_json["like"]["video"]) == video
    page.wait_for_selector("#asked-moment >> visible=true")
    until(page, "document.querySelectorAll('.hit').length > 0 && !document.body.classList.contains('loading')")
    assert parse_qs(urlsplit(place(page)).query)["like"][0].startswith(f"{video}@")
    page.goto(f"{place(page)}&sure=0.5")  # probabilities are known for sentences only
    page.wait_for_selector(".hit")
    page.locator(".hit > button").first.click()
    page.wait_for_selector("#curves svg path")
    page.click("#like-this")
    until(page, "document.getElementById('stage').hidden")
    search_for(page, sentence)
    until(page, "document.getElementById('asked').hidden")


def test_a_file_that_the_browser_cannot_play_is_shown_in_clips(page: Any) -> None:
    """The file is answered as something that no browser plays; clips come from the real server."""
    page.route(
        "**/v1/videos/*/media", lambda route: route.fulfill(body=b"RIFF no film" * 50, content_type="video/x-msvideo")
    )
    page.locator(".film > button").first.click()
    until(page, "document.getElementById('video').src.includes('/clip?')")
    until(page, "document.getElementById('video').readyState >= 2")
    until(page, "document.getElementById('video').videoWidth > 0")


@pytest.mark.parametrize("status", [410, 503])
def test_a_file_that_cannot_be_had_is_explained_by_the_server(page: Any, status: int) -> None:
    problem = {"detail": "The storage does not answer.", "remedy": "Try again soon."}
    page.route("**/v1/videos/*/media", lambda route: route.fulfill(status=status, json=problem))
    page.locator(".film > button").first.click()
    page.wait_for_selector("#media-problem.bad")
    assert page.inner_text("#media-problem") == "The storage does not answer. Try again soon."


def test_picked_moments_are_saved(page: Any, sentence: str, tmp_path: Path) -> None:
    search_for(page, sentence)
    page.wait_for_selector(".hit")
    for number in (0, 1):
        page.locator(".hit:not(.weak) .pick input").nth(number).check()
    assert "2 moments picked" in page.inner_text("#picked-text")
    page.reload()
    page.wait_for_selector(".hit")
    assert page.locator(".hit .pick input:checked").count() == 2
    for form, begins in (("csv", b"video"), ("clips", b"PK"), ("otio", b"{")):
        page.select_option("#picked-format", form)
        with page.expect_download() as download:
            page.click("#picked-get")
        download.value.save_as(tmp_path / form)
        assert begins in (tmp_path / form).read_bytes()[:200]
        until(page, "document.getElementById('picked-status').innerText === 'Saved to your downloads.'")
    page.click("#picked-clear")
    assert page.locator("#picked").is_hidden()


def test_a_long_video_is_zoomed_and_its_sections_are_explained(page: Any, sentence: str) -> None:
    """A made-up evidence of two hours in three sections, on a film of the library."""
    seconds = 7200

    def answer(route: Any) -> None:
        evidence = route.fetch().json()
        spans = [[t, t + 2] for t in range(0, seconds, 2)]
        curve = [0.2 + 0.1 * ((t // 7) % 3) for t in range(len(spans))]
        curve[1500] = 0.9
        peak = {"index": 1500, "start": 3000, "end": 3002, "value": 0.9}
        evidence |= {"spans": spans, "direct": curve, "support": curve, "routed": curve, "direct_peak": peak}
        evidence |= {"routed_peak": peak, "sections": [[0, 2400], [2390, 4800], [4790, 7200]]}
        evidence["moments"] = [{"start": 2996.0, "end": 3010.0, "thumbnail_url": ""}]
        route.fulfill(body=json.dumps(evidence), content_type="application/json")

    page.route("**/evidence?*", answer)
    search_for(page, sentence)
    page.locator(".hit > button").first.click()
    page.wait_for_selector("#curves .overview")
    whole = "Number(document.querySelector('#curves .frame').getAttribute('width'))"
    first = page.evaluate(whole)
    page.locator("#curves [aria-label='Zoom in']").click()
    assert page.evaluate(whole) < first
    page.locator("#curves [aria-label='Show the whole video']").click()
    assert page.evaluate(whole) > first
    assert page.locator("#curves .joint").count() == 2
    assert "compared in 3 parts" in page.inner_text("#curves .joints")
    assert page.locator("#curves path.support").get_attribute("d").count("M") == 3  # no step: a gap where parts meet
    page.locator("#curves svg[role=slider]").focus()
    page.keyboard.press("+")
    assert page.locator("#curves .joint").count() < 2


def test_tags_and_removal(own_page: Any, own_address: str) -> None:
    own_page.locator(".film > button").first.click()
    number = own_page.locator(".film.playing").get_attribute("data-video")
    own_page.click("#details summary")
    own_page.fill("#new-tag", "  holiday ")
    own_page.press("#new-tag", "Enter")
    own_page.wait_for_selector("#tag-list .tag:has-text('holiday')")
    own_page.locator("#tag-list [aria-label='Take off the tag drawn']").click()
    until(own_page, "document.querySelectorAll('#tag-list .tag').length === 1")
    assert httpx.get(f"{own_address}/v1/videos/{number}").json()["tags"] == ["holiday"]
    own_page.wait_for_selector("#tags .chip:has-text('holiday')")
    own_page.click("#remove")
    assert "file itself stays" in own_page.inner_text("#confirm-text")
    own_page.click("#confirm-no")
    assert httpx.get(f"{own_address}/v1/videos/{number}").status_code == 200
    own_page.click("#remove")
    own_page.click("#confirm-yes")
    until(own_page, "document.getElementById('stage').hidden")
    assert httpx.get(f"{own_address}/v1/videos/{number}").status_code == 404
    until(own_page, "document.getElementById('holds').dataset.videos === '9'")


def test_hits_and_picks_follow_tags_and_removal(own_page: Any, sentence: str) -> None:
    """In the list of the library, which is hidden during a search, the video has a card too."""
    own_page.wait_for_selector(".film")
    search_for(own_page, sentence)
    own_page.wait_for_selector(".hit")
    own_page.locator(".hit .pick input").first.check()
    number = own_page.locator(".hit").first.get_attribute("data-video")
    own_page.locator(".hit > button").first.click()
    own_page.click("#details summary")
    own_page.fill("#new-tag", "holiday")
    own_page.press("#new-tag", "Enter")
    own_page.wait_for_selector("#tag-list .tag:has-text('holiday')")
    own_page.click("#close")
    own_page.locator(".hit > button").first.click()
    until(own_page, "!document.getElementById('stage').hidden")
    assert "holiday" in own_page.inner_text("#tag-list")
    own_page.click("#remove")
    own_page.click("#confirm-yes")
    until(own_page, "document.getElementById('stage').hidden")
    until(own_page, f"document.querySelectorAll('.card[data-video=\"{number}\"]').length === 0")
    assert own_page.locator("#picked").is_hidden()
    own_page.reload()
    own_page.wait_for_selector(".hit")
    assert own_page.locator("#picked").is_hidden()


def test_the_header_says_what_is_going_on(page: Any) -> None:
    running = [{"what": "watch", "folder": "holiday", "state": "indexing", "done": 3, "total": 80, "file": "beach.mp4"}]
    page.route("**/v1/activity", lambda route: route.fulfill(json={"running": running}))
    page.reload()
    page.wait_for_selector("#activity.busy")
    assert page.inner_text("#activity-text") == "Indexing 4 of 80 videos in holiday: beach.mp4"


def test_a_library_that_cannot_be_changed_has_no_buttons_for_it(page: Any) -> None:
    def answer(route: Any) -> None:
        route.fulfill(json=route.fetch().json() | {"writable": False})

    page.route("**/v1/library", answer)
    page.reload()
    page.locator(".film > button").first.click()
    page.click("#details summary")
    assert page.locator("#remove").is_hidden()
    assert page.locator("#tag-form").is_hidden()
