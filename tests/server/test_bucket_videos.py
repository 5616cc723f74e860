"""The page and the API of a library whose videos lie in a bucket."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from prvr.library import Library
from prvr.media import BucketPath, load_picture, open_video
from prvr.server import ServerError, ServerOptions, create_app
from tests.s3 import S3Server
from tests.server.conftest import RATE, Served


@pytest.fixture
def bucket(base: Path, s3: S3Server) -> str:
    """An address with two films, one of them in a folder, and a folder ``new`` with one that is not added."""
    address = f"{s3.make_bucket()}/our films"
    first, second, third = sorted((base / "films").glob("*.mp4"))[:3]
    s3.put(f"{address}/one.mp4", first)
    s3.put(f"{address}/in # side/two?.mp4", second)
    s3.put(f"{address}/new/three.mp4", third)
    return address


@pytest.fixture
def served_bucket(bucket: str, tmp_path: Path) -> Iterator[Served]:
    library = Library.create(tmp_path / "library", encoder="plain", rate=RATE)
    library.add([f"{bucket}/one.mp4", f"{bucket}/in # side"])
    options = ServerOptions(roots=(BucketPath(f"{bucket}/new"),))
    with TestClient(create_app(library, options), base_url="http://localhost") as client:
        yield Served(tmp_path, library, client)


def test_media_is_streamed_by_range(served_bucket: Served, base: Path, s3: S3Server) -> None:
    client, whole = served_bucket.client, sorted((base / "films").glob("*.mp4"))[0].read_bytes()
    (video,) = [video for video in client.get("/v1/videos").json()["videos"] if video["filename"] == "one.mp4"]
    answer = client.get(video["media_url"])
    assert (answer.status_code, answer.headers["content-type"]) == (200, "video/mp4")
    assert answer.content == whole
    for first, last in ((0, 0), (100, 299), (len(whole) - 50, len(whole) - 1)):
        part = client.get(video["media_url"], headers={"Range": f"bytes={first}-{last}"})
        assert (part.status_code, part.content) == (206, whole[first : last + 1])
        assert part.headers["content-range"] == f"bytes {first}-{last}/{len(whole)}"
    assert client.get(video["media_url"], headers={"Range": "bytes=-7"}).content == whole[-7:]
    assert client.get(video["media_url"], headers={"Range": f"bytes={len(whole)}-"}).status_code == 416
    assert client.head(video["media_url"]).headers["content-length"] == str(len(whole))


def test_thumbnails_and_search(served_bucket: Served, sentence: str, tmp_path: Path) -> None:
    hits = served_bucket.client.post("/v1/search", json={"query": sentence}).json()["hits"]
    assert {hit["video"]["filename"] for hit in hits} == {"one.mp4", "two?.mp4"}
    for hit in hits:
        picture = served_bucket.client.get(hit["video"]["thumbnail_url"])
        assert (picture.status_code, picture.headers["content-type"]) == (200, "image/jpeg")
        (tmp_path / "picture.jpg").write_bytes(picture.content)
        assert load_picture(tmp_path / "picture.jpg").shape == (180, 320, 3)


def test_clips_and_films_are_cut_from_a_bucket(served_bucket: Served, tmp_path: Path) -> None:
    number = {video.name: video.id for video in served_bucket.library.videos()}
    clip = served_bucket.client.get(f"/v1/videos/{number['two?.mp4']}/clip?start=1&end=3")
    moments = [{"video": each, "start": 1, "end": 2} for each in number.values()]
    film = served_bucket.client.post("/v1/export", json={"moments": moments, "format": "film"})
    for answer in (clip, film):
        assert (answer.status_code, answer.headers["content-type"]) == (200, "video/mp4")
        (tmp_path / "clip.mp4").write_bytes(answer.content)
        with open_video(tmp_path / "clip.mp4") as video:
            assert video.info.duration == pytest.approx(2.0, abs=0.15)


def test_folders_are_named_relative_to_the_bucket(served_bucket: Served, sentence: str, bucket: str) -> None:
    client = served_bucket.client
    folders = {video["filename"]: video["folder"] for video in client.get("/v1/videos").json()["videos"]}
    assert folders == {"one.mp4": "", "two?.mp4": "in # side"}
    assert client.get("/v1/library").json()["folders"] == ["", "in # side"]
    inside = client.post("/v1/search", json={"query": sentence, "filters": {"folder": "in # side"}}).json()
    assert [hit["video"]["filename"] for hit in inside["hits"]] == ["two?.mp4"]
    listed = client.get(f"/v1/videos?folder={quote('in # side')}").json()["videos"]
    assert [video["filename"] for video in listed] == ["two?.mp4"]
    assert bucket not in client.get("/v1/videos").text


def test_folders_of_a_bucket_beside_folders_of_this_machine(
    served_bucket: Served, bucket: str, base: Path, sentence: str
) -> None:
    films = served_bucket.folder / "films" / "here"
    films.mkdir(parents=True)
    shutil.copy(sorted((base / "films").glob("*.mp4"))[4], films / "local.mp4")
    served_bucket.library.add([films])
    client = served_bucket.client
    folders = {video["filename"]: video["folder"] for video in client.get("/v1/videos").json()["videos"]}
    assert folders == {"local.mp4": "", "one.mp4": bucket, "two?.mp4": f"{bucket}/in # side"}
    for folder in (bucket, f"{bucket}/in # side"):
        found = client.post("/v1/search", json={"query": sentence, "filters": {"folder": folder}}).json()["hits"]
        assert {hit["video"]["folder"] for hit in found} == {name for name in folders.values() if folder in name}
        assert found


def test_videos_are_added_from_an_allowed_bucket(served_bucket: Served) -> None:
    client = served_bucket.client
    assert client.get("/v1/folders").json()["folders"] == [{"root": "new", "path": "", "videos": 1}]
    assert client.get("/v1/folders?root=new").status_code == 200
    for wrong, status in (("..", 403), ("/one.mp4", 403), ("nothing", 404)):
        assert client.post("/v1/videos", json={"root": "new", "path": wrong}).status_code == status
    job = client.post("/v1/videos", json={"root": "new"}).json()
    end = time.monotonic() + 60
    while job["state"] not in ("done", "failed", "cancelled"):
        assert time.monotonic() < end
        time.sleep(0.1)
        job = client.get(f"/v1/jobs/{job['id']}").json()
    assert (job["state"], job["report"]["added"]) == ("done", 1)


def test_a_root_that_is_not_in_the_bucket_is_refused(bucket: str) -> None:
    with pytest.raises(ServerError, match="there is no such folder"):
        ServerOptions(roots=(BucketPath(f"{bucket}/nothing"),))


def test_a_file_that_changed_or_went_is_not_served(served_bucket: Served, bucket: str, s3: S3Server) -> None:
    number = {video.name: video.id for video in served_bucket.library.videos()}
    BucketPath(bucket).forget()
    s3.put(f"{bucket}/one.mp4", b"something else")
    assert served_bucket.client.get(f"/v1/videos/{number['one.mp4']}/media").status_code == 409
    s3.delete(f"{bucket}/one.mp4")
    assert served_bucket.client.get(f"/v1/videos/{number['one.mp4']}/media").status_code == 410


def test_a_store_that_is_away_is_said_without_its_address(
    served_bucket: Served, bucket: str, s3: S3Server, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, number = served_bucket.client, served_bucket.library.videos()[0].id
    s3.before = lambda path: "403 Forbidden"
    BucketPath(bucket).forget()
    for what in ("media", "thumbnail", "clip?start=0&end=1"):
        answer = client.get(f"/v1/videos/{number}/{what}")
        assert answer.status_code in (409, 410, 503)
        assert bucket.split("/")[2] not in answer.text, answer.text
    assert client.post("/v1/search", json={"query": sentence}).json()["hits"]  # which needs no video
    s3.before = lambda path: None
    assert client.get(f"/v1/videos/{number}/media").status_code == 200
