"""A library's settings, its catalogue, and the words of a filter."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

from prvr.library import Library, LibraryError
from prvr.library.search.filters import Filters
from prvr.library.store.catalogue import Catalogue, NewVideo, put_video, read_videos
from prvr.library.store.settings import LibraryRecord, LibrarySettings, read_record, write_record
from prvr.media.errors import EncoderError
from prvr.media.recipe import Recipe
from tests.fuzz.target import Read, Target, of_file


def _about() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        write_record(
            Path(place), LibraryRecord(LibrarySettings("plain"), {"frames": asdict(Recipe("plain-1", width=296))})
        )
        return (Path(place) / "library.json").read_bytes()


def _read_settings(path: Path) -> None:
    found = read_record(path.parent).settings
    assert isinstance(found.encoder, str)
    assert isinstance(found.text_encoder, str | None)
    assert isinstance(found.rate + found.window + found.stride, int | float)


def _catalogue() -> bytes:
    with tempfile.TemporaryDirectory() as place:
        catalogue = Catalogue(Path(place))
        with catalogue.writing() as db:
            for number in range(3):
                put_video(db, NewVideo(Path(f"/films/{number}.mp4"), 5, 6, "ab", tags=("home",), frames=2, added=1.5))
        return catalogue.path.read_bytes()


def _read_catalogue(scratch: Path) -> Read:
    lib = Library.create(scratch / "library", encoder="plain")
    catalogue = Catalogue(lib.folder)

    def read(data: bytes) -> None:
        catalogue.path.write_bytes(data)
        with catalogue.reading() as db:
            read_videos(db)
        lib.verify()

    return read


def _filter(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    Filters(after=text, before=text).choose([])


TARGETS = (
    Target("library-settings", (LibraryError,), [_about()], of_file("library.json", _read_settings)),
    Target("catalogue", (LibraryError, EncoderError), [_catalogue()], _read_catalogue),
    Target("filter-dates", (LibraryError,), [b"2024-05-31", b"2024-05-31T18:00:01+02:00"], lambda scratch: _filter),
)
