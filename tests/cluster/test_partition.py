"""How a library is divided into shards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prvr.cluster.partition import assign_videos, cut_sections, only_videos
from prvr.library import Library, TrackQuery, TrackSections, score_queries
from tests.cluster.made import QUERIES, open_made_library


@pytest.fixture
def library(made_folder: Path) -> Library:
    return open_made_library(made_folder)


@pytest.mark.parametrize("shards", [1, 3, 400])
def test_every_video_is_in_one_shard(library: Library, shards: int) -> None:
    snapshot = library.snapshot()
    videos = assign_videos(snapshot, shards)
    assert len(videos) == shards
    owners = {owner for sections in snapshot.tracks.values() for owner in sections.owners.tolist()}
    assert sorted(np.concatenate(videos).tolist()) == sorted(owners)
    for sections in snapshot.tracks.values():
        cut = [part for of_shard in videos if (part := cut_sections(sections, of_shard)) is not None]
        assert sum(map(len, cut)) == len(sections)


def test_shards_hold_about_the_same_number_of_tokens(library: Library) -> None:
    snapshot = library.snapshot()
    tokens = [
        sum(int(sections.tokens[np.isin(sections.owners, videos)].sum()) for sections in snapshot.tracks.values())
        for videos in assign_videos(snapshot, 3)
    ]
    assert max(tokens) - min(tokens) <= sum(tokens) / 30


def test_an_empty_library_has_empty_shards(tmp_path: Path) -> None:
    snapshot = Library.create(tmp_path / "empty").snapshot()
    assert [len(videos) for videos in assign_videos(snapshot, 2)] == [0, 0]


def scores(library: Library, sections: TrackSections) -> np.ndarray:
    vector = library.encode("frames", QUERIES[:1])[0]
    return score_queries([TrackQuery(vector, 0.1, sections.by_video)], sections, library.pool)[0]


@pytest.mark.parametrize("chosen", [range(40, 80), range(1, 160, 3)], ids=["neighbours", "scattered"])
def test_a_part_holds_the_sections_of_its_videos(library: Library, chosen: range) -> None:
    """By both ways: with all arrays mapped as they are, and with arrays that hold nothing else."""
    snapshot, videos = library.snapshot(), np.array(chosen)
    whole = snapshot.tracks["frames"]
    part = only_videos(snapshot, videos)
    assert sorted(part.videos) == list(chosen)
    cut = cut_sections(whole, videos)
    assert cut is not None
    expected = scores(library, whole)[np.isin(whole.by_video.videos, videos)]
    for sections in (part.tracks["frames"], cut):
        assert set(sections.owners.tolist()) <= set(chosen)
        assert scores(library, sections) == pytest.approx(expected, abs=1e-6)
        assert sections.background_scores == pytest.approx(whole.background_scores[np.isin(whole.owners, videos)])
        assert sections.tokens.tolist() == whole.tokens[np.isin(whole.owners, videos)].tolist()
    assert sum(len(shard.gallery) for shard in cut.shards) == len(cut)
    spans = [shard.spans[shard.spans[:, 1] > 0] for shard in cut.shards]
    assert sum(map(len, spans)) == cut.tokens.sum()


def test_neighbours_stay_mapped(library: Library) -> None:
    whole = library.snapshot().tracks["frames"]
    cut = cut_sections(whole, assign_videos(library.snapshot(), 4)[1])
    assert cut is not None
    mapped = {shard.gallery.local.values.untyped_storage().data_ptr() for shard in whole.shards}
    assert {shard.gallery.local.values.untyped_storage().data_ptr() for shard in cut.shards} <= mapped
