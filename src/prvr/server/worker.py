"""Adding in a process of its own: a decoder that crashes takes this process with it, and not the server.

Reads one JSON line (library, files, tags, retry) from standard input, writes JSON lines: which file it is at with the
progress, then the report.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from prvr.errors import UserError
from prvr.library import AddProgress, Library

_EVERY = 0.1  # seconds between two lines of progress
_told: IO[str] | None = None  # where answers go


def run_worker() -> int:
    global _told
    _told = os.fdopen(os.dup(1), "w", encoding="utf-8", closefd=False)  # its end is that of this process
    os.dup2(2, 1)  # whatever a library prints on the way is no answer
    asked = json.loads(sys.stdin.readline())
    last, at = 0.0, None

    def tell(now: AddProgress) -> None:
        nonlocal last, at
        if time.monotonic() - last >= _EVERY or now.path != at:
            at = now.path
            last = time.monotonic()
            progress = {**asdict(now), "path": now.path.name, "speed": now.speed, "left": now.left}
            _write({"at": str(now.path), "progress": progress})

    try:
        library = Library.open(asked["library"])
        files = [Path(file) for file in asked["files"]]
        report = library.add(files, tags=asked["tags"], retry=asked["retry"], progress=tell)
    except UserError as problem:
        _write({"problem": str(problem)})
        return 1
    _write(
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


def _write(line: dict[str, Any]) -> None:
    print(json.dumps(line), file=_told, flush=True)


if __name__ == "__main__":
    sys.exit(run_worker())
