"""A split of a collection: ids, labels, and batches of tensors.

    train = Dataset.load("data", "charades", "train")
    for rows in epoch_batches(len(train), 128, seed=0, epoch=0):
        batch = train.train_batch(rows)  # TrainBatch: videos, all their queries, labels

Features are read and resampled the first time; every later batch is gathered from memory-mapped tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from prvr.data.auxiliary import AuxiliaryCaptions, load_auxiliary
from prvr.data.captions import Caption, Moment, read_captions, read_moments, read_positives
from prvr.data.feature_tables import FeatureTables, TableSettings
from prvr.data.layout import Collection
from prvr.data.preparation import prepare_tables
from prvr.tokens import SAME_WORDS, FeatureRule, QueryBatch, TrainBatch, VideoBatch

_Name = TypeVar("_Name")
_QUERIES_AT_ONCE = 2048  # compared with all others


@dataclass(frozen=True)
class Dataset:
    """One split: videos in the order in which the caption file first names them, queries in the order of its lines."""

    collection: str
    split: str
    video_ids: tuple[str, ...]
    captions: tuple[Caption, ...]
    query_video: Tensor  # (Q,) row of the video each query describes
    positives: list[tuple[int, ...]]  # per query: rows of all correct videos
    moments: dict[str, Moment] | None  # by query id
    tables: FeatureTables
    auxiliary: AuxiliaryCaptions | None = None  # captions of the videos, for methods that read them
    visual_feature: str = ""  # name of the frame features

    @staticmethod
    def load(
        root: str | Path,
        collection: str,
        split: str,
        *,
        visual_feature: str | None = None,
        clips: int = 32,
        frames: int = 128,
        words: int = 30,
        rule: FeatureRule = "standard",
        caption_slots: int = 0,
        cache_dir: str | Path | None = None,
    ) -> Dataset:
        """Load one split. The first time, all features are resampled and cached; later the cache is memory-mapped.

        Args:
            root: the folder that holds the collection, or the collection's own folder.
            collection: its name, such as ``charades``.
            split: ``train``, ``val`` or ``test``.
            visual_feature: the folder under FeatureData; the standard or only one by default.
            clips: clips per video.
            frames: most frames per video.
            words: most words per query.
            rule: how frames are resampled (``prvr.data.rules``); methods differ.
            caption_slots: auxiliary captions per video; 0 reads none, otherwise their file must exist.
            cache_dir: where resampled features are kept; next to the data by default.
        """
        files = Collection.find(root, collection, visual_feature)
        captions = tuple(read_captions(files.captions(split)))
        video_ids = tuple(dict.fromkeys(caption.video for caption in captions))
        row_of = {video: row for row, video in enumerate(video_ids)}
        query_video = torch.tensor([row_of[caption.video] for caption in captions])
        cache = Path(cache_dir) if cache_dir else None
        positives_file, moments_file = files.positives(split), files.moments(split)
        listed = read_positives(positives_file) if positives_file else {}
        return Dataset(
            collection=collection,
            split=split,
            video_ids=video_ids,
            captions=captions,
            query_video=query_video,
            positives=[_rows(listed.get(caption.id, ()), row_of, row_of[caption.video]) for caption in captions],
            moments=read_moments(moments_file) if moments_file else None,
            tables=prepare_tables(
                files,
                split,
                video_ids,
                [caption.id for caption in captions],
                TableSettings(clips, frames, words, rule),
                cache,
            ),
            auxiliary=load_auxiliary(files, split, video_ids, slots=caption_slots, words=words, cache_dir=cache)
            if caption_slots
            else None,
            visual_feature=files.visual_feature,
        )

    def __len__(self) -> int:
        return len(self.video_ids)

    @property
    def query_ids(self) -> tuple[str, ...]:
        return tuple(caption.id for caption in self.captions)

    @property
    def visual_width(self) -> int:
        return self.tables.frames.shape[1]

    @property
    def query_width(self) -> int:
        return self.tables.words.shape[1]

    @property
    def clips(self) -> int:
        """Clips per video."""
        return self.tables.clips.shape[1]

    def video_batch(self, rows: Tensor | Sequence[int]) -> VideoBatch:
        """Some videos, in the order given, frames padded to the longest of them."""
        rows = _as_rows(rows)
        frames, mask = self.tables.frame_batch(rows)
        ids = tuple(self.video_ids[row] for row in rows.tolist())
        captions, caption_mask = (None, None) if self.auxiliary is None else self.auxiliary.batch(rows)
        clips, sizes = self.tables.clip_batch(rows), self.tables.size_batch(rows)
        return VideoBatch(frames, mask, clips, ids, captions, caption_mask, sizes)

    def query_batch(self, rows: Tensor | Sequence[int]) -> QueryBatch:
        """Some queries, in the order given, words padded to the longest of them."""
        rows = _as_rows(rows)
        tokens, mask = self.tables.word_batch(rows)
        ids = tuple(self.captions[row].id for row in rows.tolist())
        return QueryBatch(tokens, mask, ids)

    @cached_property
    def usual_meaning(self) -> Tensor:
        """The mean query, (Dq,)."""
        return torch.cat([batch.mean_words() for batch in self.query_batches()]).mean(0)

    def described_by(self, alike: float = 0.0) -> Tensor:
        """Which videos a query describes, by the queries that were written for them: (Q, V) bool.

        Its own video always; those that another query describes word for word the same; and, with ``alike``, those
        with a query of at least that cosine (mean words, without the mean query).
        """
        sentences = [caption.words or caption.id for caption in self.captions]
        number = {sentence: row for row, sentence in enumerate(dict.fromkeys(sentences))}
        numbers = torch.tensor([number[sentence] for sentence in sentences], device=self.tables.words.device)
        rows = self.query_video.to(numbers.device)
        described = torch.zeros(len(number), len(self), dtype=torch.bool, device=numbers.device)
        described[numbers, rows] = True
        described = described[numbers]
        if alike:
            meanings = torch.cat([batch.meanings(self.usual_meaning) for batch in self.query_batches()])
            for first in range(0, len(meanings), _QUERIES_AT_ONCE):
                cosines = meanings[first : first + _QUERIES_AT_ONCE] @ meanings.T
                query, other = (cosines >= min(alike, SAME_WORDS)).nonzero(as_tuple=True)
                described[first + query, rows[other]] = True
        return described

    def train_batch(self, rows: Tensor | Sequence[int], draw: Callable[[Tensor], Tensor] | None = None) -> TrainBatch:
        """Some videos with all their queries.

        Videos are sorted by number of frames, longest first and ties in the order given; queries follow video by video.
        ``draw`` chooses negatives of queries, (Q,) → (Q, S) rows of videos; those not in the batch are appended to it.
        """
        rows = _as_rows(rows)
        rows = rows[self.tables.frame_count[rows].sort(descending=True, stable=True).indices]
        queries, labels = self._queries_of(rows)
        negatives: Tensor | None = None
        if draw is not None:
            drawn = draw(queries)
            new = torch.tensor(sorted(set(drawn.flatten().tolist()) - set(rows.tolist())), dtype=torch.long)
            rows = torch.cat([rows, new])
            position = torch.empty(len(self), dtype=torch.long).scatter(0, rows, torch.arange(len(rows)))
            negatives = position[drawn]
        videos = self.video_batch(rows)
        return TrainBatch(videos, self.query_batch(queries), labels, negatives).to(videos.frames.device)

    def video_batches(self, size: int = 100) -> Iterator[VideoBatch]:
        """All videos in order."""
        for rows in torch.split(torch.arange(len(self)), size):
            yield self.video_batch(rows)

    def query_batches(self, size: int = 500) -> Iterator[QueryBatch]:
        """All queries in order."""
        for rows in torch.split(torch.arange(len(self.captions)), size):
            yield self.query_batch(rows)

    def to(self, device: torch.device | str) -> Dataset:
        """Put the features on a device, where batches are then assembled without copies from the host."""
        captions = None if self.auxiliary is None else self.auxiliary.to(device)
        return replace(self, tables=self.tables.to(device), auxiliary=captions)

    def subset(self, video_rows: Tensor | Sequence[int]) -> Dataset:
        """Some videos, in the order given, with their queries; for example a held-out part. Features are shared."""
        videos = _as_rows(video_rows)
        new_row = {int(old): new for new, old in enumerate(videos.tolist())}
        if len(new_row) != len(videos):
            raise ValueError("a subset names a video twice; give each row once")
        queries = torch.tensor([q for q, v in enumerate(self.query_video.tolist()) if v in new_row], dtype=torch.long)
        owners = [new_row[video] for video in self.query_video[queries].tolist()]
        captions = tuple(self.captions[query] for query in queries.tolist())
        kept = [_rows(self.positives[q], new_row, owner) for q, owner in zip(queries.tolist(), owners, strict=True)]
        return replace(
            self,
            video_ids=tuple(self.video_ids[row] for row in videos.tolist()),
            captions=captions,
            query_video=torch.tensor(owners, dtype=torch.long),
            positives=kept,
            tables=self.tables.select(videos, queries),
            auxiliary=None if self.auxiliary is None else self.auxiliary.select(videos),
        )

    def _queries_of(self, videos: Tensor) -> tuple[Tensor, Tensor]:
        """All queries of some videos, (Q,), grouped by video, in file order within one; and their videos' positions."""
        owners, queries = self._queries_by_video
        starts = torch.searchsorted(owners, videos)
        counts = torch.searchsorted(owners, videos, right=True) - starts
        labels = torch.arange(len(videos)).repeat_interleave(counts)
        within = torch.arange(len(labels)) - (counts.cumsum(0) - counts)[labels]
        return queries[starts[labels] + within], labels

    @cached_property
    def _queries_by_video(self) -> tuple[Tensor, Tensor]:
        """The queries grouped by video: the video row of each, ascending, (Q,), and the query rows, (Q,)."""
        grouped = self.query_video.sort(stable=True)
        return grouped.values, grouped.indices


def _rows(names: Sequence[_Name], row_of: Mapping[_Name, int], own: int) -> tuple[int, ...]:
    """Rows of the names that are in the gallery; the query's own video if none of them is."""
    return tuple(row_of[name] for name in names if name in row_of) or (own,)


def _as_rows(rows: Tensor | Sequence[int]) -> Tensor:
    return torch.as_tensor(rows, dtype=torch.long, device="cpu")
