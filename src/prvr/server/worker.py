"""Add videos in a separate process: a decoder that crashes ends this process, not the server.

Reads one JSON line (library, files, tags, retry) from standard input. Writes JSON lines to standard output: the current
file with the progress, and at the end the report or the problem.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from prvr.errors import UserError
from prvr.lake import open_library
from prvr.library import AddProgress
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
            shown = {**asdict(progress), "path": file.name, "speed": progress.speed, "left": progress.left}
            write({"at": str(file), "progress": shown})

    try:
        library = open_library(request["library"])
        files = [video_path(path) for path in request["files"]]
        report = library.add_files(files, tags=request["tags"], retry=request["retry"], progress=report_progress)
    except UserError as problem:
        write({"problem": str(problem)})
        return 1
    write(
        {
            "report": {
                "added": len(report.added),
                "unchanged": len(report.unchanged),
                "moved": len(report.moved),
                "failed": _by_name(report.failed),
                "damaged": _by_name(report.damaged),
            }
        }
    )
    return 0


def _by_name(files: Mapping[VideoFile, str]) -> dict[str, str]:
    """Reasons by file name. Files of one name in several folders are numbered, so that each is counted."""
    reasons: dict[str, str] = {}
    names: Counter[str] = Counter()
    for path, reason in files.items():
        names[path.name] += 1
        reasons[path.name if names[path.name] == 1 else f"{path.name} ({names[path.name]})"] = reason
    return reasons


if __name__ == "__main__":
    sys.exit(_add_videos())
