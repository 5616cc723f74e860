"""Add videos in a separate process: a decoder that crashes ends this process, not the server.

Reads one JSON line (library, files, tags, retry, since) from standard input. Writes JSON lines to standard output: the
current file with the progress, and at the end the report or the problem. What was added ``since`` this time, by a
worker that crashed, counts as added.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from prvr.errors import UserError, printable
from prvr.lake import open_library
from prvr.library import AddProgress, AddReport, Library, Video
from prvr.media import VideoFile, video_path

_INTERVAL = 0.1  # seconds between two lines of progress


def _add_videos() -> int:
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", closefd=False)  # open until this process ends
    os.dup2(2, 1)  # so that nothing else writes between the JSON lines
    request = json.loads(sys.stdin.readline())
    last_time, file = 0.0, None

    def write(line: dict[str, Any]) -> None:
        print(json.dumps(line), file=output, flush=True)

    def report_progress(progress: AddProgress) -> None:
        nonlocal last_time, file
        if time.monotonic() - last_time >= _INTERVAL or progress.path != file:
            file, last_time = progress.path, time.monotonic()
            shown = {**asdict(progress), "path": printable(file.name), "speed": progress.speed, "left": progress.left}
            write({"at": str(file), "progress": shown})

    try:
        library = open_library(request["library"])
        files = [video_path(path) for path in request["files"]]
        report = library.add_files(files, tags=request["tags"], retry=request["retry"], progress=report_progress)
        since = request["since"]
        earlier = [] if since is None else _added_since(since, library, report.unchanged)
    except UserError as problem:
        write({"problem": str(problem)})
        return 1
    write({"report": _report_fields(report, earlier)})
    return 0


def _report_fields(report: AddReport, earlier: Sequence[Video]) -> dict[str, Any]:
    """A report as JSON. Videos that were added ``earlier`` in the job are among those that it calls unchanged."""
    damaged = {video.path: video.problem for video in earlier if video.problem is not None} | report.damaged
    return {
        "added": len(report.added) + len(earlier),
        "unchanged": len(report.unchanged) - len(earlier),
        "moved": len(report.moved),
        "failed": {str(path): reason for path, reason in report.failed.items()},
        "damaged": {str(path): reason for path, reason in damaged.items()},
    }


def _added_since(began: float, library: Library, files: Iterable[VideoFile]) -> list[Video]:
    """Those of the files that were added at this time or later."""
    chosen = {*files}
    return [video for video in library.videos("ok") if video.added >= began and video.path in chosen]


if __name__ == "__main__":
    sys.exit(_add_videos())
