"""The settings of a lake, in a table of their own: ``library.json``, and the files of a trained model.

A lake exists when its settings do. They never change. A lake that was reindexed has its tables in a folder below: the
head row of ``videos`` names it, see ``rebuild.py``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from prvr.files import whole_folder
from prvr.lake.rows import HEAD, head_row, sealed, video_schema
from prvr.lake.sections import described
from prvr.lake.tables import Table, explained
from prvr.library import RECORD_FILE, LibraryError, LibraryRecord, model_problem, parse_record

if TYPE_CHECKING:
    from lance import LanceDataset

SETTINGS, VIDEOS = "settings", "videos"  # names of tables
FORMAT = 2  # of the tables; the newest that this program reads. 1: videos have no checksums


def create_tables(address: str, record: LibraryRecord, model: Path | None = None) -> None:
    """Create an empty lake. If another process is first, its settings count.

    Args:
        address: where the tables will be.
        record: the library's settings.
        model: the folder of its trained model, if it has one.
    """
    import pyarrow as pa

    files = {RECORD_FILE: json.dumps({**json.loads(record.to_json()), "lake": FORMAT}).encode()}
    if record.model is not None and model is not None:
        found = [path for path in model.rglob("*") if path.is_file()]
        files |= {f"{record.model.folder}/{path.relative_to(model).as_posix()}": path.read_bytes() for path in found}
    _require_free(address)
    Table(address, VIDEOS).create(sealed(pa.Table.from_pylist([head_row(1)], schema=video_schema())))
    rows = pa.table({"name": list(files), "content": pa.array(list(files.values()), pa.large_binary())})
    Table(address, SETTINGS).create(rows)  # last: a lake exists when its settings do


def _require_free(address: str) -> None:
    """Refuse an address that holds something else than what a killed process left behind while it created a lake."""
    videos, folder = Table(address, VIDEOS).open(), Path(address)
    if videos is not None and videos.count_rows() > 1:
        raise Table(address, SETTINGS).lost()
    left = {f"{VIDEOS}.lance", f"{SETTINGS}.lance"}
    if folder.is_dir() and {path.name for path in folder.iterdir()} - left:
        raise LibraryError(f"{address} holds something else: choose a folder that is empty or does not exist")


def newest_place(address: str) -> str:
    """Where the tables of a lake are now: at its address, or below it if it was reindexed."""
    videos = Table(address, VIDEOS).open()
    below = None if videos is None else moved_to(videos, address)
    return address if below is None else newest_place(f"{address}/{below}")


def moved_to(videos: LanceDataset, address: str) -> str | None:
    """The folder that one version of the table of videos was replaced by; None if it counts."""
    with explained(address):
        heads = videos.to_table(columns=["problem"], filter=f"id = {HEAD}").to_pylist()
    return heads[0]["problem"] if heads else None


def read_lake_record(address: str) -> LibraryRecord:
    """The settings of the library at an address."""
    files = read_settings(address)
    if RECORD_FILE not in files:
        raise LibraryError(
            f"there is no library at {address}: `prvr library add --library {address} VIDEOS…` creates one"
        )
    text = files[RECORD_FILE].decode("utf-8", "replace")
    record = parse_record(text, f"{address}/{RECORD_FILE}", address)
    with described(address):
        newer = int(json.loads(text).get("lake", 0)) > FORMAT
    if newer:
        raise LibraryError(f"{address} was created by a newer prvr ({record.made_by}): update prvr")
    return record


def read_settings(address: str) -> dict[str, bytes]:
    """The files that are kept in the table of settings, by name; none if there is no such table."""
    opened = Table(address, SETTINGS).open()
    if opened is None:
        return {}
    with explained(address), described(f"{address}/{SETTINGS}.lance"):
        return {row["name"]: bytes(row["content"]) for row in opened.to_table().to_pylist()}


def fetch_model(address: str, record: LibraryRecord) -> Path:
    """A folder on this machine with a lake's trained model. It is fetched once, into the user's cache."""
    model = record.model
    assert model is not None
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prvr" / model.name
    if model_problem(model, place) is not None:
        prefix = f"{model.folder}/"
        place.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(place) as folder:
            for name, content in read_settings(address).items():
                if name.startswith(prefix):
                    file = folder / name.removeprefix(prefix)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(content)
    return place


def lake_exists(address: str) -> bool:
    """Whether there is a library at an address."""
    return Table(address, SETTINGS).open() is not None
