"""Clips and exports over HTTP."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import shutil
import threading
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prvr.library import Video
from prvr.media import VideoInfo, open_video, parse_moments, write_video
from tests.server.conftest import Served


def pictures(path: Path, rate: float) -> tuple[VideoInfo, list[np.ndarray[Any, Any]]]:
    with open_video(path) as video:
        return video.info, [frame.image.astype(float) for frame in video.frames(rate)]


def saved(content: bytes, folder: Path) -> Path:
    path = folder / "answer.mp4"
    path.write_bytes(content)
    return path


def add_film(served: Served, name: str = "other.mkv", seconds: float = 6.0, **options: Any) -> Video:
    """Add a film that browsers do not play. Its brightness tells its time: 30 per second."""
    path = served.folder / "new" / name
    frames = (np.full((90, 160, 3), round(3 * n), np.uint8) for n in range(round(10 * seconds)))
    write_video(path, frames, fps=10, codec="mpeg4", options={"g": "25", "qscale": "2"}, **options)
    served.library.add([path])
    return next(video for video in served.library.videos("ok") if video.name == name)


def test_a_clip_shows_the_moment(served: Served, tmp_path: Path) -> None:
    video = served.library.videos()[0]
    answer = served.client.get("/v1/videos/1/clip?start=3&end=5&margin=0.5")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "video/mp4")
    info, cut = pictures(saved(answer.content, tmp_path), 8.0)
    assert (info.codec, info.width, info.height) == ("h264", 320, 180)
    assert info.duration == pytest.approx(3.0, abs=0.1)
    _, whole = pictures(Path(str(video.path)), 8.0)
    assert len(cut) == 24
    apart = [float(np.abs(np.array(cut) - np.array(whole[n : n + 24])).mean()) for n in range(len(whole) - 23)]
    assert int(np.argmin(apart)) == 20  # these pictures, and not those before or after them
    assert apart[20] < 2


def test_a_file_that_browsers_do_not_play_is_cut_too(served: Served, tmp_path: Path) -> None:
    video = add_film(served, audio_seconds=6.0)
    answer = served.client.get(f"/v1/videos/{video.id}/clip?start=2&end=3")
    info, cut = pictures(saved(answer.content, tmp_path), 10.0)
    assert [stream.codec for stream in info.streams] == ["h264", "aac"]
    assert [float(image.mean()) for image in cut] == pytest.approx([60 + 3 * n for n in range(10)], abs=4)


def test_clips_are_kept_and_sent_by_range(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "/v1/videos/1/clip?start=1&end=2"
    whole = served.client.get(url)
    content, etag = whole.content, whole.headers["etag"]
    monkeypatch.setattr("prvr.server.processes.start", None)  # nothing is cut again
    part = served.client.get(url, headers={"Range": "bytes=100-199", "If-Range": etag})
    assert (part.status_code, part.content) == (206, content[100:200])
    assert part.headers["content-range"] == f"bytes 100-199/{len(content)}"
    assert served.client.get(url, headers={"Range": "bytes=0-9", "If-Range": '"other"'}).content == content
    late = served.client.get(url, headers={"Range": f"bytes={len(content)}-"})
    assert (late.status_code, late.headers["content-range"]) == (416, f"bytes */{len(content)}")
    head = served.client.head(url)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(len(content)), b"")


def test_the_room_for_clips_is_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    state = served.client.app.state.prvr  # type: ignore[attr-defined]
    sizes = [len(served.client.get(f"/v1/videos/1/clip?start={n}&end={n + 1}").content) for n in range(2)]
    folder = Path(state.clips._folder.name)
    assert sorted(path.stat().st_size for path in folder.iterdir()) == sorted(sizes)
    monkeypatch.setattr("prvr.server.clips._CACHE_BYTES", 1)
    assert served.client.get("/v1/videos/1/clip?start=2&end=3").status_code == 200
    assert len(list(folder.iterdir())) == 1
    served.client.__exit__(None, None, None)
    assert not folder.exists()
    served.client.__enter__()


def test_clips_that_were_deleted_are_cut_again(served: Served) -> None:
    """A cleaner of temporary files deletes files that are old, and folders that are empty."""
    state = served.client.app.state.prvr  # type: ignore[attr-defined]
    urls = [f"/v1/videos/1/clip?start={start}&end={start + 1}" for start in range(3)]
    sizes = [len(served.client.get(url).content) for url in urls[:2]]
    folder = Path(state.clips._folder.name)
    (folder / "1.mp4").unlink()
    assert len(served.client.get(urls[0]).content) == sizes[0]
    assert state.clips._bytes == sum(sizes)
    shutil.rmtree(folder)
    assert served.client.get(urls[2]).status_code == 200
    assert [len(served.client.get(url).content) for url in urls[:2]] == sizes


@pytest.mark.parametrize(
    ("times", "status", "detail"),
    [
        ("start=3&end=3", 409, "ends before it starts"),
        ("start=5000&end=5001", 409, "s long"),
        ("start=-1&end=3", 422, "start"),
        ("start=nan&end=3", 422, "start"),
        ("start=1", 422, "end"),
        ("start=1&end=2&margin=500", 422, "margin"),
    ],
)
def test_times_that_are_not_a_part_of_the_video(served: Served, times: str, status: int, detail: str) -> None:
    answer = served.client.get(f"/v1/videos/1/clip?{times}")
    assert answer.status_code == status
    assert detail in answer.json()["detail"]


def test_long_clips_are_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prvr.server.clip_routes.LONGEST_CLIP", 2.0)
    answer = served.client.get("/v1/videos/1/clip?start=1&end=2.5&margin=0.5")
    assert (answer.status_code, answer.json()["detail"]) == (409, "A clip of 2 s is too long.")
    assert served.client.get("/v1/videos/1/clip?start=1&end=2.5").status_code == 200


def test_files_that_changed_or_are_no_videos_are_not_cut(served: Served) -> None:
    video = add_film(served, "changed.mkv", 1.0)
    url, body = f"/v1/videos/{video.id}/clip?start=0&end=1", {"video": video.id, "start": 0, "end": 1}
    with open(str(video.path), "ab") as file:
        file.write(b"!")
    for answer in (
        served.client.get(url),
        served.client.post("/v1/export", json={"moments": [body], "format": "film"}),
    ):
        assert answer.status_code == 409
        assert str(served.folder) not in answer.text
    Path(str(video.path)).unlink()
    assert served.client.get(url).status_code == 410
    served.library.add([served.folder / "new" / "broken.mp4"])
    (broken,) = served.library.videos("failed")
    assert served.client.get(f"/v1/videos/{broken.id}/clip?start=0&end=1").status_code == 409
    assert served.client.get("/v1/videos/999/clip?start=0&end=1").status_code == 404


@pytest.mark.parametrize("code", ["os.abort()", "time.sleep(600)"], ids=["crashes", "hangs"])
def test_a_cutter_that_fails_ends_only_its_process(served: Served, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    module = served.folder / "site" / "sitecustomize.py"
    module.parent.mkdir()
    module.write_text(f"import os, sys, time\nif 'clip_server' in ' '.join(sys.orig_argv):\n    {code}\n")
    with monkeypatch.context() as sabotaged:
        sabotaged.setenv("PYTHONPATH", str(module.parent), prepend=":")
        state = served.client.app.state.prvr  # type: ignore[attr-defined]
        sabotaged.setattr(state.clips._cutter._process, "_patience", 1.0)
        answer = served.client.get("/v1/videos/1/clip?start=0&end=1")
        assert answer.status_code == 409
        assert answer.json()["detail"].endswith("the decoder crashed or took too long.")
    assert served.client.get("/v1/videos/1/clip?start=0&end=1").status_code == 200


def exported(served: Served, form: str, moments: list[dict[str, Any]], **more: Any) -> Any:
    return served.client.post("/v1/export", json={"moments": moments, "format": form, **more})


def test_moments_are_exported_as_a_film_and_as_clips(served: Served, tmp_path: Path) -> None:
    other = add_film(served)
    moments = [{"video": other.id, "start": 1, "end": 2}, {"video": 1, "start": 3, "end": 5, "label": "a square"}]
    film = exported(served, "film", moments)
    assert (film.status_code, film.headers["content-type"]) == (200, "video/mp4")
    assert film.headers["content-disposition"] == 'attachment; filename="moments.mp4"'
    info, cut = pictures(saved(film.content, tmp_path), 8.0)
    assert (info.width, info.height) == (320, 180)  # of most seconds
    assert info.duration == pytest.approx(3.0, abs=0.15)
    assert float(cut[4].mean()) == pytest.approx(45, abs=4)
    _, whole = pictures(Path(str(served.library.videos()[0].path)), 8.0)
    assert np.abs(cut[16] - whole[32]).mean() < 3

    packed = exported(served, "clips", moments, margin=0.5)
    assert (packed.status_code, packed.headers["content-type"]) == (200, "application/zip")
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        assert archive.namelist()[0] == "01-other-0.5-2.5.mp4"
        assert len(archive.namelist()) == 3
        assert str(served.folder) not in archive.read("moments.csv").decode()


def test_moments_are_exported_as_tables_and_timelines(served: Served) -> None:
    inner = next(video for video in served.client.get("/v1/videos").json()["videos"] if video["folder"] == "inner")
    moments = [{"video": inner["id"], "start": 1, "end": 2.5, "label": "a red door"}]
    table = exported(served, "csv", moments)
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    (moment,) = parse_moments(table.text)
    assert (str(moment.video), moment.start, moment.end, moment.label) == (inner["name"], 1.0, 2.5, "a red door")
    otio = pytest.importorskip("opentimelineio", reason='timelines need: pip install "prvr[export]"')
    answer = exported(served, "otio", moments)
    (clip,) = otio.adapters.read_from_string(answer.text, "otio_json").find_clips()
    assert clip.media_reference.target_url == inner["name"]
    assert clip.source_range.duration.to_seconds() == pytest.approx(1.5, abs=0.07)
    if "cmx_3600" in otio.adapters.available_adapter_names():
        assert "* COMMENT: a red door" in exported(served, "edl", moments).text


def test_the_longest_export_that_is_allowed_is_accepted(served: Served) -> None:
    moments = [{"video": 1, "start": n / 100, "end": 5.12345, "label": "é" * 500} for n in range(500)]
    answer = exported(served, "csv", moments)
    assert answer.status_code == 200, answer.text
    assert len(parse_moments(answer.text)) == 500
    too_long = served.client.post("/v1/export", content=b" " * (5 << 20), headers={"Content-Type": "application/json"})
    assert too_long.status_code == 413


def test_exports_that_are_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    good = {"video": 1, "start": 0, "end": 1}
    for moments, form, status in (
        ([], "csv", 422),
        ([good], "gif", 422),
        ([{**good, "end": 0}], "csv", 409),
        ([{**good, "start": 5000, "end": 5001}], "csv", 409),
        ([{**good, "video": 999}], "csv", 404),
        ([{**good, "label": "x" * 501}], "csv", 422),
        ([{**good, "path": "/etc/passwd"}], "csv", 422),
        ([good] * 501, "csv", 422),
    ):
        answer = exported(served, form, moments)
        assert answer.status_code == status, answer.text
        assert answer.json()["remedy"]
    monkeypatch.setattr("prvr.server.export_routes.LONGEST_EXPORT", 2.0)
    assert exported(served, "film", [good] * 3).status_code == 409
    assert exported(served, "csv", [good] * 3).status_code == 200


def test_no_file_is_left_behind(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    good = {"video": 1, "start": 0, "end": 1}
    assert exported(served, "film", [good]).status_code == 200
    assert exported(served, "csv", [good]).status_code == 200
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("form", ["clip", "clips", "film"])
def test_no_file_is_left_behind_by_a_cutter_that_was_killed(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    module, folder, begun = served.folder / "site" / "sitecustomize.py", tmp_path / "temporary", tmp_path / "begun"
    for path in (module.parent, folder):
        path.mkdir()
    module.write_text(
        "import os, sys\n"
        "if 'clip_server' in ' '.join(sys.orig_argv):\n"
        "    from prvr.media.clip_writer import ClipWriter\n"
        "    def die(self, picture):\n"
        "        self.file.start_encoding()\n"
        f"        open({str(begun)!r}, 'w').close()\n"
        "        os.kill(os.getpid(), 9)\n"
        "    ClipWriter.picture = die\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(module.parent), prepend=":")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    if form == "clip":
        answer = served.client.get("/v1/videos/1/clip?start=0&end=1")
    else:
        answer = exported(served, form, [{"video": 1, "start": 0, "end": 1}])
    assert (answer.status_code, begun.exists()) == (409, True)
    assert [path.name for path in folder.rglob("*") if not path.name.startswith("prvr-clips-")] == []


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_cutting_ends_where_its_client_goes_away(address: str, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def cut(*anything: object, **options: object) -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    monkeypatch.setattr("prvr.server.clips._Cutter.cut", cut)
    body = json.dumps({"moments": [{"video": 1, "start": 0, "end": 1}], "format": "film"}) if method == "POST" else ""
    url = "/v1/export" if body else "/v1/videos/1/clip?start=0&end=1"
    with closing(http.client.HTTPConnection(address.removeprefix("http://"))) as client:
        client.request(method, url, body, {"Content-Type": "application/json"})
        assert begun.wait(60)
    assert ended.wait(60)


def test_a_browser_plays_a_clip(browser: Any, address: str, tmp_path: Path) -> None:
    """On the page's own site, so that its content-security policy applies."""
    context = browser.new_context(base_url=address)
    page = context.new_page()
    page.goto("/v1/health")
    played = page.evaluate(
        """async () => {
            const video = document.createElement("video");
            video.muted = true;
            video.src = "/v1/videos/1/clip?start=2&end=4";
            document.body.append(video);
            await new Promise((done, failed) => {
                video.onended = done;
                video.onerror = () => failed(new Error(video.error.message));
                video.play().catch(failed);
            });
            return [video.duration, video.videoWidth, video.videoHeight, video.currentTime];
        }"""
    )
    context.close()
    assert played == [pytest.approx(2.0, abs=0.15), 320, 180, pytest.approx(2.0, abs=0.15)]
