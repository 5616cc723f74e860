"""Rate and duration of the videos of moments, read from the files where they are not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from prvr.media.errors import MediaError
from prvr.media.export.moments import ExportMoment, Failures
from prvr.media.frames import USUAL_RATE, VideoInfo
from prvr.media.reader import open_video

Fact = Literal["fps", "duration"]


def with_facts(moments: Sequence[ExportMoment], *needed: Fact) -> tuple[list[ExportMoment], Failures]:
    """The moments with what is needed of their videos, and those whose videos cannot be read, with reasons."""
    known, failed, infos = list[ExportMoment](), Failures(), dict[str, VideoInfo]()
    for moment in moments:
        if all(getattr(moment, name) is not None for name in needed):
            known.append(moment)
            continue
        try:
            if str(moment.video) not in infos:
                infos[str(moment.video)] = open_video(moment.video).info
        except MediaError as problem:
            failed.append((moment, problem.reason))
            continue
        info = infos[str(moment.video)]
        rate, duration = moment.fps or info.fps or USUAL_RATE, moment.duration or info.duration
        known.append(replace(moment, fps=rate, duration=duration))
    return known, failed
