"""The API, asked by a picture or by a moment."""

from __future__ import annotations

import base64
import os
import signal
from typing import Any

import pytest

from prvr.library import MomentQuery
from prvr.media import Image, open_video, picture_bytes
from prvr.server.pictures import Pictures
from tests.media.test_pictures import png
from tests.server.conftest import Served


def still(served: Served, number: int) -> Image:
    video = served.library.snapshot().videos[number]
    with open_video(video.path) as opened:
        return [frame.image for frame in opened.frames(1.0)][3]


def asked(served: Served, status: int = 200, **body: Any) -> dict[str, Any]:
    answer = served.client.post("/v1/search", json=body)
    assert answer.status_code == status, answer.text
    assert str(served.folder) not in answer.text
    found: dict[str, Any] = answer.json()
    return found


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_more_like_a_moment(served: Served) -> None:
    like = {"video": 2, "start": 1.0, "end": 3.5}
    found = asked(served, like=like, limit=4)
    expected = served.library.search(MomentQuery(2, 1.0, 3.5), limit=4)
    assert [hit["video"]["id"] for hit in found["hits"]] == [hit.video.id for hit in expected]
    assert [hit["score"] for hit in found["hits"]] == pytest.approx([hit.score for hit in expected], abs=1e-5)
    assert (found["understood"], found["confident"], found["presence"]) == (
        None, False, {"word": None, "probability": None},
    )  # fmt: skip
    evidence = served.client.get(found["hits"][0]["evidence_url"]).json()
    assert evidence["direct"] == pytest.approx(expected[0].evidence.to_dict()["direct"], abs=1e-4)
    assert evidence["query"] == found["query"] == "video 2 at 1–3.5 s"
    next_page = asked(served, like=like, limit=4, cursor=found["next_cursor"])
    assert next_page["hits"][0]["rank"] == 5
    assert asked(served, like={"video": 2, "start": 1.0})["hits"]  # what is on screen at that time


def test_a_picture_finds_its_film(served: Served) -> None:
    for suffix in (".png", ".jpg"):
        found = asked(served, picture=in_base64(picture_bytes(still(served, 3), suffix)), limit=3)
        assert found["hits"][0]["video"]["id"] == 3
        assert found["query"] == "a picture"
        evidence = served.client.get(found["hits"][0]["evidence_url"])
        assert evidence.status_code == 200
        assert evidence.json()["why"].startswith("The picture is closest to")


def test_what_cannot_be_asked_is_one_sentence(served: Served) -> None:
    one = "Give one of `query`, `like` and `picture`."
    moment = {"video": 1, "start": 0.0}
    assert asked(served, 422)["detail"] == one
    assert asked(served, 422, query="red", like=moment)["detail"] == one
    assert asked(served, 422, query=None, like=moment)["detail"] == "query: Input should be a valid string."
    assert asked(served, 422, like={"video": 0, "start": 1})["detail"].startswith("like.video: Input should be greater")
    assert "video 99" in asked(served, 404, like={"video": 99, "start": 0})["detail"]
    assert "a moment needs" in asked(served, 409, like={"video": 1, "start": 5, "end": 2})["detail"].lower()
    assert "there is nothing at 900 s" in asked(served, 409, like={"video": 1, "start": 900})["detail"]
    assert "for sentences only" in asked(served, 409, like=moment, min_confidence=0.5)["detail"]
    assert "not a .jpg" in asked(served, 409, picture=in_base64(b"no picture at all"))["detail"]
    assert "is damaged" in asked(served, 409, picture=in_base64(picture_bytes(still(served, 1))[:50]))["detail"]
    assert "not base64" in asked(served, 409, picture="AAAAA")["detail"]
    bomb = png(30_000, 30_000, b"\0" * 1_000_000)
    assert "64 million pixels" in asked(served, 409, picture=in_base64(bomb))["detail"]
    assert asked(served, 413, picture="A" * (12 << 20))["detail"].startswith("The request is larger than")
    for address in ("picture=0123", "like=soon", "like=a@3", "", "query=red&like=1@2"):
        answer = served.client.get(f"/v1/videos/1/evidence?{address}")
        assert answer.status_code == 404, address
        assert "traceback" not in answer.text.lower()


def test_a_decoder_that_is_killed_is_started_again(served: Served) -> None:
    picture = picture_bytes(still(served, 3), ".png")
    assert asked(served, picture=in_base64(picture))["hits"]
    pictures = served.client.app.state.prvr.pictures
    assert isinstance(pictures, Pictures)
    process = pictures._decoder._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    other = in_base64(picture_bytes(still(served, 2), ".png"))
    answer = served.client.post("/v1/search", json={"picture": other})
    if answer.status_code != 200:  # its end was not noticed yet
        assert answer.json()["detail"] == "The picture cannot be used: the decoder crashed or took too long."
        answer = served.client.post("/v1/search", json={"picture": other})
    assert answer.json()["hits"][0]["video"]["id"] == 2
