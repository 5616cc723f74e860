"""Moments as a timeline for editing programs: OpenTimelineIO, and an edit decision list (CMX 3600)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from prvr.errors import MissingExtra
from prvr.media.export.moments import ExportMoment, most_seconds
from prvr.media.frames import USUAL_RATE
from prvr.media.packages import require_timelines

_EXACT = (24000 / 1001, 30000 / 1001, 60000 / 1001)  # rates that files state with a rounding error
_TIMECODES = (_EXACT[0], 24.0, 25.0, _EXACT[1], 30.0, 48.0, 50.0, _EXACT[2], 60.0)  # rates that timecodes may have
_TITLE = "prvr moments"
_REEL = 8  # letters of the name of a reel in an edit decision list


def otio_text(moments: Sequence[ExportMoment]) -> str:
    """The moments one after the other, as an OpenTimelineIO document. Times of a video are counted at its own rate.

    Raises:
        MissingExtra: ``opentimelineio`` is not installed.
    """
    return str(_timeline([(moment, _rate(moment)) for moment in moments]).to_json_string(indent=1))


def edl_text(moments: Sequence[ExportMoment]) -> str:
    """The moments one after the other, as an edit decision list. All times are counted at one rate.

    Raises:
        MissingExtra: ``opentimelineio`` or its CMX 3600 adapter is not installed.
    """
    otio = require_timelines()
    if "cmx_3600" not in otio.adapters.available_adapter_names():
        raise MissingExtra("otio-cmx3600-adapter, which writes edit decision lists,", "export")
    rate = _timecode_rate(most_seconds((_rate(moment), moment.seconds) for moment in moments))
    text = otio.adapters.write_to_string(_timeline([(moment, rate) for moment in moments]), "cmx_3600", rate=rate)
    mode = "DROP FRAME" if ";" in re.sub(r"\*.*", "", text) else "NON-DROP FRAME"
    return str(text.replace("\n\n", f"\nFCM: {mode}\n\n", 1))


def _timeline(moments: Sequence[tuple[ExportMoment, float]]) -> Any:
    """A timeline with one track of pictures, from moments and the rates to count their times at."""
    otio = require_timelines()
    timeline = otio.schema.Timeline(name=_TITLE)
    track = otio.schema.Track(name="V1", kind=otio.schema.TrackKind.Video)
    timeline.tracks.append(track)
    reels = _reels([moment.shown for moment, _ in moments])

    def span(start: float, end: float, rate: float) -> Any:
        first = round(start * rate)
        duration = max(1, round(end * rate) - first)
        return otio.opentime.TimeRange(
            otio.opentime.RationalTime(first, rate), otio.opentime.RationalTime(duration, rate)
        )

    for moment, rate in moments:
        known = None if moment.duration is None else span(0.0, max(moment.duration, moment.end), rate)
        label = " ".join(moment.label.split())
        clip = otio.schema.Clip(
            name=" ".join(re.split(r"[\\/]", moment.shown)[-1].split()),
            media_reference=otio.schema.ExternalReference(target_url=_url(moment), available_range=known),
            source_range=span(moment.start, moment.end, rate),
            metadata={
                "prvr": {"label": label, "start": moment.start, "end": moment.end},
                "cmx_3600": {"reel": reels[moment.shown], "comments": [f"COMMENT: {label}"] if label else []},
            },
        )
        track.append(clip)
    return timeline


def _url(moment: ExportMoment) -> str:
    """Where the video is: a file or an address; its name relative to other files if that is all that may be told."""
    if moment.name:
        return quote(moment.name, safe="/:")
    if isinstance(moment.video, Path):
        return moment.video.absolute().as_uri()
    return quote(str(moment.video), safe="/:")


def _reels(names: Sequence[str]) -> dict[str, str]:
    """A short name for each video: letters and digits, and no two alike.

    >>> _reels(["films/holiday 2024.mp4", "films/holiday 2023.mp4"])
    {'films/holiday 2024.mp4': 'HOLIDAY2', 'films/holiday 2023.mp4': 'HOLIDAY1'}
    """
    reels: dict[str, str] = {}
    for name in dict.fromkeys(names):
        stem = re.sub(r"[^A-Z0-9]", "", Path(name).stem.upper()) or "VIDEO"
        reel, number = stem[:_REEL], 0
        while reel in reels.values():
            number += 1
            reel = f"{stem[: _REEL - len(str(number))]}{number}"
        reels[name] = reel
    return reels


def _rate(moment: ExportMoment) -> float:
    rate = moment.fps or USUAL_RATE
    near = min(_EXACT, key=lambda exact: abs(exact - rate))
    return near if abs(near - rate) < 0.01 else round(rate, 3)


def _timecode_rate(rate: float) -> float:
    """The nearest rate of timecodes in which every picture begins at a whole number.

    >>> [_timecode_rate(rate) for rate in (8.0, 12.5, 25.0, 120.0, 17.3)]
    [24.0, 25.0, 25.0, 60.0, 25.0]
    """
    for code in sorted(_TIMECODES, key=lambda code: abs(code - rate)):
        ratio = max(code / rate, rate / code)
        if abs(ratio - round(ratio)) < 0.001:
            return code
    return USUAL_RATE
