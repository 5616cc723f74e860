"""Write moments to one file, in any of the formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prvr.files import whole_file, write_whole
from prvr.media.export.facts import Fact, with_facts
from prvr.media.export.film import write_clips, write_film
from prvr.media.export.moments import ExportError, ExportMoment, Failures, moments_csv
from prvr.media.export.timeline import edl_text, otio_text

ExportFormat = Literal["clips", "film", "csv", "edl", "otio"]
EXPORT_SUFFIXES: dict[ExportFormat, str] = {
    "clips": ".zip", "film": ".mp4", "csv": ".csv", "edl": ".edl", "otio": ".otio",
}  # fmt: skip
_TEXTS = {"csv": moments_csv, "edl": edl_text, "otio": otio_text}
_TIMELINES = ("edl", "otio")  # which need the rates of videos


@dataclass(frozen=True)
class ExportReport:
    """What became of an export: the file, how many moments are in it, and which are not, with reasons."""

    out: Path
    written: int
    failed: tuple[tuple[ExportMoment, str], ...] = ()


def export_moments(
    moments: Sequence[ExportMoment],
    form: ExportFormat,
    out: Path,
    *,
    margin: float = 0.0,
    progress: Callable[[float], None] = lambda seconds: None,
) -> ExportReport:
    """Write moments to a file. It appears when it is complete, and replaces another of the same name.

    Args:
        moments: in the order of the file.
        form: ``clips`` (a .zip file of .mp4 files), ``film`` (one .mp4 file), ``csv``, ``edl`` (CMX 3600) or ``otio``.
        out: the file.
        margin: seconds added before and after each moment, as far as its video goes.
        progress: called with the seconds of video that are written.

    Raises:
        ExportError: there are no moments, or none of them could be read.
        MissingExtra: timelines need ``pip install "prvr[export]"``.
    """
    if not moments:
        raise ExportError("there are no moments to export")
    rate: list[Fact] = ["fps"] if form in _TIMELINES else []
    length: list[Fact] = ["duration"] if margin else []
    known, failed = with_facts(moments, *rate, *length)
    _require_some(len(known), failed)
    if form in _TEXTS:
        write_whole(out, _TEXTS[form]([moment.with_margin(margin) for moment in known]))
    else:
        with whole_file(out) as unfinished:
            widened = [moment.with_margin(margin) for moment in known]
            failed += (write_film if form == "film" else write_clips)(widened, unfinished, progress)
            _require_some(len(moments) - len(failed), failed)
    return ExportReport(out, len(moments) - len(failed), tuple(failed))


def _require_some(written: int, failed: Failures) -> None:
    if not written:
        moment, reason = failed[0]
        raise ExportError(f"nothing was written: {moment.shown}: {reason}")
