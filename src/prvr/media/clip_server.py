"""A program that cuts clips for another process: ``python -m prvr.media.clip_server``.

It reads requests from standard input, one JSON line each: ``moments`` (objects with the fields of ``ExportMoment``),
``format`` (clip, clips or film), ``out``, the file to write, and ``expected`` (by path, the fields of
``ExpectedFile``). While it works it writes lines ``{"done": seconds}``, and at the end
``{"failed": [[name, reason], …]}`` or ``{"problem": reason}``. A file that crashes the decoder then ends this process
and not the one that asked.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from prvr.errors import UserError
from prvr.media.buckets import video_path
from prvr.media.checked import ExpectedFile, expecting
from prvr.media.clips import cut_clip
from prvr.media.errors import MediaError, StorageError
from prvr.media.export.formats import export_moments
from prvr.media.export.moments import ExportMoment

_INTERVAL = 0.5  # seconds between two lines of progress


def serve_clips() -> None:
    """Answer requests until standard input ends."""
    for line in sys.stdin.buffer:
        try:
            request = json.loads(line)
            with expecting({path: ExpectedFile(*each) for path, each in request["expected"].items()}):
                answer: dict[str, Any] = {"failed": _cut(request)}
        except (MediaError, StorageError) as problem:
            answer = {"problem": problem.reason}
        except UserError as problem:
            answer = {"problem": str(problem)}
        except OSError as problem:
            answer = {"problem": f"the clip could not be written: {problem.strerror}"}
        _write(answer)


def _cut(request: dict[str, Any]) -> list[tuple[str, str]]:
    """Cut what is asked for. Returns the names of videos that could not be read, with reasons."""
    moments = [ExportMoment(**{**moment, "video": video_path(moment["video"])}) for moment in request["moments"]]
    last = time.monotonic()

    def progress(seconds: float) -> None:
        nonlocal last
        if time.monotonic() - last >= _INTERVAL:
            last = time.monotonic()
            _write({"done": seconds})

    out = Path(request["out"])
    if request["format"] == "clip":
        (moment,) = moments
        cut_clip(moment.video, moment.start, moment.end, out, longest_side=request["longest_side"], progress=progress)
        return []
    report = export_moments(moments, request["format"], out, progress=progress)
    return [(moment.shown, reason) for moment, reason in report.failed]


def _write(line: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve_clips()
