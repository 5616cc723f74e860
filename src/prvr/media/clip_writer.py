"""Write .mp4 files that every browser plays: H.264 in yuv420p, AAC, and the index at the front."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prvr.media.clip_reader import SOUND_RATE, HeardSound, ShownPicture
from prvr.media.packages import require_av

_TICKS = 90_000  # per second
_RATES = (1.0, 120.0)  # pictures per second that are stated to the encoder; times are kept as they are
_GAP = 0.05  # seconds: shorter gaps in the sound are rounding errors of the file
_HIGH = 720  # pixels: from this height on, a file that states no colours is taken for BT.709, below for BT.601
# FFmpeg's numbers: of matrices with the names that its scaler uses, and of what is not stated (for a matrix, 0 is RGB).
_MATRICES = {1: "itu709", 5: "itu601", 6: "itu601", 7: "smpte240m", 9: "bt2020", 10: "bt2020"}
_STATED = {"itu709": 1, "itu601": 6, "smpte240m": 7, "bt2020": 9}
_BT709, _LIMITED, _UNSTATED = 1, 1, (0, 2, 3)
_OPTIONS = {"preset": "veryfast", "crf": "21"}


class ClipWriter:
    """An .mp4 file to write pictures and sound to, inside a ``with`` statement.

    Args:
        path: the file.
        size: width and height of its pictures; both must be even.
        rate: pictures per second, about; the encoder spends its bits by it.
        sound: whether it has a sound track.
    """

    def __init__(self, path: Path, size: tuple[int, int], rate: float, *, sound: bool):
        av = require_av("encodes videos")
        self.file = av.open(str(path), "w", format="mp4", container_options={"movflags": "+faststart"})
        self.canvas = _Canvas(*size)
        rate = min(max(rate, _RATES[0]), _RATES[1])
        self.video = self.file.add_stream("libx264", rate=Fraction(rate).limit_denominator(1001), options=_OPTIONS)
        self.video.width, self.video.height = size
        self.video.pix_fmt = "yuv420p"
        context = self.video.codec_context
        context.time_base = Fraction(1, _TICKS)
        context.flags |= av.codec.context.Flags.frame_duration  # so that the last picture ends where it should
        context.color_range = _LIMITED
        self.audio = self.file.add_stream("aac", rate=SOUND_RATE, layout="stereo") if sound else None
        self.end, self.samples = 0.0, 0  # seconds of pictures and samples of sound written so far

    def __enter__(self) -> ClipWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self.end:
                self.file.mux(self.video.encode(None))
                if self.audio is not None:
                    self.silence_until(self.end)
                    self.file.mux(self.audio.encode(None))
        finally:
            self.file.close()

    def picture(self, shown: ShownPicture) -> None:
        """Write a picture. Each begins where the one before it ends."""
        begin, end = round(shown.start * _TICKS), round(shown.end * _TICKS)
        if end <= begin:
            return
        if not self.end:
            self._state_colours(shown.frame)
        frame = self.canvas.draw(shown.frame, shown.aspect)
        frame.pts, frame.duration, frame.time_base = begin, end - begin, Fraction(1, _TICKS)
        frame.pict_type = 0  # the encoder chooses
        self.file.mux(self.video.encode(frame))
        self.end = shown.end

    def _state_colours(self, frame: Any) -> None:
        """State the colours of the first picture, so that players show HDR as such; BT.709 where it states none."""
        self.canvas.matrix = _matrix(frame)
        context, stated = self.video.codec_context, (frame.color_primaries, frame.color_trc)
        context.colorspace = _STATED[self.canvas.matrix]
        context.color_primaries, context.color_trc = (_BT709 if each in _UNSTATED else each for each in stated)

    def sound(self, heard: HeardSound) -> None:
        """Write sound. What lies before the end of the sound so far is dropped, and a gap is filled with silence."""
        if self.audio is None:
            return
        begin, samples = round(heard.start * SOUND_RATE), heard.samples
        if begin > self.samples + _GAP * SOUND_RATE:
            self.silence_until(heard.start)
        elif begin < self.samples - _GAP * SOUND_RATE:
            samples = samples[:, self.samples - begin :]
        self._write(samples)

    def silence_until(self, seconds: float) -> None:
        """Fill the sound track with silence up to a time."""
        missing = round(seconds * SOUND_RATE) - self.samples
        while missing > 0:
            count = min(missing, SOUND_RATE)
            self._write(np.zeros((2, count), np.float32))
            missing -= count

    def _write(self, samples: NDArray[np.float32]) -> None:
        if self.audio is None or not samples.shape[1]:
            return
        av = require_av()
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = SOUND_RATE, self.samples, Fraction(1, SOUND_RATE)
        self.samples += samples.shape[1]
        self.file.mux(self.audio.encode(frame))


class _Canvas:
    """Draws decoded pictures upright, with square pixels, as large as fits, on black."""

    def __init__(self, width: int, height: int):
        self.width, self.height, self.matrix = width, height, "itu709"
        self.reformatter = require_av().video.reformatter.VideoReformatter()
        self.last: tuple[Any, Any] | None = None  # a picture that is shown for long is drawn once

    def draw(self, frame: Any, aspect: float) -> Any:
        """The picture as a frame of the canvas's size in yuv420p."""
        if self.last is None or self.last[0] is not frame:
            self.last = (frame, self._drawn(frame, aspect))
        return self.last[1]

    def _drawn(self, frame: Any, aspect: float) -> Any:
        turns = -round(frame.rotation / 90) % 4
        wide, high = frame.width * aspect, float(frame.height)
        if turns % 2:
            wide, high = high, wide
        scale = min(self.width / wide, self.height / high)
        width, height = _even_side(wide * scale, self.width), _even_side(high * scale, self.height)
        stored = (height, width) if turns % 2 else (width, height)
        scaled = self.reformatter.reformat(
            frame, *stored, "yuv420p", src_colorspace=_matrix(frame), dst_colorspace=self.matrix,
            dst_color_range="MPEG", interpolation="BICUBIC",
        )  # fmt: skip
        if not turns and (width, height) == (self.width, self.height):
            return scaled
        return self._place(scaled, width, height, turns)

    def _place(self, scaled: Any, width: int, height: int, turns: int) -> Any:
        """A turned picture in the middle of the canvas, plane by plane: brightness, and two of colour at half size."""
        stored = np.asarray(scaled.to_ndarray(), np.uint8).reshape(-1)
        area, places, drawn = width * height, [], np.empty(self.width * self.height * 3 // 2, np.uint8)
        for begin, part, black in ((0, 1, 16), (area, 2, 128), (area * 5 // 4, 2, 128)):
            shape = (scaled.height // part, scaled.width // part)
            plane = np.rot90(stored[begin : begin + shape[0] * shape[1]].reshape(shape), -turns)
            canvas = np.full((self.height // part, self.width // part), black, np.uint8)
            top, left = (canvas.shape[0] - plane.shape[0]) // 2, (canvas.shape[1] - plane.shape[1]) // 2
            canvas[top : top + plane.shape[0], left : left + plane.shape[1]] = plane
            places.append(canvas.reshape(-1))
        np.concatenate(places, out=drawn)
        return require_av().VideoFrame.from_ndarray(drawn.reshape(-1, self.width), format="yuv420p")


def _matrix(frame: Any) -> str:
    """The matrix between a picture's colours and RGB; a guess where it is not stated, as players do."""
    return _MATRICES.get(frame.colorspace, "itu709" if frame.height >= _HIGH else "itu601")


def _even_side(side: float, most: int) -> int:
    """An even number of pixels; the whole canvas where two pixels are missing, because those are rounding errors.

    >>> _even_side(359.2, 360), _even_side(202.5, 360), _even_side(0.2, 360)
    (360, 202, 2)
    """
    even = max(2, round(side / 2) * 2)
    return most if even >= most - 2 else even
