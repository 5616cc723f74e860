"""``prvr library`` and ``prvr search`` with videos in a bucket: what they print, how they fail."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world
from tests.cli.test_library import said
from tests.s3 import S3Server


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    return render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])


@pytest.fixture
def bucket(films: RenderedWorld, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address with four films."""
    monkeypatch.setenv("PRVR_LIBRARY", str(tmp_path / "library"))
    address = f"{s3.make_bucket()}/films"
    for number, path in enumerate(sorted(films.videos.values())[:4]):
        s3.put(f"{address}/{'some' if number < 2 else 'other films'}/{path.name}", path)
    return address


def test_a_library_from_adding_to_removing(bucket: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "4 added" in said(capsys, "library", "add", bucket, "--encoder", "plain", "--rate", "2")
    assert "4 unchanged" in said(capsys, "library", "add", f"{bucket}/")
    listed = json.loads(said(capsys, "library", "list", "--json"))
    assert {video["path"].rpartition("/")[0] for video in listed} == {f"{bucket}/some", f"{bucket}/other films"}
    text = said(capsys, "search", "a red square", "--folder", f"{bucket}/other films")
    assert text.count(f"{bucket}/other films") == 2
    assert f"{bucket}/some" not in text
    said(capsys, "search", "a red square", "--limit", "1", "--export", str(tmp_path / "clips"))
    assert len(list((tmp_path / "clips").glob("*.mp4"))) == 1
    assert "everything is complete" in said(capsys, "library", "verify")
    assert "removed 2 videos" in said(capsys, "library", "remove", f"{bucket}/some")
    assert "removed 0 videos" in said(capsys, "library", "remove", "--missing")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3://no-such-bucket/films", "error: s3://no-such-bucket: there is no such bucket; create it, or correct"),
        ("s3://KEY:secret@films/a", "error: s3://…: leave keys out of the address; set them in the environment"),
        ("https://example.org/a.mp4", "videos are read from disks, and from s3://, gs:// and az://"),
    ],
)
def test_an_address_that_cannot_be_used(
    bucket: str, capsys: pytest.CaptureFixture[str], address: str, message: str, tmp_path: Path
) -> None:
    assert message in said(capsys, "library", "add", address, code=1)
    assert not (tmp_path / "library").exists()


def test_a_folder_without_videos(bucket: str, capsys: pytest.CaptureFixture[str], s3: S3Server) -> None:
    s3.put(f"{bucket}/texts/a.txt", b"text")
    assert "no video was found in the given paths" in said(capsys, "library", "add", f"{bucket}/texts", code=1)
    assert f"{bucket}/none does not exist" in said(capsys, "library", "add", f"{bucket}/none", code=1)


def test_a_store_that_denies_or_does_not_answer(bucket: str, capsys: pytest.CaptureFixture[str], s3: S3Server) -> None:
    s3.require_keys()
    assert "access is denied; check the keys in the environment" in said(capsys, "library", "add", bucket, code=1)
    s3.require_keys(False)
    s3.stop()
    assert "no server answers" in said(capsys, "library", "add", bucket, code=1)
    s3.start()
    assert main(["library", "add", bucket, "--encoder", "plain", "--rate", "2"]) == 0


def test_a_store_that_goes_away_while_videos_are_added(
    bucket: str, capsys: pytest.CaptureFixture[str], s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prvr.media.bucket_files._TRIES", 2)

    def leave(path: str) -> None:
        if "/some/" in path and s3.running:
            s3.stop()

    s3.before = leave
    text = said(capsys, "library", "add", bucket, "--encoder", "plain", "--rate", "2", code=1)
    assert "finished videos are kept, and the same command continues from here" in text
    assert "no server answers" in text
    s3.before = lambda path: None
    s3.start()
    text = said(capsys, "library", "add", bucket)
    assert sum(map(int, re.findall(r"(\d) (?:added|unchanged)", text))) == 4  # how many were finished before is chance
