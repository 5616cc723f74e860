"""Subtitles, recipes, and the notes beside a model's files."""

from __future__ import annotations

from prvr.media.encoders.hashes import HASHES_FILE, require_unchanged
from prvr.media.errors import EncoderError, MediaError
from prvr.media.export.moments import ExportError, parse_moments
from prvr.media.recipe import Recipe
from prvr.media.subtitles import read_subtitles
from tests.fuzz.target import BREAK, Target, of_file, of_files

SRT = "1\n00:00:01,500 --> 00:00:02,000\n<i>Hello</i> &amp; bye\n\n2\n00:01:03,0 --> 00:01:04,250\n{\\an8}again\nmore\n"
VTT = "WEBVTT - x\n\nNOTE hi\n\nSTYLE\n::cue{}\n\nid\n00:01.000 --> 00:02.500 align:start\n<v Ann>Yes</v>\n"
_TEXTS = [SRT.encode(), VTT.encode(), SRT.encode("utf-16"), ("\ufeff" + VTT.replace("\n", "\r\n")).encode()]
_RECIPE = Recipe("clip", "ab" * 32, 512, "224x224 cover", "mean", 1.0, "pyav 18").to_json().encode()
_HASH = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"  # of b"x"
_NOTE = b'{"revision": "abc", "sha256": {"model.safetensors": "' + _HASH.encode() + b'"}}'

_MOMENTS = [
    b'video,start,end,label\r\n"a, b.mp4",1.5,0:02.5,"two\nlines"\r\ns3://films/c.mp4,0,1,\r\n',
    b'{"query": "a door", "hits": [{"path": "a.mp4", "video": 1, "start": 1, "end": 2.5}]}',
    b'[{"video": "a.mp4", "start": "1:02:03", "end": 4000, "label": null}]',
]

TARGETS = (
    Target("exported-moments", (ExportError,), _MOMENTS, lambda scratch: lambda data: _read_moments(data)),
    Target("subtitles", (MediaError,), _TEXTS, of_file("film.en.srt", read_subtitles)),
    Target("recipe", (EncoderError,), [_RECIPE], lambda scratch: lambda data: _read_recipe(data)),
    Target(
        "weights-note",
        (EncoderError,),
        [BREAK.join([_NOTE, b"x"])],
        of_files((HASHES_FILE, "model.safetensors"), require_unchanged),
    ),
)


def _read_moments(data: bytes) -> None:
    parse_moments(data.decode("utf-8", "replace"))


def _read_recipe(data: bytes) -> None:
    found = Recipe.from_json(data.decode("utf-8", "replace"))
    try:
        found.require(Recipe("clip"))
    except EncoderError:
        return
