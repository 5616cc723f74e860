"""A lake of videos that lie in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from prvr.lake import create_library, open_library
from prvr.library import Filters, Library, LibrarySettings
from prvr.media import BucketPath
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world
from tests.s3 import S3Server

pytest.importorskip("lance", reason='Lance is not installed: pip install "prvr[scale]"')
SENTENCE = "a red square moves to the left"


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    return render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])


@pytest.mark.parametrize("place", ["disk", "s3"])
def test_answers_are_those_of_the_same_files_on_a_disk(
    films: RenderedWorld, s3: S3Server, tmp_path: Path, place: str
) -> None:
    paths = sorted(films.videos.values())[:4]
    bucket = s3.make_bucket()
    for path in paths:
        s3.put(f"{bucket}/some # films/{path.name}", path)
    local = Library.create(tmp_path / "local", encoder="plain", rate=2.0)
    local.add(paths)
    address = str(tmp_path / "films.lance") if place == "disk" else f"{bucket}/library.lance"
    lake = create_library(address, LibrarySettings("plain", rate=2.0))
    assert lake.add([f"{bucket}/some # films"]).failed == {}
    lake = open_library(address)
    assert {str(video.path) for video in lake.videos()} == {f"{bucket}/some # films/{path.name}" for path in paths}
    found = [
        [(hit.video.name, hit.start, hit.end, hit.score) for hit in each.search(SENTENCE)] for each in (lake, local)
    ]
    assert found[0] == found[1]
    assert len(lake.search(SENTENCE, filters=Filters(folder=BucketPath(f"{bucket}/some # films")))) == 4
    assert len(lake.add([f"{bucket}/some # films"]).unchanged) == 4
    assert lake.verify().missing == []
    assert len(lake.remove([f"{bucket}/some # films/{paths[0].name}"])) == 1
    assert len(lake.videos()) == 3
