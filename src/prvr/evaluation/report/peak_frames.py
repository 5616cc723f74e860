"""Frames of the two videos of a case at their peaks, from the video files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from prvr.data import DataError
from prvr.evaluation.figures import EvidenceCurves, blank_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v")


def _video_file(folder: Path, name: str) -> Path:
    """The file of a video id, in the folder or below it."""
    for ending in ENDINGS:
        for path in sorted(folder.rglob(f"{name}{ending}")):
            return path
    raise DataError(f"{folder} holds no file {name} with an ending of {', '.join(ENDINGS)}; leave out --videos.")


def _frame_at(path: Path, share: float) -> Any:
    """The frame at a share of a video's length, as an RGB array (H, W, 3)."""
    try:
        import av
    except ImportError as error:
        raise DataError('frames of videos need a decoder: pip install "prvr[media]"') from error
    try:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            length = float(container.duration or 0) / av.time_base
            frame = None
            for frame in container.decode(stream):
                if frame.time is not None and frame.time >= share * length:
                    break
            if frame is None:
                raise DataError(f"{path} holds no frame that can be decoded")
            return frame.to_ndarray(format="rgb24")
    except av.FFmpegError as error:
        raise DataError(f"{path} cannot be decoded: {error}") from error


def peak_frames_figure(folder: Path, truth: EvidenceCurves, negative: EvidenceCurves) -> Figure:
    """Two rows (ground truth, hard negative), two columns (peak of plain max, peak of TRACE)."""
    videos = {"Ground truth": truth, "Hard negative": negative}
    with blank_figure(7.2, 4.6) as figure:
        grid = figure.add_gridspec(2, 2, left=0.02, right=0.98, top=0.94, bottom=0.02, hspace=0.18, wspace=0.05)
        for row, (role, video) in enumerate(videos.items()):
            path = _video_file(folder, video.name)
            for column, (what, frame) in enumerate(
                {"peak of plain max": video.direct_peak, "peak of TRACE": video.routed_peak}.items()
            ):
                axes = figure.add_subplot(grid[row, column])
                axes.imshow(_frame_at(path, (frame + 0.5) / len(video.direct)))
                axes.set_axis_off()
                axes.set_title(f"{role}: {what}", loc="left", fontsize=9)
    return figure
