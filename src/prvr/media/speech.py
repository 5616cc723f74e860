"""Speech to lines of text, for videos without subtitles.

    transcriber = open_transcriber("whisper-base")  # after `prvr prepare whisper-base`
    speech = transcriber.transcribe("talk.mp4")
    print(speech.language, speech.lines)

A transcriber of your own derives from ``Transcriber`` and turns samples into lines; the sound is decoded for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prvr.media.buckets import VideoFile, video_path
from prvr.media.containers import demuxed, open_container, start_seconds
from prvr.media.encoders.hashes import require_unchanged
from prvr.media.encoders.weights import model_folder
from prvr.media.errors import EncoderError
from prvr.media.packages import require_av, require_faster_whisper
from prvr.media.subtitles import TimedLine, plain_text

SPEECH_MODELS = {
    f"whisper-{size}": f"Systran/faster-whisper-{size}" for size in ("tiny", "base", "small", "medium", "large-v3")
}
SOUND_RATE = 16_000  # samples per second
_LEAST_RATE = 2000  # samples per second of sound in a file; fewer carry no speech, and would last for ever
_PART_SECONDS = 1800  # of sound that is held in memory
_NEEDED = ("model.bin", "config.json", "tokenizer.json")  # without the last, a tokenizer would be downloaded

Sound = NDArray[np.float32]  # samples between −1 and 1, one channel, 16,000 per second


@dataclass(frozen=True)
class Speech:
    """What is said in a video, and in which language ("en"); None if nothing is said."""

    language: str | None
    lines: tuple[TimedLine, ...]


class Transcriber(ABC):
    """Turns the sound of a video into lines."""

    name: str

    @abstractmethod
    def hear(self, sound: Sound, language: str | None) -> tuple[str, Iterable[TimedLine]]:
        """The language of some minutes of sound, and its lines with times from their start.

        Args:
            sound: samples.
            language: that was detected in an earlier part of the same video; None: detect it.
        """

    def transcribe(self, video: str | VideoFile, heard: Callable[[float], None] = lambda _: None) -> Speech:
        """Everything that is said in a video. A video without sound has no lines.

        Args:
            video: the file.
            heard: called with the seconds of the video that are done.

        Raises:
            MediaError: the file cannot be opened.
        """
        language, lines = None, list[TimedLine]()
        for start, sound in sound_parts(video_path(video)):
            found, said = self.hear(sound, language)
            length = len(sound) / SOUND_RATE
            for line in said:
                first, last = (start + min(max(0.0, time), length) for time in (line.start, line.end))
                if text := plain_text(line.text):
                    lines.append(TimedLine(first, max(first, last), text))
                    language = found
                heard(last)
        return Speech(language, tuple(lines))


def open_transcriber(name: str) -> Transcriber:
    """A speech model that is on this machine. Nothing is downloaded.

    Args:
        name: a short name such as ``whisper-base``, a hub name, or a folder with a Whisper model for CTranslate2.

    Raises:
        EncoderError: the model is not on this machine, or cannot be used.
        MissingExtra: ``faster-whisper`` is not installed.
    """
    return WhisperTranscriber(name)


class WhisperTranscriber(Transcriber):
    """A Whisper model, run by ``faster-whisper`` on a GPU if there is one. Silence is left out before it listens."""

    def __init__(self, name: str):
        faster_whisper, self.name = require_faster_whisper(), name
        folder = model_folder(SPEECH_MODELS.get(name, name))
        require_unchanged(folder)
        absent = [file for file in _NEEDED if not (folder / file).is_file()]
        if absent:
            raise EncoderError(
                f"{folder} is not a Whisper model for CTranslate2: it has no {' and no '.join(absent)}. "
                f"Use one of {', '.join(SPEECH_MODELS)}."
            )
        try:
            self.model: Any = faster_whisper.WhisperModel(str(folder), compute_type="auto", local_files_only=True)
        except (RuntimeError, ValueError, OSError) as problem:
            raise EncoderError(f"{folder} does not hold a model that can be loaded ({problem}).") from problem

    def hear(self, sound: Sound, language: str | None) -> tuple[str, Iterable[TimedLine]]:
        # Without the previous text as context: it makes Whisper repeat itself.
        segments, about = self.model.transcribe(
            sound, language=language, vad_filter=True, condition_on_previous_text=False
        )
        return about.language, (TimedLine(float(each.start), float(each.end), each.text) for each in segments)


def sound_parts(video: VideoFile, seconds: float = _PART_SECONDS) -> Iterator[tuple[float, Sound]]:
    """The sound of a video, part by part, each with its start in seconds. Sound that cannot be decoded is left out."""
    most, count, start = round(seconds * SOUND_RATE), 0, None
    waiting: list[Sound] = []
    with open_container(video) as container:
        for time, samples in _decoded(container):
            start = time if start is None else start
            waiting.append(samples)
            count += len(samples)
            while count >= most:
                sound = np.concatenate(waiting)
                yield start, sound[:most]
                start, waiting, count = start + seconds, [sound[most:]], count - most
        if start is not None and count:
            yield start, np.concatenate(waiting)


def _decoded(container: Any) -> Iterator[tuple[float, Sound]]:
    """Samples of the first sound stream, with the time at which they are heard."""
    av = require_av("decodes sound")
    streams = [stream for stream in container.streams.audio if stream.codec_context is not None]
    if not streams or streams[0].rate < _LEAST_RATE:
        return
    origin, time = start_seconds(container) or 0.0, 0.0
    resampler = av.AudioResampler(format="flt", layout="mono", rate=SOUND_RATE)
    problems = (av.error.FFmpegError, OSError, ValueError)
    try:
        for packet in demuxed(container, streams[0]):
            try:
                frames = packet.decode()
            except problems:  # a damaged packet; the next may be whole
                continue
            for frame in frames:
                time = max(0.0, frame.time - origin) if frame.time is not None else time
                for part in resampler.resample(frame):
                    yield time, part.to_ndarray()[0]
        for part in resampler.resample(None):
            yield time, part.to_ndarray()[0]
    except problems:  # the file ends here, or its sound changes its kind
        return
