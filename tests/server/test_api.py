"""The HTTP API."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from prvr.library import Filters
from prvr.library.search import candidates
from prvr.server import ServerError, ServerOptions, create_app
from prvr.server.batcher import Batcher
from prvr.server.metrics import Metrics
from prvr.server.search_models import SearchBody, SearchFilters
from prvr.server.searches import BatchSearcher
from tests.server.conftest import Served

QUERY = "a red square moves to the left"


def test_search_returns_the_hits_of_the_library(served: Served) -> None:
    expected = served.library.search(QUERY, limit=3)
    answer = served.client.post("/v1/search", json={"query": f"  {QUERY} ", "limit": 3})
    assert answer.status_code == 200
    response = answer.json()
    assert [(h["video"]["id"], h["rank"]) for h in response["hits"]] == [
        (h.video.id, n + 1) for n, h in enumerate(expected)
    ]
    assert [h["score"] for h in response["hits"]] == pytest.approx([h.score for h in expected], abs=1e-5)
    assert response["confident"] == expected.confident
    assert response["presence"] == {"word": expected.presence.word, "probability": None}
    assert response["understood"] == {"used": list(expected.understood.used), "ignored": []}
    assert str(served.folder) not in answer.text


def test_pages_continue_each_other_and_options_reach_the_library(served: Served) -> None:
    body = {"query": QUERY, "group_by": "moment", "limit": 4}
    whole = served.client.post("/v1/search", json={**body, "limit": 100}).json()["hits"]
    pages, cursor = [], None
    while True:
        page = served.client.post("/v1/search", json={**body, "cursor": cursor}).json()
        pages += page["hits"]
        if (cursor := page["next_cursor"]) is None:
            break
    assert [(h["video"]["id"], h["start"], h["rank"]) for h in pages] == [
        (h["video"]["id"], h["start"], h["rank"]) for h in whole
    ]
    inner = served.client.post("/v1/search", json={"query": QUERY, "filters": {"folder": "inner", "tags": ["drawn"]}})
    assert [h["video"]["folder"] for h in inner.json()["hits"]] == ["inner"]
    nothing = served.client.post("/v1/search", json={"query": QUERY, "filters": {"after": "2999-01-01T00:00:00Z"}})
    assert (nothing.status_code, nothing.json()["hits"]) == (200, [])
    plain = served.client.post("/v1/search", json={"query": QUERY, "trace": False, "limit": 50}).json()["hits"]
    without = served.library.search(QUERY, trace=False, limit=50)
    assert [h["video"]["id"] for h in plain] == [h.video.id for h in without]


def test_approximate_search_needs_a_candidate_index(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lance", reason='needs Lance: pip install "prvr[candidates]"')
    monkeypatch.setattr(candidates, "FEWEST_TOKENS", 10)
    body = {"query": QUERY, "limit": 3, "approximate": True}
    refused = served.client.post("/v1/search", json=body)
    assert refused.status_code == 409
    assert refused.json()["detail"] == "The library has no candidate index."
    assert refused.json()["remedy"] == "Build one with `prvr library index`, or leave `approximate` out."
    assert served.client.post("/v1/search", json={**body, "approximate": False}).status_code == 200
    served.library.index()
    answer = served.client.post("/v1/search", json=body)
    assert answer.status_code == 200
    expected = served.library.search(QUERY, limit=3, approximate=True)
    assert [h["video"]["id"] for h in answer.json()["hits"]] == [h.video.id for h in expected]
    (table,) = (served.library.folder / candidates.INDEX_FOLDER).glob("*.lance")
    served.library.index()  # the server uses a new index without a restart
    assert not table.exists()
    assert served.client.post("/v1/search", json=body).status_code == 200


def test_evidence_of_a_hit_equals_that_of_the_search(served: Served) -> None:
    hit = served.client.post("/v1/search", json={"query": QUERY, "limit": 1}).json()["hits"][0]
    evidence = served.client.get(hit["evidence_url"]).json()
    expected = served.library.search(QUERY, limit=1)[0].evidence
    for name in ("direct", "support", "routed", "activation"):
        assert evidence[name] == pytest.approx(expected.to_dict()[name], abs=1e-4)
    assert evidence["direct_peak"]["index"] == expected.direct_peak
    assert evidence["routed_peak"]["index"] == expected.routed_peak
    assert evidence["verdict"] is None  # an encoder alone does not know what support means
    assert evidence["why"].startswith("What you describe is closest to")
    assert evidence["moments"][0]["start"] == hit["start"]
    assert served.client.get("/v1/videos/1/evidence?query=xyzzy").status_code == 404
    assert served.client.get("/v1/videos/1/evidence?query=red&track=text").status_code == 404
    assert served.client.get("/v1/videos/999/evidence?query=red").status_code == 404


def test_words_are_found_without_evidence_and_without_paths_of_the_machine(served: Served) -> None:
    """`plain` understands neither "inner", the folder of a film, nor "drawn", the tag of all."""
    found = served.client.post("/v1/search", json={"query": "inner"})
    answer = found.json()
    (hit,) = answer["hits"]
    assert hit["matched"] == {"where": "folder", "text": "inner"}
    assert (hit["evidence_url"], hit["track"], hit["ranks"]) == (None, "words", {"words": 1})
    assert (hit["start"], hit["end"]) == (0.0, pytest.approx(hit["video"]["duration"], abs=1e-3))
    assert answer["message"].startswith("1 video holds the words of the query.")
    assert str(served.library.videos()[0].path.parent) not in found.text
    page = served.client.post("/v1/search", json={"query": "drawn", "limit": 4}).json()
    assert {hit["matched"]["where"] for hit in page["hits"]} == {"tags"}
    rest = served.client.post("/v1/search", json={"query": "drawn", "limit": 50, "cursor": page["next_cursor"]}).json()
    assert len({hit["video"]["id"] for hit in [*page["hits"], *rest["hits"]]}) == 10


def test_the_library_can_be_browsed(served: Served) -> None:
    newest = [video["date"] for video in served.client.get("/v1/videos?order=newest").json()["videos"]]
    assert newest == sorted(newest, reverse=True)
    assert served.client.get("/v1/videos?order=best").status_code == 422
    folders = served.client.get("/v1/library/folders").json()["folders"]
    assert folders == [{"name": "inner", "folder": "inner", "videos": 1}]
    assert served.client.get("/v1/library/folders?folder=inner").json() == {"folders": []}
    assert served.client.get("/v1/library/folders?folder=../..").json() == {"folders": []}
    about = served.client.get("/v1/library").json()
    assert (about["folders"], about["tags"], about["writable"]) == (["", "inner"], ["drawn"], True)
    examples = served.client.get("/v1/library/examples").json()["examples"]
    assert served.client.post("/v1/search", json={"query": examples[0]}).json()["confident"]


def test_tags_are_attached_and_taken_off(served: Served) -> None:
    changed = served.client.patch("/v1/videos/2", json={"add_tags": ["home", " new "], "remove_tags": ["drawn"]})
    assert changed.json()["tags"] == ["home", "new"]
    assert served.client.get("/v1/videos?tag=new").json()["total"] == 1
    hits = served.client.post("/v1/search", json={"query": QUERY, "filters": {"tags": ["home"]}}).json()["hits"]
    assert [hit["video"]["id"] for hit in hits] == [2]
    assert served.client.patch("/v1/videos/2", json={}).json()["tags"] == ["home", "new"]
    assert served.client.patch("/v1/videos/99", json={"add_tags": ["x"]}).status_code == 404
    assert served.client.patch("/v1/videos/2", json={"tags": ["x"]}).status_code == 422
    assert served.client.patch("/v1/videos/2", json={"add_tags": [" "]}).status_code == 422


def test_cards_get_an_outline_of_the_evidence(served: Served) -> None:
    for hit in served.client.post("/v1/search", json={"query": QUERY}).json()["hits"]:
        evidence = served.client.get(hit["evidence_url"]).json()
        assert 1 <= len(hit["outline"]) <= 48
        assert max(hit["outline"]) == pytest.approx(max(evidence["routed"]), abs=1e-3)
        assert evidence["sections"] == []


def test_videos_are_listed_shown_and_removed(served: Served) -> None:
    first = served.client.get("/v1/videos?limit=5").json()
    assert (first["total"], len(first["videos"])) == (10, 5)
    second = served.client.get("/v1/videos", params={"limit": 5, "cursor": first["next_cursor"]}).json()
    assert second["videos"][0]["id"] == 6
    assert served.client.get("/v1/videos?folder=inner").json()["total"] == 1
    video = served.client.get("/v1/videos/3").json()
    path = served.library.videos()[2].path
    assert (video["filename"], video["size"]) == (path.name, path.stat().st_size)
    assert served.client.delete("/v1/videos/3").status_code == 204
    assert served.client.get("/v1/videos/3").status_code == 404
    assert served.client.delete("/v1/videos/3").status_code == 404
    assert path.exists()
    hits = served.client.post("/v1/search", json={"query": QUERY, "limit": 100}).json()["hits"]
    assert 3 not in {h["video"]["id"] for h in hits}


def test_media_is_sent_whole_or_by_range(served: Served) -> None:
    content = served.library.videos()[0].path.read_bytes()
    size, url = len(content), "/v1/videos/1/media"
    whole = served.client.get(url)
    assert (whole.status_code, whole.content, whole.headers["content-type"]) == (200, content, "video/mp4")
    for given, first, last in (("0-99", 0, 99), ("100-", 100, size - 1), ("-10", size - 10, size - 1)):
        part = served.client.get(url, headers={"Range": f"bytes={given}"})
        assert (part.status_code, part.content) == (206, content[first : last + 1])
        assert part.headers["content-range"] == f"bytes {first}-{last}/{size}"
    late = served.client.get(url, headers={"Range": f"bytes={size}-"})
    assert (late.status_code, late.headers["content-range"]) == (416, f"bytes */{size}")
    stale = served.client.get(url, headers={"Range": "bytes=0-1", "If-Range": '"other"'})
    assert stale.status_code == 200
    head = served.client.head(url)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(size), b"")


def test_thumbnails_are_pictures_of_their_time(served: Served) -> None:
    answers = [served.client.get(f"/v1/videos/1/thumbnail?time={time}&width=160") for time in (0, 5, 1e6)]
    assert {a.status_code for a in answers} == {200}
    assert all(a.content[:2] == b"\xff\xd8" for a in answers)
    assert answers[0].content != answers[1].content
    assert served.client.get("/v1/videos/1/thumbnail?time=-1").status_code == 422


def events(text: str) -> list[dict[str, object]]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def test_adding_is_a_job_with_events_that_reports_a_broken_file(served: Served) -> None:
    answer = served.client.post("/v1/videos", json={"root": "new", "tags": ["fresh"]})
    assert answer.status_code == 202
    job = served.client.get(answer.headers["location"]).json()
    for _ in range(5):  # searches still work meanwhile
        assert served.client.post("/v1/search", json={"query": QUERY}).status_code == 200
    changes = events(served.client.get(job["events_url"]).text)
    assert changes[-1]["state"] == "done"
    assert any(change["progress"] for change in changes)
    report = changes[-1]["report"]
    assert isinstance(report, dict)
    assert report["added"] == 2
    assert list(report["failed"]) == ["broken.mp4"]
    assert served.client.get("/v1/library").json()["videos"] == 12
    assert "fresh" in served.client.get("/v1/library").json()["tags"]
    failed = served.client.get("/v1/videos?status=failed").json()["videos"]
    assert [v["filename"] for v in failed] == ["broken.mp4"]
    assert served.client.get(failed[0]["thumbnail_url"]).status_code == 409  # the server still runs
    assert served.client.get(failed[0]["media_url"]).status_code == 409  # it may be anything
    assert served.client.get(f"/v1/videos/{served.library.videos('ok')[-1].id}/thumbnail").status_code == 200
    assert [j["id"] for j in served.client.get("/v1/jobs").json()["jobs"]] == [job["id"]]


def sabotage(served: Served, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Make the worker process run this code when it starts."""
    module = served.folder / "site" / "sitecustomize.py"
    module.parent.mkdir()
    module.write_text(f"import os, sys, time\nif 'prvr.server.worker' in ' '.join(sys.orig_argv):\n{code}\n")
    monkeypatch.setenv("PYTHONPATH", str(module.parent), prepend=":")


def test_a_decoder_that_crashes_at_once_fails_only_its_job(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(served, monkeypatch, "    os.abort()")
    job = served.client.post("/v1/videos", json={"root": "new"}).json()
    last = events(served.client.get(job["events_url"]).text)[-1]
    assert last["state"] == "failed"
    assert "crash" in str(last["problem"])
    assert served.client.post("/v1/search", json={"query": QUERY}).status_code == 200


@pytest.mark.parametrize(
    ("does", "reason"),
    [("os.abort()", "crash"), pytest.param("time.sleep(600)", "made no progress", marks=pytest.mark.slow)],
)
def test_a_file_that_crashes_or_hangs_the_decoder_is_left_out(
    served: Served, monkeypatch: pytest.MonkeyPatch, does: str, reason: str
) -> None:
    """The crash happens in the middle of a job."""
    first = min(served.folder.glob("new/[0-9a-z]*.mp4"), key=lambda path: (path.name == "broken.mp4", path.name))
    code = (
        "    import prvr.library.ingest.index as indexing\n    before = indexing.index_parts\n"
        "    def index_parts(folder, video, *others):\n"
        f"        if video.path.name == {first.name!r}: {does}\n"
        "        return before(folder, video, *others)\n"
        "    indexing.index_parts = index_parts"
    )
    sabotage(served, monkeypatch, code)
    monkeypatch.setattr("prvr.server.jobs.PATIENCE", 30.0)
    job = served.client.post("/v1/videos", json={"root": "new"}).json()
    last = events(served.client.get(job["events_url"]).text)[-1]
    assert last["state"] == "done"
    report = last["report"]
    assert isinstance(report, dict)
    assert report["added"] == 1
    assert set(report["failed"]) == {first.name, "broken.mp4"}
    assert reason in report["failed"][first.name]
    assert served.client.get("/v1/library").json()["videos"] == 11


def test_what_was_added_before_a_crash_is_in_the_report(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files of one name crash the decoder, each after the others are in the library."""
    new = served.folder / "new"
    crashing = sorted(path for path in new.glob("*.mp4") if path.name != "broken.mp4")[1]
    for folder in ("one", "two"):
        (new / folder).mkdir()
        shutil.copy2(crashing, new / folder / "crash.mp4")
        with open(new / folder / "crash.mp4", "ab") as file:  # another content than the other
            file.write(folder.encode())
    code = (
        "    import prvr.library.ingest.index as indexing\n    before = indexing.index_parts\n"
        "    def index_parts(folder, video, *others):\n"
        "        if video.path.name == 'crash.mp4':\n"
        "            from prvr.library import Library\n"
        f"            while len(Library.open({str(served.folder / 'library')!r}).videos()) < 13: time.sleep(0.05)\n"
        "            os.abort()\n"
        "        return before(folder, video, *others)\n"
        "    indexing.index_parts = index_parts"
    )
    sabotage(served, monkeypatch, code)
    job = served.client.post("/v1/videos", json={"root": "new"}).json()
    report = events(served.client.get(job["events_url"]).text)[-1]["report"]
    assert isinstance(report, dict)
    assert (report["added"], report["unchanged"]) == (2, 0)
    assert set(report["failed"]) == {"broken.mp4", "crash.mp4", "crash.mp4 (2)"}
    again = served.client.post("/v1/videos", json={"root": "new"}).json()
    report = events(served.client.get(again["events_url"]).text)[-1]["report"]
    assert isinstance(report, dict)
    assert (report["added"], report["unchanged"]) == (0, 2)


@pytest.mark.slow
def test_progress_does_not_keep_a_file_alive_for_ever(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is decoded slowly, with progress all the time, is left out; the others are added."""
    first = min(served.folder.glob("new/[0-9a-z]*.mp4"), key=lambda path: (path.name == "broken.mp4", path.name))
    code = (
        "    from prvr.media.reader import VideoReader\n    before = VideoReader.frames\n"
        "    def frames(self, *others):\n"
        "        for frame in before(self, *others):\n"
        f"            while self.info.path.name == {first.name!r}:\n"
        "                yield frame\n                time.sleep(0.1)\n"
        "            yield frame\n"
        "    VideoReader.frames = frames"
    )
    sabotage(served, monkeypatch, code)
    monkeypatch.setattr("prvr.server.jobs._longest", lambda file: 4.0 if file.name == first.name else 100.0)
    job = served.client.post("/v1/videos", json={"root": "new"}).json()
    last = events(served.client.get(job["events_url"]).text)[-1]
    report = last["report"]
    assert isinstance(report, dict)
    assert (last["state"], report["added"]) == ("done", 1)
    assert "took too long" in report["failed"][first.name]


def test_a_job_can_be_stopped(served: Served) -> None:
    job = served.client.post("/v1/videos", json={"root": "new"}).json()
    assert served.client.post(f"/v1/jobs/{job['id']}/cancel").json()["state"] == "cancelled"
    assert events(served.client.get(job["events_url"]).text)[-1]["state"] == "cancelled"
    assert served.library.verify().ok


def test_health_metrics_and_documents(served: Served) -> None:
    assert served.client.get("/v1/health").json()["status"] == "ok"
    served.client.post("/v1/search", json={"query": QUERY})
    text = served.client.get("/metrics").text
    assert "prvr_videos 10" in text
    assert "prvr_search_batch_size_count 1" in text
    schema = served.client.get("/v1/openapi.json").json()
    assert schema["components"]["schemas"]["SearchBody"]["examples"]
    shown = served.client.get("/v1/docs").text
    for path, methods in schema["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in shown
    page = served.client.get("/")
    assert "<title>prvr" in page.text
    for name in ("app.js", "api.js", "player.js", "curves.js", "add.js", "style.css", "icon.svg"):
        assert served.client.get(f"/page/{name}").status_code == 200
    assert "://" not in page.text.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    ("method", "url", "body", "status"),
    [
        ("GET", "/nowhere", None, 404),
        ("PUT", "/v1/search", None, 405),
        ("POST", "/v1/search", {}, 422),
        ("POST", "/v1/search", {"query": "   "}, 422),
        ("POST", "/v1/search", {"query": "x" * 501}, 422),
        ("POST", "/v1/search", {"query": "red\0"}, 422),
        ("POST", "/v1/search", {"query": "\x1c"}, 422),
        ("POST", "/v1/search", {"query": "red", "limitt": 3}, 422),
        ("POST", "/v1/search", {"query": "red", "cursor": "abc"}, 422),
        ("POST", "/v1/search", {"query": "red", "limit": 101}, 422),
        ("POST", "/v1/search", {"query": "red", "limit": "10"}, 422),
        ("POST", "/v1/search", {"query": "red", "trace": 1}, 422),
        ("POST", "/v1/search", {"query": "red", "filters": {"after": 0}}, 422),
        ("POST", "/v1/search", {"query": "red", "filters": {"after": "yesterday"}}, 422),
        ("GET", "/v1/videos/0", None, 422),
        ("GET", "/v1/jobs/7", None, 404),
        ("POST", "/v1/videos", {"root": "elsewhere"}, 403),
        ("POST", "/v1/videos", {"root": "new", "path": "nothing"}, 404),
    ],
)
def test_errors_say_what_is_wrong_and_what_to_do(
    served: Served, method: str, url: str, body: object | None, status: int
) -> None:
    answer = served.client.request(method, url, json=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    for text in (problem["detail"], problem["remedy"]):  # the page shows both, one after the other
        assert text.endswith(".")


def test_a_wrong_method_gets_the_allowed_ones(served: Served) -> None:
    answer = served.client.options("/v1/videos")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


def test_an_unexpected_failure_reveals_no_paths(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(f"{served.folder}/secret")

    monkeypatch.setattr(served.library, "search_many", fail)
    app = create_app(served.library)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        answer = client.post("/v1/search", json={"query": QUERY})
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text


def test_waiting_searches_share_a_pass(served: Served) -> None:
    metrics = Metrics()
    sentences = ["red", "blue", "green", "zzz", "a square", "a circle", "night", "snow", "left", "right"]
    requests = [SearchBody(query=text, limit=number + 1) for number, text in enumerate(sentences)]

    async def ask() -> list[bytes]:
        batcher = Batcher(BatchSearcher(served.library), metrics, batch_size=8, max_waiting=100)
        responses = await asyncio.gather(*map(batcher.submit, requests))
        await batcher.close()
        return responses

    for request, answer in zip(requests, asyncio.run(ask()), strict=True):
        alone = served.library.search(request.query, limit=request.limit)
        assert [hit["video"]["id"] for hit in json.loads(answer)["hits"]] == [hit.video.id for hit in alone]
    assert "prvr_search_batch_size_count 2" in metrics.text({})  # ten searches, eight at a time


def test_a_failing_search_does_not_fail_others_in_its_batch() -> None:
    def answer_batch(requests: Sequence[int]) -> list[int]:
        if 3 in requests:
            raise ValueError("three")
        return [2 * request for request in requests]

    async def ask() -> list[int | BaseException]:
        batcher = Batcher(answer_batch, Metrics(), batch_size=8, max_waiting=100)
        responses = await asyncio.gather(*map(batcher.submit, range(5)), return_exceptions=True)
        await batcher.close()
        return responses

    responses = asyncio.run(ask())
    assert isinstance(responses.pop(3), ValueError)
    assert responses == [0, 2, 4, 8]


def test_unsafe_options_are_refused(tmp_path: Path) -> None:
    ServerOptions(host="0.0.0.0", token="x" * 16)
    for given in ({"host": "0.0.0.0"}, {"host": "example.org"}, {"token": "short"}, {"roots": (tmp_path / "no",)}):
        with pytest.raises(ServerError):
            ServerOptions(**given)  # type: ignore[arg-type]


def test_every_filter_of_the_library_can_be_asked_for() -> None:
    assert {field.name for field in fields(Filters)} == SearchFilters.model_fields.keys()
