"""The demo's picture: why a film was found, with a film strip that shows the found moment."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from prvr.evaluation import EvidenceCurves, Still, evidence_figure, save_figure
from prvr.library import Hit
from prvr.media import VideoFile, open_video
from prvr.trace import temporal_iou

_STILLS = 8


def draw_hit(hit: Hit, sentence: str, truth: tuple[float, float] | None, stem: Path) -> Path:
    """Draw why a film was found.

    Args:
        hit: the answer.
        sentence: what was searched.
        truth: when the sentence is true in that film, in seconds; None if it is not true of it.
        stem: where the pictures go, without ``.png``.
    """
    seen = hit.evidence
    assert seen is not None  # found by its pictures
    length = float(seen.spans[:, 1].max())
    curves = EvidenceCurves(
        hit.video.path.name,
        direct=seen.direct.astype(np.float64),
        expected_support=seen.expected_support.astype(np.float64),
        routed=seen.routed.astype(np.float64),
        activation=seen.activation.astype(np.float64),
        duration=length,
        windows=() if truth is None else (truth,),
        found=(hit.start, hit.end),
    )
    facts = [f"found moment {hit.start:.1f}–{hit.end:.1f} s"]
    if hit.confidence is not None:
        facts.append(f"right with {100 * hit.confidence:.0f} %")
    if hit.verdict is not None:
        facts.append(f"{hit.verdict} by the rest of the film")
    if truth is None:
        facts.append("the sentence is not true of this film")
    else:
        facts.append(f"overlap with the true moment {float(temporal_iou(hit.start, hit.end, *truth)):.2f}")
    stills = film_strip(hit.video.path, length, hit.start, hit.end)
    return save_figure(evidence_figure(sentence, "     ".join(facts), {"Found": curves}, stills), stem)[0]


def film_strip(path: VideoFile, length: float, start: float, end: float) -> list[Still]:
    """One picture from each of a few equal stretches of a film: from inside the found moment where they overlap."""
    edges = np.linspace(0, length, _STILLS + 1)
    with open_video(path) as video:
        frames = list(video.frames(rate=4 * _STILLS / length))
    strip = []
    for first, last in pairwise(edges.tolist()):
        inside = max(first, start) < min(last, end)
        time = (max(first, start) + min(last, end)) / 2 if inside else (first + last) / 2
        shown = [frame for frame in frames if frame.time <= time][-1]
        strip.append(Still(shown.image, time, inside))
    return strip
