"""Fourth step of a search: the evidence over time of the videos on the page, and the moments cut from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prvr.library.search.moment_rank import line_moments, rank_moments
from prvr.library.search.moments import Curve, FoundMoment, MomentOptions, find_moments
from prvr.library.search.rank import RankedVideo, Ranking
from prvr.library.search.score import BlockPairs, SectionScorer
from prvr.library.search.witness import WordsOverTime, words_over_time
from prvr.library.search.words import WORDS, TextMatch
from prvr.library.store.background import Floats
from prvr.library.store.blocks import SectionBlock
from prvr.library.store.sections import TrackSections
from prvr.library.store.snapshot import Snapshot
from prvr.scoring import RowEvidence
from prvr.trace import Peaked

if TYPE_CHECKING:
    from prvr.library.ingest.witness import SentenceWords

_CURVES = ("direct", "expected_support", "routed", "value")


@dataclass(frozen=True)
class MomentEvidence(Peaked):
    """The evidence of one query in one video: curves with a value for each token, in order of time."""

    spans: NDArray[np.float32]  # (m, 2) start and end of each token in seconds
    direct: Curve  # (m,) similarity of the query and the token
    expected_support: Curve  # (m,) what the anchors lend, on the cosine scale
    routed: Curve  # (m,) direct evidence with the support that is routed to it
    value: Curve  # (m,) each token's share in the score: moments are ranked by it
    activation: Curve  # (R,) how much the query activates each anchor of the best section
    sections: tuple[tuple[float, float], ...] = ()  # start and end of each, if a long video has several
    words: WordsOverTime | None = None  # what each word of a sentence sees; with the witness of a trained model only

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        curves = {
            "direct": self.direct,
            "support": self.expected_support,
            "routed": self.routed,
            "activation": self.activation,
        }
        return {
            "spans": [[round(float(start), 3), round(float(end), 3)] for start, end in self.spans],
            **{name: curve.round(4).tolist() for name, curve in curves.items()},
            "direct_peak": self.direct_peak,
            "routed_peak": self.routed_peak,
            "unsupported_gap": round(self.unsupported_gap, 4),
            "sections": [[round(start, 3), round(end, 3)] for start, end in self.sections],
            **({} if self.words is None else {"words": self.words.to_dict()}),
        }


@dataclass(frozen=True, eq=False)
class EvidenceRequest:
    """A query vector (D,), the sections of one video to look at, λ, what is taken off its score, and the words."""

    query: Floats
    sections: tuple[int, ...]
    fusion_weight: float
    taken_off: float = 0.0
    said: SentenceWords | None = None


def evidence_in_videos(
    sections: TrackSections, requests: Sequence[EvidenceRequest], scorer: SectionScorer
) -> list[MomentEvidence]:
    """The evidence of each query in all sections of its video, in order of time."""
    wanted = sorted({section for request in requests for section in request.sections})
    where = {
        wanted[place]: (block, int(row))
        for places, block, rows in sections.blocks(np.array(wanted, np.int64))
        for place, row in zip(places, rows, strict=True)
    }
    groups: dict[tuple[SectionBlock, float], list[tuple[int, int]]] = defaultdict(list)  # request, section
    for number, request in enumerate(requests):
        for section in request.sections:
            groups[where[section][0], request.fusion_weight].append((number, section))
    aligned = [
        BlockPairs(
            np.stack([requests[number].query for number, _ in pairs]),
            block,
            [where[section][1] for _, section in pairs],
            weight,
        )
        for (block, weight), pairs in groups.items()
    ]
    parts: list[dict[int, MomentEvidence]] = [{} for _ in requests]
    for ((block, _), pairs), found in zip(groups.items(), scorer.evidence(sections, aligned), strict=True):
        for (number, section), curves in zip(pairs, found, strict=True):
            spans = block.spans_of(where[section][1], int(sections.tokens[section]))
            parts[number][section] = _section_evidence(curves, spans, requests[number].taken_off)
    joined = [_join([part[section] for section in sorted(part)]) for part in parts]
    read = sorted({section for request in requests if request.said is not None for section in request.sections})
    kept = sections.kept_frames(np.array(read, np.int64)) if read else None
    if kept is None:
        return joined
    frames = dict(zip(read, kept, strict=True))
    return [
        evidence
        if request.said is None
        else replace(
            evidence,
            words=words_over_time(request.said, [(frames[each], part[each].spans) for each in sorted(part)]),
        )
        for evidence, request, part in zip(joined, requests, parts, strict=True)
    ]


def _section_evidence(curves: RowEvidence, spans: Floats, taken_off: float) -> MomentEvidence:
    """The evidence of one pair, cut to the tokens of its section."""
    tokens = len(spans)
    return MomentEvidence(
        spans=spans,
        direct=curves.direct[:tokens],
        expected_support=curves.expected_support[:tokens],
        routed=curves.routed[:tokens],
        value=curves.value[:tokens] - np.float32(taken_off),
        activation=curves.activation,
    )


def _join(parts: list[MomentEvidence]) -> MomentEvidence:
    """The sections of a video as one. A token that two sections share is taken from the one that values it more."""
    if len(parts) == 1 and bool((np.diff(parts[0].spans[:, 0]) > 0).all()):
        return parts[0]
    best = max(parts, key=lambda part: float(part.value.max()))
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("spans", *_CURVES)}
    order = np.lexsort((-joined["value"], joined["spans"][:, 1], joined["spans"][:, 0]))
    spans = joined["spans"][order]
    order = order[np.concatenate([[True], (spans[1:] != spans[:-1]).any(1)])]
    ends = tuple((float(part.spans[:, 0].min()), float(part.spans[:, 1].max())) for part in parts)
    curves = {name: array[order] for name, array in joined.items()}
    return MomentEvidence(**curves, activation=best.activation, sections=ends if len(ends) > 1 else ())


def moments_of(
    evidence: MomentEvidence, duration: float | None, options: MomentOptions, *, trace: bool
) -> list[FoundMoment]:
    """Cut moments out of the routed curve, or out of the direct one without TRACE."""
    return find_moments(evidence.routed if trace else evidence.direct, evidence.spans, duration, options)


@dataclass(frozen=True, eq=False)
class Explained:
    """A video, or one moment of it, with the evidence that explains its score."""

    video: int
    track: str  # of the evidence; "words" if there is none
    score: float
    confidence: float | None
    places: dict[str, int]  # the video's place in each track's own ranking and among the words, from 1
    moments: tuple[FoundMoment, ...]  # the best first
    evidence: MomentEvidence | None  # None if no track of the video understands the query
    match: TextMatch | None = None  # where the words of the query were found
    also: tuple[int, ...] = ()  # other files with the same video


@dataclass(frozen=True, eq=False)
class ExplainedPage:
    """What a page shows, and whether another page follows."""

    entries: tuple[Explained, ...]
    more: bool


def explain_pages(
    rankings: Sequence[Ranking | None], snapshot: Snapshot, scorer: SectionScorer
) -> list[ExplainedPage | None]:
    """Explain the page of each ranking. The evidence that pages need for certain is computed in one batch."""
    reader = _EvidenceReader(snapshot, scorer)
    reader.load([(ranking, *pair) for ranking in rankings if ranking is not None for pair in _needed(ranking, reader)])
    return [None if ranking is None else _explain_page(ranking, reader) for ranking in rankings]


def _needed(ranking: Ranking, reader: _EvidenceReader) -> list[tuple[str, int]]:
    """Tracks and videos whose evidence the page needs for certain. A page of moments may turn out to need more."""
    if ranking.request.group_by == "video":
        pairs = [(reader.track_of(ranking, entry.track, entry.video), entry.video) for entry in ranking.page]
        return [pair for pair in pairs if pair[0] != WORDS]
    if ranking.fused or ranking.words:
        return [(name, video) for name, videos in ranking.fused.items() for video in videos]
    return [(ranking.lead, video) for video in ranking.tracks[ranking.lead].top(ranking.request.page_end)]


class _EvidenceReader:
    """Computes evidence once for each ranking, track and video."""

    def __init__(self, snapshot: Snapshot, scorer: SectionScorer):
        self.snapshot, self.scorer = snapshot, scorer
        self.known: dict[tuple[Ranking, str, int], MomentEvidence] = {}

    def load(self, pairs: Sequence[tuple[Ranking, str, int]]) -> None:
        by_track: dict[str, list[tuple[Ranking, str, int]]] = defaultdict(list)
        for pair in pairs:
            by_track[pair[1]].append(pair)
        for track, of_track in by_track.items():
            sections = self.snapshot.tracks[track]
            requests = []
            for ranking, _, video in of_track:
                ranked = ranking.tracks[track]
                of_video, query = sections.by_video.of_video(video), ranked.query
                taken_off = ranked.taken_off_score(video) - ranked.lift_of(video)
                requests.append(EvidenceRequest(query.vector, of_video, query.fusion_weight, taken_off, ranked.said))
            self.known.update(zip(of_track, evidence_in_videos(sections, requests, self.scorer), strict=True))

    def track_of(self, ranking: Ranking, track: str, video: int) -> str:
        """The track that explains a video: the one that ranks it, or for "words" the first that holds the video."""
        if track != WORDS:
            return track
        names = sorted(ranking.tracks, key=lambda name: name != ranking.lead)
        holding = (name for name in names if self.snapshot.tracks[name].by_video.of_video(video))
        return next(holding, WORDS)

    def explain(self, ranking: Ranking, track: str, video: int) -> tuple[MomentEvidence, list[FoundMoment]]:
        key = (ranking, track, video)
        if key not in self.known:
            self.load([key])
        evidence, request = self.known[key], ranking.request
        duration = self.snapshot.videos[video].duration
        return evidence, moments_of(evidence, duration, request.moments, trace=request.trace)


def _explain_page(ranking: Ranking, reader: _EvidenceReader) -> ExplainedPage:
    if ranking.request.group_by == "video":
        return ExplainedPage(tuple(_explain_video(ranking, ranked, reader) for ranked in ranking.page), ranking.more)

    def explain(track: str, video: int) -> tuple[str, MomentEvidence | None, list[FoundMoment]]:
        track = reader.track_of(ranking, track, video)
        if track != WORDS:
            return track, *reader.explain(ranking, track, video)
        return track, None, [_whole(reader.snapshot, video)]

    entries = []
    ranked_moments, more = rank_moments(ranking, explain)
    for moment in ranked_moments:
        entries.append(
            Explained(
                video=moment.video,
                track=moment.track,
                score=moment.score,
                confidence=moment.confidence,
                places=ranking.places(moment.video),
                moments=(moment.moment,),
                evidence=moment.evidence,
                also=moment.also,
                match=moment.match,
            )
        )
    return ExplainedPage(tuple(entries), more)


def _explain_video(ranking: Ranking, ranked: RankedVideo, reader: _EvidenceReader) -> Explained:
    """The moments of a video: those of its evidence, and the lines that hold the words of the query."""
    track = reader.track_of(ranking, ranked.track, ranked.video)
    evidence, moments = None, [_whole(reader.snapshot, ranked.video)]
    if track != WORDS:
        evidence, moments = reader.explain(ranking, track, ranked.video)
    if ranked.match is not None and ranked.match.best.where == "subtitles":
        lines = line_moments(ranked.match, None if evidence is None else evidence.spans)
        place = ranked.places.get(track)
        first, others = lines, [] if evidence is None else moments
        if place is not None and place <= ranked.match.counted:  # the pictures rank it higher than the words
            first, others = others, lines
        apart = [each for each in others if not any(each.start < said.end and said.start < each.end for said in first)]
        moments = [*first, *apart][: max(len(first), ranking.request.moments.most)]
    fields = {name: value for name, value in vars(ranked).items() if name not in ("track", "match")}
    match = None if ranked.match is None else ranked.match.best
    return Explained(**fields, track=track, moments=tuple(moments), evidence=evidence, match=match)


def _whole(snapshot: Snapshot, video: int) -> FoundMoment:
    """All of a video, as a moment."""
    return FoundMoment(0.0, snapshot.videos[video].duration or 0.0, 0)
