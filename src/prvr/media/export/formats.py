"""Write moments to one file, in any of the formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from prvr.files import whole_file, write_whole
from prvr.media.export.film import write_clips, write_film
from prvr.media.export.moments import ExportError, ExportMoment, moments_csv
from prvr.media.export.timeline import edl_text, otio_text

ExportFormat = Literal["clips", "film", "csv", "edl", "otio"]
EXPORT_SUFFIXES: dict[ExportFormat, str] = {
    "clips": ".zip", "film": ".mp4", "csv": ".csv", "edl": ".edl", "otio": ".otio",
}  # fmt: skip
_TEXTS = {"csv": moments_csv, "edl": edl_text, "otio": otio_text}


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
        margin: seconds added before and after each moment.
        progress: called with the seconds of video that are written.

    Raises:
        ExportError: there are no moments, or none of them could be read.
        MediaError: a timeline needs the rate of a video that cannot be read.
        MissingExtra: timelines need ``pip install "prvr[export]"``.
    """
    if not moments:
        raise ExportError("there are no moments to export")
    widened = [moment.with_margin(margin) for moment in moments] if margin else [*moments]
    if form in _TEXTS:
        write_whole(out, _TEXTS[form](widened))
        return ExportReport(out, len(widened))
    with whole_file(out) as unfinished:
        failed = (write_film if form == "film" else write_clips)(widened, unfinished, progress)
        if len(failed) == len(widened):
            moment, reason = failed[0]
            raise ExportError(f"nothing was written: {moment.shown}: {reason}")
    return ExportReport(out, len(widened) - len(failed), tuple(failed))
