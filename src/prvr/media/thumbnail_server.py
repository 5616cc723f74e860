"""A program that decodes thumbnails for another process: ``python -m prvr.media.thumbnail_server``.

It reads requests from standard input, one JSON line each: ``path``, ``time``, ``width``, and ``expected``, the fields
of ``ExpectedFile``. It answers each with a JSON line, ``{"size": bytes}`` followed by the JPEG, or
``{"problem": reason}``. A file that crashes the decoder then ends this process and not the one that asked.
"""

from __future__ import annotations

import json
import sys

from prvr.errors import UserError
from prvr.media.checked import ExpectedFile, expecting
from prvr.media.errors import MediaError, StorageError
from prvr.media.thumbnails import thumbnail


def serve_thumbnails() -> None:
    """Answer requests until standard input ends."""
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            with expecting({request["path"]: ExpectedFile(*request["expected"])}):
                picture = thumbnail(request["path"], request["time"], request["width"])
            out.write(json.dumps({"size": len(picture)}).encode() + b"\n" + picture)
        except (MediaError, StorageError) as problem:
            out.write(json.dumps({"problem": problem.reason}).encode() + b"\n")
        except UserError as problem:
            out.write(json.dumps({"problem": str(problem)}).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    serve_thumbnails()
