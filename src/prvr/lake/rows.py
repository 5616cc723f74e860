"""The rows of a lake's tables: videos, sections and settings, as Arrow.

A row of ``videos`` is a file that the library knows. A row of ``frames`` or ``text`` is a section: a multivector
(``stretches``, which the index searches), the scores of the background sentences, and one binary value with all arrays
that scoring and evidence need. One value is one read, wherever the table lies. What the arrays are is written in the
table's schema.

The sections of a video are found by its ``part``: a random number that is drawn anew whenever the video is indexed.
Sections without a video that names their part do not exist for a reader. So a process may be killed between writing
sections and committing their video, or index a file again, and nothing is ever seen twice.
"""

from __future__ import annotations

import json
import math
import secrets
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prvr.lake.tables import DamagedTable
from prvr.library import (
    PAGED_ARRAYS,
    STRETCHES,
    IndexedVideo,
    NewVideo,
    Section,
    SectionBlock,
    Video,
    stretch_column,
    stretch_type,
)
from prvr.media import TimedLine, video_path
from prvr.scoring import array_bytes

if TYPE_CHECKING:
    import pyarrow as pa

HEAD = 0  # number of the row of ``videos`` that holds no video but, as its size, the next free number
_ABOUT, _CHECKSUM = b"prvr", b"prvr.checksum"  # in the schema of a table of sections
_ROUTES = {"routes.grounding", "routes.ceiling", "routes.gram"}
_NEEDED = {"local.values", "registers.values", "values.values", "spans"} | _ROUTES  # arrays that every section has
VIDEO_COLUMNS = tuple(field.name for field in fields(Video))
SEALED_COLUMNS = (*VIDEO_COLUMNS, "part", "frames_sections", "text_sections")
SEAL, LINES_SEAL = "seal", "lines_seal"  # columns with checksums; lakes of format 1 have none


# -- videos -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrittenVideo:
    """A video whose sections are written but not committed."""

    video: NewVideo
    part: int
    sections: dict[str, int]  # by track
    tokens: int
    lines: tuple[TimedLine, ...] = ()
    repeats: int = 0  # frames that were not encoded again


def new_part() -> int:
    """A number for the sections of a video that is about to be written."""
    return secrets.randbits(63)


def video_schema() -> pa.Schema:
    import pyarrow as pa

    text, integer, real = pa.string(), pa.int64(), pa.float64()
    line = pa.struct([("start", real), ("end", real), ("text", text)])
    kinds = {"id": integer, "path": text, "size": integer, "mtime": integer, "digest": text, "subtitles": text}
    kinds |= {"state": text, "problem": text, "duration": real, "width": integer, "height": integer, "fps": real}
    kinds |= {"frames": integer, "tags": pa.list_(text), "added": real}
    kinds |= {"part": integer, "frames_sections": integer, "text_sections": integer, "tokens": integer}
    return pa.schema([*kinds.items(), ("lines", pa.list_(line)), (SEAL, integer), (LINES_SEAL, integer)])


def sealed(rows: pa.Table) -> pa.Table:
    """Rows of ``videos`` with checksums of what they say. They find changed bits, which Lance does not."""
    import pyarrow as pa

    values = rows.to_pylist()
    for name, seal in ((SEAL, seal_of), (LINES_SEAL, lines_seal_of)):
        column = pa.array([seal(row) for row in values], pa.int64())
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return rows


def seal_of(row: Mapping[str, Any]) -> int:
    """The checksum of a row but for its lines."""
    return zlib.crc32(repr([row[name] for name in SEALED_COLUMNS]).encode("utf-8", "surrogatepass"))


def lines_seal_of(row: Mapping[str, Any]) -> int:
    """The checksum of the lines of a row."""
    return zlib.crc32(repr(row["lines"]).encode("utf-8", "surrogatepass"))


def is_broken(row: Mapping[str, Any]) -> bool:
    """Whether a row does not say what was written. Rows of older lakes have no checksum."""
    return row.get(SEAL) is not None and row[SEAL] != seal_of(row)


def head_row(next_number: int) -> dict[str, Any]:
    """The row that every change of the table replaces, so that Lance refuses the second of two changes at a time."""
    empty = dict.fromkeys(video_schema().names)
    return {**empty, "id": HEAD, "path": "", "state": "head", "size": next_number}


def video_row(written: WrittenVideo, number: int, tags: Iterable[str]) -> dict[str, Any]:
    return {
        **vars(written.video),
        "id": number,
        "path": str(written.video.path),
        "tags": sorted({*written.video.tags, *tags}),
        "part": written.part,
        "frames_sections": written.sections.get("frames", 0),
        "text_sections": written.sections.get("text", 0),
        "tokens": written.tokens,
        "lines": [{"start": line.start, "end": line.end, "text": line.text} for line in written.lines],
    }


def read_video(row: Mapping[str, Any]) -> Video:
    values = {name: row[name] for name in VIDEO_COLUMNS}
    return Video(**{**values, "path": video_path(row["path"]), "tags": tuple(row["tags"])})


def has_broken_lines(row: Mapping[str, Any]) -> bool:
    """The same for the lines of a row."""
    return row.get(LINES_SEAL) is not None and row[LINES_SEAL] != lines_seal_of(row)


def is_damaged(row: Mapping[str, Any]) -> bool:
    """The same for all of a row. To write it again would give the damage a checksum that fits."""
    return is_broken(row) or has_broken_lines(row)


# -- sections ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SectionLayout:
    """How the arrays of a section lie in its binary value: first those with one row, then those with a row per page."""

    about: dict[str, Any]  # the gallery's description
    arrays: dict[str, dict[str, Any]]  # by name, in order: dtype, and shape without the first axis
    sentences: int  # background sentences
    width: int

    @staticmethod
    def of(section: Section) -> SectionLayout:
        names = [name for name in section.arrays if name not in ("pages", "background")]
        names.sort(key=lambda name: (name in PAGED_ARRAYS, name))
        arrays = {
            name: {
                "dtype": section.arrays[name].dtype.name,
                "shape": list(section.arrays[name].shape[1:]),
            }
            for name in names
        }
        about = json.loads(json.dumps(section.about))
        values = section.arrays["local.values"]
        return SectionLayout(about, arrays, section.arrays["background"].shape[1], values.shape[2])

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        about = json.dumps(asdict(self)).encode()
        return pa.schema(
            [
                ("part", pa.int64()),
                ("section", pa.int32()),
                ("tokens", pa.int32()),
                ("checksum", pa.int64()),  # of ``background`` and ``arrays``
                (STRETCHES, stretch_type(self.width)),
                ("background", pa.list_(pa.float32(), 2 * self.sentences)),
                ("arrays", pa.large_binary()),
            ],
            metadata={_ABOUT: about, _CHECKSUM: b"%d" % zlib.crc32(about)},
        )

    @staticmethod
    def from_schema(schema: pa.Schema) -> SectionLayout:
        try:
            metadata = schema.metadata or {}
            text = metadata[_ABOUT]
            if metadata.get(_CHECKSUM, b"%d" % zlib.crc32(text)) != b"%d" % zlib.crc32(text):
                raise ValueError("its checksum differs")
            layout = SectionLayout(**json.loads(text))
            if missing := _NEEDED - layout.arrays.keys():
                raise ValueError(f"it lacks {min(missing)}")
            return layout
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise DamagedTable(f"the description of a table is damaged ({problem}): restore it from a copy") from None

    def item_bytes(self, name: str) -> int:
        """Bytes of one row or page of an array."""
        about = self.arrays[name]
        return math.prod(about["shape"]) * np.dtype(about["dtype"]).itemsize

    def rows(self, sections: Sequence[tuple[int, int, Section]]) -> pa.Table:
        """Rows of (part, place in the video, section)."""
        import pyarrow as pa

        parts, places, stored = zip(*sections, strict=True)
        counts = np.array([section.tokens for section in stored])
        background = np.stack([section.arrays["background"].ravel() for section in stored])
        values = [self._value(section) for section in stored]
        columns = {
            "part": pa.array(parts, pa.int64()),
            "section": pa.array(places, pa.int32()),
            "tokens": pa.array(counts, pa.int32()),
            "checksum": pa.array(map(checksum_of, background, values), pa.int64()),
            STRETCHES: stretch_column(np.concatenate([_tokens(section) for section in stored]), counts),
            "background": pa.FixedSizeListArray.from_arrays(pa.array(background.ravel()), 2 * self.sentences),
            "arrays": pa.array(values, pa.large_binary()),
        }
        return pa.table(columns, schema=self.schema())

    def _value(self, section: Section) -> bytes:
        """All arrays of a section, one after the other."""
        return b"".join(bytes(array_bytes(section.arrays[name])) for name in self.arrays)

    def block(self, values: Sequence[Any], projection: NDArray[np.float32] | None) -> SectionBlock:
        """Binary values of n sections as one gallery with n rows."""
        paged = [name for name in self.arrays if name in PAGED_ARRAYS]
        single = sum(self.item_bytes(name) for name in self.arrays if name not in PAGED_ARRAYS)
        page = sum(self.item_bytes(name) for name in paged)
        raw = [np.frombuffer(value, np.uint8) for value in values]
        pages = np.array([(len(value) - single) // page for value in raw], np.int64)
        if any(single + count * page != len(value) for count, value in zip(pages, raw, strict=True)):
            raise DamagedTable("a section has a wrong size: `prvr library verify` names the videos that are damaged")
        arrays: dict[str, NDArray[Any]] = {"pages": pages.astype(np.int32)}
        begins = np.zeros(len(raw), np.int64)
        for name, about in self.arrays.items():
            lengths = self.item_bytes(name) * (pages if name in PAGED_ARRAYS else np.ones_like(pages))
            joined = np.concatenate(
                [value[begin : begin + length] for value, begin, length in zip(raw, begins, lengths, strict=True)]
            )
            arrays[name] = joined.view(about["dtype"]).reshape(-1, *about["shape"])
            begins = begins + lengths
        return SectionBlock(self.about, arrays, projection)


def checksum_of(background: NDArray[np.float32], arrays: bytes | memoryview) -> int:
    """What shows that a section has changed since it was written."""
    return zlib.crc32(arrays, zlib.crc32(background.tobytes()))


def _tokens(section: Section) -> NDArray[np.float32]:
    """(n, D): the tokens of a section."""
    values, scale = section.arrays["local.values"].astype(np.float32), section.arrays.get("local.scale")
    floats = values if scale is None else values * scale[..., None]
    return floats.reshape(-1, floats.shape[-1])[: section.tokens]


def written_video(indexed: IndexedVideo, part: int) -> WrittenVideo:
    """Describe an indexed video whose sections are written under a part."""
    counts = {track: len(sections) for track, sections in indexed.tracks.items()}
    tokens = sum(section.tokens for sections in indexed.tracks.values() for section in sections)
    return WrittenVideo(replace(indexed.video), part, counts, tokens, indexed.lines, indexed.repeats)
