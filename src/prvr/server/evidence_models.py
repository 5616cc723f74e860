"""The evidence of a hit, as a pydantic model."""

from __future__ import annotations

from pydantic import BaseModel, Field

from prvr.library import VideoExplanation
from prvr.server.search_models import MomentModel
from prvr.trace import Verdict


class PeakModel(BaseModel):
    """The span of the video with the highest value of a curve."""

    index: int = Field(description="index of the span")
    start: float = Field(description="seconds")
    end: float = Field(description="seconds")
    value: float


class WordModel(BaseModel):
    """What one word of the sentence sees over time."""

    word: str
    weight: float = Field(description="how much the word counts; the weights of a sentence sum to one")
    explained: float = Field(description="how well the video explains the word, 1 at best")
    evidence: list[float] = Field(description="what the word sees, one number per span")


class WordsModel(BaseModel):
    """What each word of the sentence sees in the frames of the video."""

    spans: list[tuple[float, float]] = Field(description="start and end of each frame, in seconds")
    words: list[WordModel]


class EvidenceModel(BaseModel):
    """The evidence for a query over the time of a video, one number per span."""

    video_id: int
    query: str
    track: str
    spans: list[tuple[float, float]] = Field(description="start and end of each span, in seconds")
    direct: list[float] = Field(description="direct evidence: similarity of the query and the span")
    support: list[float] = Field(description="support that the activated registers give to each span")
    routed: list[float] = Field(description="direct evidence plus routed support; TRACE takes its maximum")
    activation: list[float] = Field(description="activation of each register; sums to one")
    direct_peak: PeakModel = Field(description="maximum of the direct evidence, which plain max pooling takes")
    routed_peak: PeakModel = Field(description="maximum of the routed evidence, which TRACE takes")
    unsupported_gap: float = Field(description="direct evidence minus expected support at the direct peak")
    verdict: Verdict | None = Field(
        description="whether the rest of the video supports the moment; null where that was not found to say anything"
    )
    why: str = Field(description="why this moment was found, in words")
    moments: list[MomentModel]
    sections: list[tuple[float, float]] = Field(
        description="start and end of the parts that a long video is compared in; empty if it is one. Support is "
        "computed inside each, so that its curve may step where two meet"
    )
    words: WordsModel | None = Field(
        default=None, description="words over time, for a sentence and a trained model that has a witness; else null"
    )

    @staticmethod
    def of(video: int, query: str, explanation: VideoExplanation) -> EvidenceModel:
        fields = explanation.evidence.to_dict()
        for name in ("direct", "support", "routed", "activation"):
            fields[name] = [round(value, 4) for value in fields[name]]
        peaks = {}
        for name, curve in (("direct_peak", "direct"), ("routed_peak", "routed")):
            start, end = fields["spans"][fields[name]]
            peaks[name] = PeakModel(index=fields[name], start=start, end=end, value=fields[curve][fields[name]])
        return EvidenceModel(
            video_id=video,
            query=query,
            track=explanation.track,
            moments=[MomentModel.of(video, moment) for moment in explanation.moments],
            verdict=explanation.verdict,
            why=explanation.why,
            **{**fields, **peaks},
        )
