"""The sections of a track: what a search scores and explains.

A section is a stretch of a video that is stored and scored as one gallery row. Short videos have one section, long
ones several. A search asks three things of a track: whose sections there are (``owners``, ``by_video``), their vectors
(``blocks``), and how background sentences score on them (``background_scores``). ``TrackSections`` is this interface;
``ShardSections`` reads arrays of a folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from prvr.library.errors import DamagedVectors
from prvr.library.store.arrays import Section
from prvr.library.store.background import Background, background_of, best_by_video, soft_best
from prvr.library.store.blocks import BlockRows, Ids, KeptFrames
from prvr.library.store.shard_files import UnreadableShard
from prvr.library.store.shards import StoredShard

_TOGETHER = 1 << 14  # sections whose background scores are read together
_CHECKED_BYTES = 1 << 25  # of vectors whose checksums one search compares
_STRANGE = 4.0  # times the usual background score: a section that has more is looked at closely


@dataclass(frozen=True, eq=False)
class SectionsByVideo:
    """Sections grouped by video, in order of video number. Those of one video stand in order of time."""

    numbers: Ids  # (S,) section numbers in the track
    videos: Ids  # (V,) video numbers, ascending
    starts: Ids  # (V + 1,) where each video's sections begin in ``numbers``, then the end of the last

    @staticmethod
    def of(owners: Ids) -> SectionsByVideo:
        """Group all sections of a track by their owners (S,)."""
        order = np.argsort(owners, kind="stable")
        videos, first = np.unique(owners[order], return_index=True)
        return SectionsByVideo(order, videos, np.append(first, len(owners)))

    def __len__(self) -> int:
        return len(self.numbers)

    def column(self, video: int) -> int | None:
        """The place of a video in ``videos``, or None if it has no sections here."""
        place = int(np.searchsorted(self.videos, video))
        return place if place < len(self.videos) and self.videos[place] == video else None

    def of_video(self, video: int) -> tuple[int, ...]:
        """Section numbers of one video; empty if it has none."""
        place = self.column(video)
        return () if place is None else tuple(self.numbers[self.starts[place] : self.starts[place + 1]].tolist())

    def of_videos(self, videos: Ids) -> SectionsByVideo:
        """The sections of these videos. Videos without sections are ignored."""
        chosen = np.unique(videos)
        places = np.searchsorted(self.videos, chosen)
        present = places < len(self.videos)
        present[present] = self.videos[places[present]] == chosen[present]
        places = places[present]
        first, counts = self.starts[places], self.starts[places + 1] - self.starts[places]
        starts = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
        return SectionsByVideo(self.numbers[np.repeat(first, counts) + within], self.videos[places], starts)

    def without(self, videos: Ids) -> SectionsByVideo:
        """The sections of all other videos."""
        return self.of_videos(np.setdiff1d(self.videos, videos)) if len(videos) else self

    def best(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """The best section's score of each video: (S,) → (V,)."""
        if len(self.videos) == len(self):
            return scores
        best: NDArray[np.float32] = np.maximum.reduceat(scores, self.starts[:-1])
        return best


class TrackSections(ABC):
    """All sections of one track. A section's number is its place in these arrays.

    The sections of a video have ascending numbers, in order of time.
    """

    owners: Ids  # (S,) the video of each section
    tokens: Ids  # (S,) how many tokens it has
    fusion_weight: float  # λ: how much TRACE's evidence adds to the base score

    @abstractmethod
    def blocks(self, numbers: Ids | None = None) -> Iterator[BlockRows]:
        """The sections with these numbers, or all: block after block, because all may not fit into memory.

        What a score does not need may be left out: see ``kept_frames`` and ``sections_of``.
        """

    def whole_blocks(self, numbers: Ids) -> Iterator[BlockRows]:
        """The sections with these numbers, in blocks with all that is stored of them."""
        return self.blocks(numbers)

    def kept_frames(self, numbers: Ids) -> list[KeptFrames] | None:
        """What a witness reads of the sections with these numbers; None if it is not stored of all of them."""
        found: dict[int, KeptFrames | None] = {}
        for places, block, rows in self.whole_blocks(numbers):
            found |= {place: block.witness_of(row) for place, row in zip(places.tolist(), rows.tolist(), strict=True)}
        kept = [found[place] for place in range(len(numbers))]
        known = [each for each in kept if each is not None]
        return known if len(known) == len(kept) else None

    def damaged(self, videos: Iterable[int]) -> set[int]:
        """Those of some videos whose vectors are known not to be what was written."""
        return set()

    def without(self, videos: Iterable[int]) -> TrackSections | None:
        """The sections of all other videos; None if there are none."""
        raise DamagedVectors(videos)  # this kind of library cannot leave them out

    @abstractmethod
    def background_scores(self, numbers: Ids) -> NDArray[np.float32]:
        """(n, B, 2): base score and TRACE evidence of every background sentence on these sections."""

    def __len__(self) -> int:
        return len(self.owners)

    def sections_of(self, video: int) -> list[Section]:
        """What is stored of a video, in order of time."""
        numbers = np.array(self.by_video.of_video(video), np.int64)
        background = self.background_scores(numbers)
        found: dict[int, Section] = {}
        for places, block, rows in self.whole_blocks(numbers):
            for place, row in zip(places.tolist(), rows.tolist(), strict=True):
                found[place] = block.section(row, int(self.tokens[numbers[place]]), background[place])
        return [found[place] for place in range(len(numbers))]

    def tokens_of_video(self, video: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Start and end of each local token of a video in seconds (m, 2), and the tokens (m, D), in order of time."""
        numbers = np.array(self.by_video.of_video(video), np.int64)
        found: dict[int, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}
        for places, block, rows in self.blocks(numbers):
            for place, row in zip(places.tolist(), rows.tolist(), strict=True):
                count = int(self.tokens[numbers[place]])
                found[place] = block.spans_of(row, count), block.tokens_of(row, count)
        spans, tokens = zip(*(found[place] for place in range(len(numbers))), strict=True)
        return np.concatenate(spans), np.concatenate(tokens)

    @cached_property
    def by_video(self) -> SectionsByVideo:
        return SectionsByVideo.of(self.owners)

    @cached_property
    def understood(self) -> NDArray[np.bool_]:
        """(B,): the background sentences that the encoder understands something of."""
        understood: NDArray[np.bool_] = np.logical_or.reduce(
            [(scores[..., 0] != 0).any(0) for _, scores, _ in self.background_parts(self.by_video)]
        )
        return understood

    @cached_property
    def background(self) -> Background:
        """What background sentences score on all videos, with TRACE."""
        return self.background_on(self.by_video, self.fusion_weight)

    @cached_property
    def plain_background(self) -> Background:
        """The same without TRACE."""
        return self.background_on(self.by_video, 0.0)

    def background_on(self, sections: SectionsByVideo, weight: float) -> Background:
        """The same on some videos; ``weight``: λ, how much TRACE's evidence counts."""
        parts = (best_by_video(scores, starts, weight) for _, scores, starts in self.background_parts(sections))
        return background_of(parts, self.understood)

    def score_with_everybody(self, sections: SectionsByVideo, weight: float) -> NDArray[np.float32]:
        """(V,): a soft maximum of what background sentences score on these videos; those of all videos are kept."""
        if sections is not self.by_video and weight not in self._with_everybody:
            return self._soft_best(sections, weight)
        if weight not in self._with_everybody:
            self._with_everybody[weight] = self._soft_best(self.by_video, weight)
        return self._with_everybody[weight][np.searchsorted(self.by_video.videos, sections.videos)]

    def keep_scores_with_everybody(self, previous: TrackSections) -> None:
        """Take over those of an earlier version of the library, and compute those of new videos."""
        videos, before = self.by_video.videos, previous.by_video.videos
        known = np.isin(videos, before)
        for weight, scores in previous._with_everybody.items():
            found = np.empty(len(videos), np.float32)
            found[known] = scores[np.searchsorted(before, videos[known])]
            found[~known] = self._soft_best(self.by_video.of_videos(videos[~known]), weight)
            self._with_everybody[weight] = found

    def _soft_best(self, sections: SectionsByVideo, weight: float) -> NDArray[np.float32]:
        parts = (best_by_video(scores, starts, weight) for _, scores, starts in self.background_parts(sections))
        return np.concatenate([np.zeros(0, np.float32), *(soft_best(part[:, self.understood]) for part in parts)])

    @cached_property
    def _with_everybody(self) -> dict[float, NDArray[np.float32]]:
        return {}

    def background_parts(self, sections: SectionsByVideo) -> Iterator[tuple[Ids, NDArray[np.float32], Ids]]:
        """Videos (v,), scores of their sections (n, B, 2), and where each video begins (v,); a part at a time.

        No video is divided between two parts.
        """
        first = 0
        while first < len(sections.videos):
            begin = sections.starts[first]
            last = max(first + 1, int(np.searchsorted(sections.starts, begin + _TOGETHER, side="right")) - 1)
            scores = self.background_scores(sections.numbers[begin : sections.starts[last]])
            yield sections.videos[first:last], scores, sections.starts[first:last] - begin
            first = last


class ShardSections(TrackSections):
    """Sections in the shards of a folder, shard after shard."""

    def __init__(self, shards: Sequence[StoredShard], columns: Sequence[Ids]):
        """From shards, and for the rows of each shard their owners, token counts and checksums (or -1), (rows, 3)."""
        self.shards = tuple(shards)
        self.columns = tuple(columns)
        self.owners, self.tokens, self.checksums = np.concatenate(columns).T
        self.shard: Ids = np.repeat(np.arange(len(shards)), [len(shard.rows) for shard in shards])  # (S,) its shard
        self.row: Ids = np.concatenate([shard.rows for shard in shards])  # (S,) its row in that shard
        self.fusion_weight = float(self.shards[0].about["trace"]["fusion_weight"])
        self._checked: set[int] = set()  # videos whose checksums were compared

    def is_whole(self) -> bool:
        """Whether the files are still as long as they were."""
        return all(shard.is_whole() for shard in self.shards)

    def damaged(self, videos: Iterable[int]) -> set[int]:
        """Compares the checksums of these videos. If one differs, also those of all others in its shard.

        What was compared once is not compared again, and no more than some megabytes are read for one call.
        """
        found: set[int] = set()
        read = 0
        for video in videos:
            numbers = self.by_video.of_video(video)
            if video in self._checked or read > _CHECKED_BYTES:
                continue
            self._checked.add(video)
            read += sum(self._bytes(number) for number in numbers)
            for number in numbers:
                if not self._is_right(number):
                    found.update(self._damaged_in(int(self.shard[number])))
        return found

    def without(self, videos: Iterable[int]) -> ShardSections | None:
        shards, columns = [], []
        for shard, of_shard in zip(self.shards, self.columns, strict=True):
            kept = ~np.isin(of_shard[:, 0], [*videos])
            if not kept.all():
                shard.files.forget()  # so that files that are restored are read again
            if kept.any():
                shards.append(shard.holding(shard.rows[kept]))
                columns.append(of_shard[kept])
        return ShardSections(shards, columns) if shards else None

    def shards_of(self, videos: Iterable[int]) -> set[int]:
        """The numbers of the shards that hold sections of some videos."""
        places = np.unique(self.shard[np.isin(self.owners, [*videos])])
        return {self.shards[place].id for place in places.tolist()}

    def _damaged_in(self, place: int) -> set[int]:
        numbers = np.flatnonzero(self.shard == place)
        return {int(self.owners[number]) for number in numbers if not self._is_right(int(number))}

    def _is_right(self, number: int) -> bool:
        expected = int(self.checksums[number])
        try:
            return expected < 0 or self.shards[self.shard[number]].checksum(int(self.row[number])) == expected
        except UnreadableShard:
            return False

    def _bytes(self, number: int) -> int:
        return int(self.shards[self.shard[number]].row_bytes[self.row[number]])

    @contextmanager
    def reading(self, place: int) -> Iterator[None]:
        """Videos that cannot be read, because files were cut since they were opened or the disk fails, are damaged."""
        try:
            yield
        except UnreadableShard:
            shard, owners = self.shards[place], self.columns[place][:, 0]
            raise DamagedVectors(owners[np.isin(shard.rows, shard.unreadable())].tolist()) from None

    @cached_property
    def starts(self) -> Ids:
        """(shards + 1,): the number of each shard's first section, then the count of all sections."""
        return np.cumsum([0, *(len(shard.rows) for shard in self.shards)])

    def blocks(self, numbers: Ids | None = None) -> Iterator[BlockRows]:
        for place, places, rows in self._by_shard(np.arange(len(self)) if numbers is None else numbers):
            with self.reading(place):
                yield from self.shards[place].blocks(places, rows)

    def whole_blocks(self, numbers: Ids) -> Iterator[BlockRows]:
        for place, places, rows in self._by_shard(numbers):
            with self.reading(place):
                yield BlockRows(places, self.shards[place].take(rows, whole=True), np.arange(len(rows)))

    def kept_frames(self, numbers: Ids) -> list[KeptFrames] | None:
        found: dict[int, KeptFrames] = {}
        for place, places, rows in self._by_shard(numbers):
            with self.reading(place):
                kept = self.shards[place].kept_frames(rows)
            if kept is None:
                return None
            found.update(zip(places.tolist(), kept, strict=True))
        return [found[place] for place in range(len(numbers))]

    def _by_shard(self, numbers: Ids) -> Iterator[tuple[int, Ids, Ids]]:
        """Each shard that holds some of these sections, their places among them, and their rows in the shard."""
        for place in range(len(self.shards)):
            here = np.flatnonzero(self.shard[numbers] == place)
            if len(here):
                yield place, here, self.row[numbers[here]]

    def background_scores(self, numbers: Ids) -> NDArray[np.float32]:
        return self._all_background_scores[numbers]

    @cached_property
    def _all_background_scores(self) -> NDArray[np.float32]:
        parts = []
        for place, shard in enumerate(self.shards):
            with self.reading(place):
                parts.append(shard.background()[shard.rows])
        found = np.concatenate(parts)
        highest = np.abs(found).reshape(len(found), -1).max(1, initial=0.0)
        finite = np.isfinite(highest)
        usual = float(np.median(highest[finite])) if finite.any() else 0.0
        strange = np.flatnonzero(~(highest <= _STRANGE * usual + 1.0))  # these would change every answer
        wrong = {int(self.owners[n]) for n in strange if not finite[n] or not self._is_right(int(n))}
        if wrong:
            raise DamagedVectors(wrong)
        return found
