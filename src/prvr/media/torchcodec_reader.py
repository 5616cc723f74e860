"""The second reader: torchcodec, which uses the FFmpeg that is installed on the system.

With a build of torchcodec for CUDA, ``backend="nvdec"`` decodes on an NVIDIA GPU. This module needs torchcodec to be
imported; ``open_video(path, backend="torchcodec")`` does that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from prvr.errors import MissingExtra
from prvr.media.buckets import VideoFile
from prvr.media.errors import EncoderError, MediaError
from prvr.media.frames import Fit, Frame, Image, StreamInfo, VideoInfo
from prvr.media.reader import VideoReader
from prvr.media.resize import fit_picture, resize
from prvr.media.sampling import TOLERANCE, longest_still

try:
    import torchcodec
    from torchcodec.decoders import VideoDecoder

    if torchcodec.ffmpeg_major_version is None:  # newer versions can be imported without FFmpeg, and decode pictures
        raise ImportError("it found no FFmpeg that it can load")
except (ImportError, OSError, RuntimeError) as problem:  # without a suitable FFmpeg, loading it fails in several ways
    reason = ImportError(str(problem).strip().splitlines()[0])
    raise MissingExtra("torchcodec (with a system FFmpeg that it can load)", "media-torchcodec", reason) from problem

_FAILURES = (RuntimeError, IndexError, ValueError)
_BATCH_BYTES = 64 << 20  # of pictures decoded at once
# FFmpeg opens these although they are pictures or text; torchcodec does not name the container, only the codec.
_NOT_VIDEO = {"ansi", "png", "webp", "bmp", "tiff"}


class TorchcodecReader(VideoReader):
    """A video file, decoded by torchcodec. Time zero is the first frame, even where the sound begins earlier."""

    decoder = f"torchcodec {torchcodec.__version__}"
    device = "cpu"

    def __init__(self, path: VideoFile, threads: int = 0):
        self.path, self.threads = path, threads
        decoder = self._open()
        about = decoder.metadata
        if about.codec in _NOT_VIDEO:
            raise MediaError(path, f"is not a video: FFmpeg reads it as a picture or a text ({about.codec})")
        try:
            first = decoder[0]
        except _FAILURES as problem:
            raise MediaError(path, f"no frame could be decoded ({_first_line(problem)})") from problem
        height, width = first.shape[:2]  # upright already
        aspect = float(about.pixel_aspect_ratio or 1)
        turned = round((about.rotation or 0) / 90) % 2 == 1
        duration = _duration(decoder)
        self.info = VideoInfo(
            path=path,
            duration=duration,
            width=width if turned else max(1, round(width * aspect)),
            height=max(1, round(height * aspect)) if turned else height,
            rotation=-round((about.rotation or 0) / 90) * 90 % 360,
            fps=about.num_frames / duration if about.num_frames and duration else about.average_fps,
            codec=about.codec or "unknown",
            streams=(StreamInfo("video", about.codec or "unknown"),),
        )

    def _open(self) -> Any:
        try:
            source = str(self.path) if isinstance(self.path, Path) else self.path.open()
            threads = self.threads if self.device == "cpu" else 1
            return VideoDecoder(source, dimension_order="NHWC", num_ffmpeg_threads=threads, device=self.device)
        except _FAILURES as problem:
            reason = "is not a video that FFmpeg knows, or it is damaged or has no video stream"
            raise MediaError(self.path, f"{reason} ({_first_line(problem)})") from problem

    def _frames(self, rate: float, fit: Fit | None) -> Iterator[Frame]:
        if not 0 < rate <= 1000:
            raise ValueError(f"The rate must be between 0 and 1000 frames per second; got {rate}.")
        self.problem = None
        decoder = self._open()
        begin = decoder.metadata.begin_stream_seconds
        pictures = decoder.metadata.num_frames or 1
        most = pictures + longest_still(pictures) * rate  # what the file claims is not believed
        total = max(1, math.ceil(min((_duration(decoder) - TOLERANCE) * rate, most)))
        at_once = max(1, _BATCH_BYTES // (3 * self.info.width * self.info.height))
        for first in range(0, total, at_once):
            times = [k / rate for k in range(first, min(total, first + at_once))]
            count = 0
            for count, image in enumerate(self._shown(decoder, [begin + t for t in times]), 1):
                yield Frame(times[count - 1], _displayed(image.cpu().numpy(), self.info, fit))
            if count < len(times):
                return

    def _shown(self, decoder: Any, seconds: list[float]) -> Iterator[torch.Tensor]:
        """Pictures on screen at these times. Where decoding a group fails, one by one up to the damaged one."""
        later = [second + TOLERANCE / 2 for second in seconds]
        try:
            yield from decoder.get_frames_played_at(later).data
            return
        except _FAILURES:
            pass
        for second in later:
            try:
                yield decoder.get_frame_played_at(second).data
            except _FAILURES as problem:
                self.problem = (
                    f"ends early, at {second - decoder.metadata.begin_stream_seconds:.1f} s ({_first_line(problem)})"
                )
                return


class NvdecReader(TorchcodecReader):
    """The same on an NVIDIA GPU. Pictures are scaled on the CPU, so that they are those of the other readers."""

    decoder = f"nvdec torchcodec {torchcodec.__version__}"
    device = "cuda"


def nvdec_reader() -> type[NvdecReader]:
    """The reader, if there is a GPU for it.

    Raises:
        EncoderError: torch sees no NVIDIA GPU.
    """
    if not torch.cuda.is_available():
        raise EncoderError("nvdec decodes videos on an NVIDIA GPU, but torch sees none here: use the decoder pyav.")
    return NvdecReader


def _duration(decoder: Any) -> float:
    """Seconds from the first picture to the end of the last one.

    With FFmpeg 8 and 9, a packet may last beyond pictures that are shown after it, and torchcodec takes the latest end
    of a packet. Where that is later than the header says, the last picture decides.
    """
    about = decoder.metadata
    stated = about.duration_seconds_from_header
    if stated is not None and about.duration_seconds > stated + TOLERANCE:
        try:
            last = decoder.get_frame_at(about.num_frames - 1)
        except _FAILURES:  # damaged there
            return float(about.duration_seconds)
        return min(float(about.duration_seconds), last.pts_seconds + last.duration_seconds - about.begin_stream_seconds)
    return float(about.duration_seconds)


def _displayed(image: Image, info: VideoInfo, fit: Fit | None) -> Image:
    """A decoded picture with square pixels, or scaled as ``fit`` says, (H, W, 3)."""
    shown = resize(image, info.width, info.height)
    return shown if fit is None else fit_picture(shown, fit)


def _first_line(problem: BaseException) -> str:
    return str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
