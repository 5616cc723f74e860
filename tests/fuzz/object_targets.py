"""A published library: its manifest, its lease, an address, what a local copy notes of itself; a worker's piece."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from unittest import mock

import torch
from safetensors.torch import save

from prvr.cluster.pieces import pack_video, unpack_video
from prvr.library import IndexedVideo, LibraryError, NewVideo, Section, SectionBuffer
from prvr.media import TimedLine
from prvr.objects import Copy, newest_manifest, open_object_store
from prvr.objects.fetch import fetch_state
from prvr.objects.lease import LEASE, Lease
from prvr.objects.manifest import Manifest, Segment
from prvr.objects.store import FolderStore
from tests.fuzz.target import Read, Target, of_file

_ADDRESS = "file:///published"
_ABOUT = b"{}"
_PART = Segment(f"objects/{hashlib.sha256(_ABOUT).hexdigest()}-0123456789ab", len(_ABOUT))
_MANIFEST = Manifest(12, "manifests/000000000011-ab.json", "one@here", 0, {"library.json": (_PART,)})
_VIDEO = NewVideo(Path("/films/1.mp4"), 5, 6, "ab")


def _published(scratch: Path) -> FolderStore:
    store = FolderStore(_ADDRESS, scratch / "store")
    store.put(_PART.name, _ABOUT)
    return store


def _read_manifest(scratch: Path) -> Read:
    """Under the name that fits its content, so that more than its hash is checked; then fetch what it lists."""
    store = _published(scratch)

    def read(data: bytes) -> None:
        number = re.search(rb'"generation": (\d{1,12})\b', data)
        name = f"manifests/{int(number[1]) if number else 1:012d}-{hashlib.sha256(data).hexdigest()[:32]}.json"
        store.delete(store.list("manifests"))
        store.put(name, data)
        found = newest_manifest(store)
        assert found is not None
        fetch_state(store, found, scratch / "copy", {})
        assert Manifest(found.generation + 1, found.name, found.copy, found.catalogue, found.files).name

    return read


def _read_lease(scratch: Path) -> Read:
    store = _published(scratch)
    lease = Lease(store, "one@here")
    lease.mine["owner"] = "ab"  # as the right document has it

    def read(data: bytes) -> None:
        store.put(LEASE, data)
        lease.check()

    return read


def _read_address(scratch: Path) -> Read:
    def read(data: bytes) -> None:
        with (
            mock.patch.dict(os.environ, {"PRVR_CACHE": str(scratch)}),
            mock.patch("prvr.objects.buckets.open_bucket", lambda address: FolderStore(address, scratch / "bucket")),
        ):
            store = open_object_store(os.fsdecode(data))
            store.list("manifests")
            assert Copy(store.address).home.parent == scratch

    return read


def _read_copy(scratch: Path) -> Read:
    store = _published(scratch)
    with mock.patch.dict(os.environ, {"PRVR_CACHE": str(scratch)}):
        state = Copy(_ADDRESS).home / "copy.json"

    def read(data: bytes) -> None:
        with mock.patch.dict(os.environ, {"PRVR_CACHE": str(scratch)}):
            state.parent.mkdir(exist_ok=True)
            state.write_bytes(data)
            copy = Copy.of(_ADDRESS)
            copy.fetch(store, _MANIFEST)
            assert (copy.folder / "library.json").read_bytes() == _ABOUT

    return read


def _copy() -> bytes:
    files = {"library.json": [[_PART.name, _PART.size]], "shards/1/local.values.bin": [[_PART.name, _PART.size]]}
    return json.dumps({"id": "one@here", "base": _MANIFEST.name, "files": files}).encode()


def _piece() -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    track = SectionBuffer(Path())
    track.add(Section({"frames": 2}, {"spans": torch.ones(1, 2), "local.values": torch.ones(1, 4)}, 2))
    return pack_video(IndexedVideo(_VIDEO, {"frames": track}, (TimedLine(0.0, 1.0, "hello"),)))


def _read_piece(path: Path) -> None:
    found = unpack_video(path, path.parent, _VIDEO)
    assert found is None or found.video.path == _VIDEO.path


def _read_piece_note(scratch: Path) -> Read:
    """What a piece says of itself, in a file that is whole."""
    arrays, _ = _piece()
    path = scratch / "piece.safetensors"

    def read(data: bytes) -> None:
        path.write_bytes(save(arrays, {"piece": data.decode("utf-8", "replace")}))
        _read_piece(path)

    return read


TARGETS = (
    Target("manifest", (LibraryError,), [_MANIFEST.text.encode()], _read_manifest),
    Target(
        "lease",
        (LibraryError,),
        [b'{"owner": "ab", "copy": "one@here", "holder": "process 1 on here", "beat": 3}'],
        _read_lease,
    ),
    Target("address", (LibraryError,), [b"file:///a/films.prvr", b"s3://bucket/films.prvr?region=x"], _read_address),
    Target("copy-state", (), [_copy()], _read_copy),
    Target("piece", (), [save(*_piece())], of_file("piece.safetensors", _read_piece)),
    Target("piece-note", (), [_piece()[1]["piece"].encode()], _read_piece_note),
)
