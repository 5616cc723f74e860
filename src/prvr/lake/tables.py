"""Lance tables at an address: open, create and commit, with errors that say what to do.

Lance (the package ``pylance``) keeps versions of a table on a disk or in a bucket. Writers add files and then commit a
new version; readers keep the version that they opened. Credentials come from the environment, as Lance reads them
(``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ``GOOGLE_APPLICATION_CREDENTIALS``, ``AZURE_STORAGE_ACCOUNT_NAME`` …).
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from prvr.library import LibraryError, is_lance_error, require_lance

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import FragmentMetadata, LanceDataset

_RETRIES = {"client_max_retries": "4", "client_retry_timeout": "30", "connect_timeout": "5 s", "timeout": "60 s"}
_CONFLICTS = 200  # lost races against other writers before a command gives up
_Result = TypeVar("_Result")
_lance = partial(require_lance, "scale")


class LakeError(LibraryError):
    """The tables of a lake cannot be read or written. The message says what to do."""


class StoreAway(LakeError):
    """The storage cannot be read now. It may later."""


class DamagedTable(LakeError):
    """A file of a table is missing or damaged."""


class CommitConflict(LakeError):
    """Another process has changed the table since it was read: read it again and try once more."""


def is_lake(address: str) -> bool:
    """Whether a library's address names Lance tables rather than a folder of ``prvr.library``.

    >>> is_lake("s3://bucket/films"), is_lake("/disk/films.lance"), is_lake("films.prvr")
    (True, True, False)
    """
    return "://" in address or address.rstrip("/\\").endswith(".lance")


def storage_options(address: str) -> dict[str, str]:
    """How Lance reaches the storage of an address."""
    if re.match(r"[^/]*://[^/@]*:[^@]*@", address):
        raise LakeError("an address must not contain keys: put them into the environment")
    if "://" not in address or address.startswith("file://"):
        return {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    plain = {"allow_http": "true", "aws_endpoint": endpoint} if endpoint.startswith("http://") else {}
    return {**_RETRIES, **plain}


class Table:
    """One table of a lake, which may not exist yet."""

    def __init__(self, lake: str, name: str):
        self.lake, self.name = lake, name
        self.uri = f"{lake.rstrip('/')}/{name}.lance"
        self.options = storage_options(lake)

    def open(self, **options: Any) -> LanceDataset | None:
        """The newest version; None if the table does not exist."""
        try:
            with explained(self.lake):
                made = _lance().dataset(self.uri, storage_options=self.options, **options)
            return cast("LanceDataset", _Guarded(made, self.lake))
        except _NotFound:
            return None

    def require(self) -> LanceDataset:
        """The newest version of a table that must exist."""
        table = self.open()
        if table is None:
            raise self.lost()
        return table

    def lost(self) -> DamagedTable:
        return DamagedTable(f"{self.lake} has lost its table {self.name!r}: restore it from a copy")

    def create(self, rows: pa.Table) -> bool:
        """Create the table with these rows. Returns False if it exists already, perhaps by another process.

        ``write_dataset(mode="create")`` would not do: of several that run at the same time, the last one overwrites.
        """
        lance, fragments = _lance(), self.write(rows) if len(rows) else []
        first = lance.LanceOperation.Overwrite(rows.schema, fragments)
        try:
            with explained(self.lake):
                commit = partial(lance.LanceDataset.commit, enable_v2_manifest_paths=True, max_retries=0)
                commit(self.uri, first, read_version=0, storage_options=self.options)
        except (_Exists, _NotFound):  # not found: version 0, on which the first one is based
            return False
        return True

    def write(self, rows: pa.Table) -> list[FragmentMetadata]:
        """Write rows that become part of the table only by ``append``. Any process may do this at any time."""
        _lance()
        from lance.fragment import write_fragments

        with explained(self.lake):
            return list(write_fragments(rows, self.uri, schema=rows.schema, storage_options=self.options))

    def append(self, fragments: Sequence[FragmentMetadata]) -> None:
        """Make written rows part of the table. Several processes may do this at the same time."""
        self._commit(_lance().LanceOperation.Append(list(fragments)))

    def drop(self, fragments: Sequence[int]) -> None:
        """Delete files by the numbers of their fragments, without reading them."""
        self._commit(_lance().LanceOperation.Delete([], fragments, "true"))

    def _commit(self, operation: Any) -> None:
        def attempt() -> None:
            table = self.require()
            with explained(self.lake):
                commit = _lance().LanceDataset.commit
                commit(self.uri, operation, read_version=table.version, storage_options=self.options)

        until_committed(attempt)

    def delete(self, condition: str) -> None:
        """Delete the rows for which an SQL condition holds."""

        def attempt() -> None:
            table = self.open()
            if table is not None:
                with explained(self.lake):
                    table.delete(condition)

        until_committed(attempt)


class _NotFound(DamagedTable):
    pass


class _Exists(LakeError):
    pass


_SENTENCES: tuple[tuple[str, type[LakeError], str], ...] = (  # pattern, error, sentence
    (r"too many concurrent writers|commit conflict", CommitConflict, "other processes are writing; try again"),
    (r"dataset already exists", _Exists, "there is a table already"),
    (
        r"no object store provider|unable to find object store|url did not match|not a directory",
        LakeError,
        "this is no address of a library: write s3://BUCKET/NAME, gs://…, az://…, or a folder that ends in .lance",
    ),
    (r"nosuchbucket|bucket .*does not exist|container .*not exist", LakeError, "there is no such bucket: create it"),
    (r"resolve region", LakeError, "the bucket cannot be found: check its name and the network, or set AWS_REGION"),
    (
        r"accessdenied|access denied|invalidaccesskey|signaturedoesnotmatch|forbidden|unauthorized|\b40[13]\b|"
        r"no credentials|missing credentials|credential",
        LakeError,
        "the storage refused access: check the keys in the environment, and whether they allow reading and writing",
    ),
    (
        r"\b429\b|too many (requests|open files)|out of memory|cannot allocate memory",
        StoreAway,
        "the storage or this machine has too much to do: try again",
    ),
    (r"permission denied|read-only file system", LakeError, "this user can search the library, but not change it"),
    (r"no space left|quota", LakeError, "the disk is full: free some space and run the command again"),
    (
        r"error sending request|connection (refused|reset|closed)|timed? ?out|dns error|error trying to connect|"
        r"\b50[0234]\b|internal server error|slow ?down|service unavailable|incomplete message|response body",
        StoreAway,
        "the storage does not answer: try again when it does",
    ),
    (r"was not found|not found|no such file", _NotFound, "a part of the library is missing"),
)


class _Guarded:
    """An object of Lance. Whatever is read from it or called on it ends in errors that say what to do.

    Over damaged files, even reading a property (``schema``, ``version``) may fail, and not only with exceptions: Rust
    code panics.
    """

    def __init__(self, made: Any, lake: str):
        self._made, self._lake = made, lake

    def __getattr__(self, name: str) -> Any:
        with explained(self._lake):
            return self._guard(getattr(self._made, name))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        with explained(self._lake):
            return self._guard(self._made(*arguments, **options))

    def _guard(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._guard(each) for each in value]
        of_lance = type(value).__module__.partition(".")[0] == "lance"
        return _Guarded(value, self._lake) if of_lance or callable(value) else value


@contextmanager
def explained(lake: str) -> Iterator[None]:
    """Turn what Lance raises into errors that say what to do."""
    try:
        yield
    except BaseException as problem:
        if isinstance(problem, LakeError) or not is_lance_error(problem):
            raise
        text = re.sub(r", (/|[a-z]:\\)\S*\.rs:\d+:\d+.*$", "", str(problem), flags=re.S | re.I)
        words = _without_names(text, lake)
        for pattern, kind, sentence in _SENTENCES:
            if re.search(pattern, words, re.I):
                raise kind(f"{lake}: {sentence} ({_short(text)})") from problem
        raise DamagedTable(f"{lake}: {_short(text)}. `prvr library verify` checks the library.") from problem


def _without_names(text: str, lake: str) -> str:
    """A message without addresses, paths and names of files, which may contain any word."""
    place = lake.split("://")[-1].strip("/")
    for name in (place, quote(place)) if "/" in place else ():
        text = text.replace(name, "")
    return re.sub(r"https?://\S+|[\w.%~+=-]*(/[\w.%~+=-]+)+", "", text)


def table_bytes(table: LanceDataset) -> int:
    """The size of the files with a table's rows."""
    files = (file for fragment in table.get_fragments() for file in fragment.metadata.files)
    return sum(file.file_size_bytes or 0 for file in files)


def _short(text: str, most: int = 160) -> str:
    noise = r"LanceError\(IO\): |External error: |Generic \S+ error: |Error performing \w+ request: |https?://\S+ |<.*"
    line = " ".join(re.sub(noise, "", text, flags=re.S).split())
    return line if len(line) <= most else f"{line[:most]}…"


def until_committed(attempt: Callable[[], _Result]) -> _Result:
    """Repeat a change that begins by reading until no other process has changed the table in between."""
    for number in range(_CONFLICTS):
        try:
            return attempt()
        except CommitConflict:
            time.sleep(random.uniform(0, min(2.0, 0.05 * 2 ** min(number, 6))))
    return attempt()
