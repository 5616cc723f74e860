"""Problems with object storage end in a message and leave one complete state for everybody."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.library import Library
from prvr.objects import lease, newest_manifest, open_object_store, open_published, published_problems, working_copy
from prvr.objects.copies import Copy, fetch_newest
from prvr.objects.manifest import Manifest, Segment, read_manifest
from prvr.objects.store import FolderStore, StoreError
from tests.objects.conftest import RATE, add
from tests.objects.s3 import BUCKET, S3, free_port

Machine = Callable[[str], None]


@dataclass(frozen=True)
class Answer:
    """Of a command as a user gives it."""

    status: int
    out: str
    err: str

    def refuses(self, said: str) -> None:
        """In one sentence, with the exit status 1."""
        assert self.status == 1, self.err
        assert self.err.count("error:") == 1, self.err
        assert said in self.err, self.err


Prvr = Callable[..., Answer]


@pytest.fixture
def prvr(capsys: pytest.CaptureFixture[str]) -> Prvr:
    def given(*words: str) -> Answer:
        status = main(words)
        return Answer(status, *capsys.readouterr())

    return given


def test_commands_on_a_real_s3_server(
    server: S3, tmp_path: Path, some: list[Path], prvr: Prvr, machine: Machine
) -> None:
    """add, search, status, list, verify, remove; and what they say where a bucket, a key or a server is wrong."""
    address = server.address(f"{tmp_path.name}/films.prvr")
    place = ("--library", address)
    added = prvr("library", "add", *map(str, some[:2]), *place, "--rate", "2")
    assert (added.status, "2 added" in added.out) == (0, True), added.err
    assert address in added.out
    for name in ("status", "list", "verify"):
        assert prvr("library", name, *place).status == 0
    assert prvr("library", "remove", str(some[0]), *place).status == 0
    machine("another machine")
    found = prvr("search", "a red square", *place, "--json")
    assert [Path(hit["path"]).name for hit in json.loads(found.out)["hits"]] == [some[1].name]
    assert "another machine" in found.err  # where the copy lies
    prvr("library", "status", "--library", server.address("films.prvr", "nowhere")).refuses("no bucket nowhere")
    prvr("search", "red", "--library", server.address("nothing")).refuses("no library was published")
    prvr("library", "remove", "film.mp4", "--library", server.address("nothing")).refuses("there is no library at")
    prvr("library", "add", "s3://bucket/film.mp4", *place).refuses("videos must be files")
    prvr("serve", address, "--cluster", "local").refuses("of which a copy is searched here")


def test_nobody_answers(some: list[Path], prvr: Prvr) -> None:
    pytest.importorskip("pyarrow")
    address = f"s3://{BUCKET}/films.prvr?endpoint_override=http://127.0.0.1:{free_port()}&region=us-east-1"
    prvr("library", "add", str(some[0]), "--library", address).refuses("no server answers there")


def test_wrong_keys(prvr: Prvr) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("moto")
    strict = S3(free=1)
    try:
        prvr("library", "list", "--library", strict.address("films.prvr")).refuses("access is denied")
    finally:
        strict.kill()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ftp://host/films.prvr", "s3://, gs:// or file://"),
        ("s3://key:secret@bucket/films", "must not contain keys"),
        ("s3://key:with/secret@bucket/films", "must not contain keys"),
        ("s3://bucket/films?access_key=key&secret_key=secret", "must not contain keys"),
        ("s3://bucket/films?endpoint_override=http://key:secret@host", "must not contain keys"),
        ("ftp://key:secret@host/films", "must not contain keys"),
        ("s3://[bucket/films", "is not an address"),
        ("file:///films%00.prvr", "does not name a folder"),
        ("file:///\udcff/films.prvr", "is not an address"),
        ("s3://bucket", "does not name a place"),
        ("file://films.prvr", "three slashes"),
        ("s3://bucket/films?colour=secret", "unknown option colour"),
        ("gs://bucket/films?colour=secret", "unknown option colour"),
    ],
)
def test_addresses_that_name_nothing(address: str, said: str, prvr: Prvr) -> None:
    found = prvr("library", "list", "--library", address)
    found.refuses(said)
    assert "secret" not in found.err


def test_a_server_that_is_killed_half_way(some: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was published stays; what was not is added by the same command when the server is back."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("moto")
    monkeypatch.setattr("prvr.objects.buckets.TRIES", 1)
    server = S3()
    address = server.address("films.prvr")

    def add_and_lose_it() -> None:
        with working_copy(address) as copy:
            lib = copy.open_or_create(rate=RATE)
            lib.add(some[:1])
            copy.publish()
            lib.add(some[1:2])
            server.kill()

    with pytest.raises(StoreError, match="no server answers"):
        add_and_lose_it()
    with pytest.raises(StoreError, match="no server answers"):
        open_published(address)


class Failing(FolderStore):
    """Storage that fails at one of its writes."""

    left = 0

    def put(self, name: str, data: bytes) -> None:
        if name != lease.LEASE:
            Failing.left -= 1
            if Failing.left == 0:
                raise StoreError("the storage failed")
        super().put(name, data)


def test_an_upload_that_fails_at_any_object(
    made: FolderStore, some: list[Path], whole: Library, monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    """Readers see the old state until the very end; the same command then goes on, and nothing is left over."""
    before = newest_manifest(made)
    monkeypatch.setattr("prvr.objects.writer.open_object_store", lambda address: Failing(address, made.folder))
    for at in (1, 2, 5, 9):
        Failing.left = at
        with pytest.raises(StoreError, match="failed"):
            add(made.address, some[2:3])
        assert newest_manifest(made) == before
    Failing.left = 0
    with working_copy(made.address) as copy:
        assert Library.open(copy.folder).add(some[2:3]).unchanged
    machine("second")
    assert len(open_published(made.address).videos()) == 3
    manifests = [read_manifest(made, name) for name in made.list("manifests")]
    assert made.list("objects").keys() == {name for each in manifests for name in each.objects}


def test_a_damaged_object_is_named(made: FolderStore, machine: Machine) -> None:
    manifest = newest_manifest(made)
    assert manifest is not None
    part = manifest.files["catalogue.sqlite"][0]
    content = made.get(part.name)
    machine("second")
    made.put(part.name, content[:-1] + b"?")
    with pytest.raises(StoreError, match=f"{part.name}.*is damaged"):
        open_published(made.address)
    made.put(part.name, content[:-1])
    assert any(part.name in problem for problem in published_problems(made.address))
    made.delete([part.name])
    with pytest.raises(StoreError, match=rf"{part.name}.* does not exist"):
        open_published(made.address)
    made.put(part.name, content)
    assert len(open_published(made.address).videos()) == 2  # and nothing of the failures is left in the copy


def test_a_damaged_manifest_and_one_of_a_newer_version_are_refused(made: FolderStore) -> None:
    manifest = newest_manifest(made)
    assert manifest is not None
    made.put("manifests/notes.json", b"of somebody")
    assert newest_manifest(made) == manifest
    made.put(manifest.name, manifest.text.replace("files", "flies").encode())
    with pytest.raises(StoreError, match="is damaged"):
        open_published(made.address)
    newer = Manifest(manifest.generation + 1, manifest.name, manifest.copy, 0, {}, "9.9")
    newer.__dict__["text"] = json.dumps({**json.loads(newer.text), "format": 2, "more": "than we know"})
    made.put(newer.name, newer.text.encode())
    for change in (lambda: open_published(made.address), lambda: working_copy(made.address).__enter__()):
        with pytest.raises(StoreError, match=r"newer prvr \(format 2, made by 9\.9"):
            change()


def test_a_manifest_cannot_write_outside_the_copy(made: FolderStore) -> None:
    part = Segment(f"objects/{'0' * 64}-0", 0)
    paths = ("../outside", "/etc/outside", "shards/../../outside", "")
    names = ("../x", "lease.json", f"objects/{'0' * 63}", f"objects/../{'0' * 64}-0")
    evils = [Manifest(9, None, "", 0, {path: (part,)}) for path in paths]
    evils += [Manifest(9, None, "", 0, {"a": (Segment(part.name, size),)}) for size in (-1, 1 << 60)]
    for evil in [*evils, *(Manifest(9, None, "", 0, {"a": (Segment(name, 1),)}) for name in names)]:
        made.put(evil.name, evil.text.encode())
        with pytest.raises(StoreError, match="is not"):
            open_published(made.address)
        made.delete([evil.name])


def test_a_store_that_cannot_be_looked_into_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="could not be listed: Not a directory"):
        open_object_store((tmp_path / "file" / "films.prvr").as_uri()).list("manifests")


def test_a_library_that_is_gone_is_not_created_again(made: FolderStore, some: list[Path], machine: Machine) -> None:
    """A disk that is not mounted looks like a place where nothing was published."""
    add(made.address, some[:2])
    made.folder.rename(made.folder.with_name("elsewhere"))
    with pytest.raises(StoreError, match=r"nothing is published .* any more"):
        add(made.address, some[2:3])
    assert not made.folder.exists()
    made.folder.with_name("elsewhere").rename(made.folder)
    add(made.address, some[2:3])
    assert len(open_published(made.address).videos()) == 3


@pytest.mark.parametrize("name", ["library.json", "catalogue.sqlite", "local.values.bin"])
def test_what_went_away_in_a_copy_is_fetched_again(name: str, made: FolderStore, machine: Machine) -> None:
    """Caches are emptied, by half too."""
    (path,) = open_published(made.address).folder.rglob(name)
    content = path.read_bytes()
    for left in (None, b"", content[:-1]):
        path.unlink() if left is None else path.write_bytes(left)
        assert open_published(made.address).verify().ok
        assert path.read_bytes() == content


@pytest.mark.usefixtures("short_silence")
def test_a_damaged_copy_is_found_and_not_published(made: FolderStore, some: list[Path], machine: Machine) -> None:
    before = newest_manifest(made)
    (path,) = open_published(made.address).folder.rglob("local.values.bin")
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    (problem,) = published_problems(made.address)
    assert str(path) in problem
    with pytest.raises(
        StoreError, match=rf"{path} no longer holds what was published of it.*delete {path.parents[3]} "
    ):
        add(made.address, some[2:3])
    assert newest_manifest(made) == before
    shutil.rmtree(path.parents[3])  # as it says
    add(made.address, some[2:3])
    assert published_problems(made.address) == []


def test_what_a_kill_leaves_in_a_folder_is_tidied_away(made: FolderStore, some: list[Path]) -> None:
    left = made.folder / "objects" / ".ab12.part"
    left.write_bytes(b"half of an object")
    add(made.address, some[2:3])
    assert not left.exists()


def test_a_reader_is_overtaken(made: FolderStore, some: list[Path], machine: Machine) -> None:
    """While it fetches, the state it fetches is tidied away: it takes the newest one."""
    old = newest_manifest(made)
    assert old is not None
    machine("second")
    names = iter([old])

    class Overtaken(FolderStore):
        def list(self, folder: str) -> dict[str, int]:
            return {each.name: 1 for each in names} or super().list(folder)

    machine("first")
    with working_copy(made.address) as copy:
        Library.open(copy.folder).remove(some[:1])
    made.put(old.name, old.text.encode())
    made.delete(set(old.objects) - set(newest_manifest(made).objects))  # type: ignore[union-attr]
    machine("second")
    here = Copy.of(made.address)
    found = fetch_newest(Overtaken(made.address, made.folder), here)
    assert found is not None
    assert found.generation == old.generation + 1
    assert len(Library.open(here.folder).videos()) == 1


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "prvr\[objects\]"'):
        open_object_store("s3://bucket/films")
