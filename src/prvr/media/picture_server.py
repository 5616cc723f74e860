"""A program that decodes pictures for another process: ``python -m prvr.media.picture_server``.

It reads requests from standard input: a JSON line (``size`` in bytes, ``side`` in pixels), then the content of a
picture file. It answers each with a JSON line, ``{"size": bytes, "height": …, "width": …}`` followed by the RGB pixels,
or ``{"problem": reason}``. A picture that crashes the decoder then ends this process and not the one that asked.
"""

from __future__ import annotations

import json
import sys

from prvr.media.errors import MediaError
from prvr.media.pictures import decode_picture


def serve_pictures() -> None:
    """Answer requests until standard input ends."""
    requests, out = sys.stdin.buffer, sys.stdout.buffer
    while line := requests.readline():
        request = json.loads(line)
        try:
            image = decode_picture(requests.read(request["size"]), request["side"])
            height, width, _ = image.shape
            out.write(json.dumps({"size": image.nbytes, "height": height, "width": width}).encode() + b"\n")
            out.write(image.tobytes())
        except MediaError as problem:
            out.write(json.dumps({"problem": f"it {problem.reason}"}).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    serve_pictures()
