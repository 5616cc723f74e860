"""Repair a damaged library: whatever `verify` finds is made again from the video files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from prvr.library.ingest.progress import AddProgress, AddReport
from prvr.library.store.verify import Verification
from prvr.media import Sound, Speech, TimedLine, Transcriber, VideoFile, is_gone, video_path

if TYPE_CHECKING:
    from prvr.library.library import Library


@dataclass
class RepairReport:
    """What was done, and what is left."""

    done: list[str] = field(default_factory=list)  # what was put right without the video files
    added: AddReport = field(default_factory=AddReport)  # the videos that were indexed again
    gone: list[VideoFile] = field(default_factory=list)  # damaged videos whose files are not there
    untouched: list[VideoFile] = field(default_factory=list)  # left alone: their transcripts may be damaged too
    sealed: int = 0  # videos that got checksums for the first time
    left: Verification = field(default_factory=Verification)  # what is still wrong


def repair_library(library: Library, progress: Callable[[AddProgress], None] | None) -> RepairReport:
    """Index exactly the damaged videos again. See ``Library.repair``."""
    report, store = RepairReport(), library.store
    report.done = store.mend()
    found = library.verify()
    if found.damaged:
        videos = [video for number in sorted(found.damaged) if (video := store.video(number)) is not None]
        report.gone = [video.path for video in videos if is_gone(video.path)]
        there = [video for video in videos if video.path not in report.gone]
        report.untouched = [video.path for video in there if video.speech and video.id in found.altered]
        again = {video.path: video for video in there if video.path not in report.untouched}
        if again:
            by_speech: dict[str | None, dict[VideoFile, tuple[TimedLine, ...]]] = {}
            for path, video in again.items():
                lines = store.lines(video.id, start=-1.0) if video.speech else ()
                by_speech.setdefault(video.speech, {})[path] = tuple(lines)
            store.expect_again(video.id for video in again.values())
            adder = library.adder(progress=progress, retry=True, again=again)
            for speech, kept in by_speech.items():
                adder = replace(adder, speech=None if speech is None else _KeptSpeech(speech, kept))  # same report
                report.added = adder.run([*kept])
        store.clean()
        found = library.verify()
    if found.unsealed:
        report.sealed = store.add_checksums(found.damaged)
        found = library.verify()
    report.left = found
    return report


class _KeptSpeech(Transcriber):
    """Returns the lines that a speech model wrote before: they are intact, and the model may be gone."""

    def __init__(self, name: str, lines: Mapping[VideoFile, tuple[TimedLine, ...]]):
        self.name, self.lines = name, lines  # the name ends with the language

    def transcribe(self, video: str | VideoFile, heard: Callable[[float], None] = lambda _: None) -> Speech:
        return Speech(None, self.lines[video_path(video)])

    def hear(self, sound: Sound, language: str | None) -> tuple[str, Iterable[TimedLine]]:
        raise NotImplementedError("kept lines need no sound")
