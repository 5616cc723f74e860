"""Add videos in a separate process: a decoder that crashes ends this process, not the server.

Reads one JSON line (library, files, tags, retry) from standard input. Writes JSON lines: the current file with the
progress, then the report.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prvr.errors import UserError
from prvr.library import AddProgress, Library

_EVERY = 0.1  # seconds between two lines of progress


def _work() -> int:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", closefd=False)  # open until this process ends
    os.dup2(2, 1)  # whatever a library prints on the way is not an answer
    request = json.loads(sys.stdin.readline())
    last, at = 0.0, None

    def write(line: dict[str, Any]) -> None:
        print(json.dumps(line), file=answers, flush=True)

    def report_progress(now: AddProgress) -> None:
        nonlocal last, at
        if time.monotonic() - last >= _EVERY or now.path != at:
            at = now.path
            last = time.monotonic()
            progress = {**asdict(now), "path": now.path.name, "speed": now.speed, "left": now.left}
            write({"at": str(now.path), "progress": progress})

    try:
        library = Library.open(request["library"])
        files = [Path(file) for file in request["files"]]
        report = library.add(files, tags=request["tags"], retry=request["retry"], progress=report_progress)
    except UserError as problem:
        write({"problem": str(problem)})
        return 1
    write(
        {
            "report": {
                "added": len(report.added),
                "unchanged": len(report.unchanged),
                "moved": len(report.moved),
                "failed": {path.name: reason for path, reason in report.failed.items()},
                "damaged": {path.name: reason for path, reason in report.damaged.items()},
            }
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(_work())
