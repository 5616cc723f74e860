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
from typing import TYPE_CHECKING, Any, TypeVar

from prvr.library import LibraryError
from prvr.media import MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import FragmentMetadata, LanceDataset

_RETRIES = {"client_max_retries": "4", "client_retry_timeout": "30", "connect_timeout": "5 s", "timeout": "60 s"}
_CONFLICTS = 200  # lost races against other writers before a command gives up
_Result = TypeVar("_Result")


class LakeError(LibraryError):
    """The tables of a lake cannot be read or written. The message says what to do."""


class StoreAway(LakeError):
    """The storage does not answer. It may later."""


class CommitConflict(LakeError):
    """Another process has changed the table since it was read: read it again and try once more."""


def is_lake(address: str) -> bool:
    """Whether a library's address names Lance tables rather than a folder of ``prvr.library``.

    >>> is_lake("s3://bucket/films"), is_lake("/disk/films.lance"), is_lake("films.prvr")
    (True, True, False)
    """
    return "://" in address or address.rstrip("/\\").endswith(".lance")


def require_lance() -> Any:
    """Import Lance, or raise an error that says how to install it."""
    os.environ.setdefault("RUST_LOG", "error")  # otherwise Lance prints notes about every search
    try:
        import lance
    except ImportError as problem:
        raise MissingExtra("Lance, which libraries for many machines need,", "scale", problem) from None
    return lance


def storage_options(address: str) -> dict[str, str]:
    """How Lance reaches the storage of an address."""
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
                return require_lance().dataset(self.uri, storage_options=self.options, **options)
        except _NotFound:
            return None

    def create(self, rows: pa.Table) -> bool:
        """Create the table with these rows. Returns False if it exists already, perhaps by another process."""
        try:
            with explained(self.lake):
                require_lance().write_dataset(rows, self.uri, mode="create", storage_options=self.options)
        except _Exists:
            return False
        return True

    def write(self, rows: pa.Table) -> list[FragmentMetadata]:
        """Write rows that become part of the table only by ``append``. Any process may do this at any time."""
        require_lance()
        from lance.fragment import write_fragments

        with explained(self.lake):
            return list(write_fragments(rows, self.uri, schema=rows.schema, storage_options=self.options))

    def append(self, fragments: Sequence[FragmentMetadata]) -> None:
        """Make written rows part of the table. Several processes may do this at the same time."""
        lance = require_lance()
        table = self.open()
        assert table is not None
        operation = lance.LanceOperation.Append(list(fragments))
        with explained(self.lake):
            lance.LanceDataset.commit(self.uri, operation, read_version=table.version, storage_options=self.options)

    def delete(self, condition: str) -> None:
        """Delete the rows for which an SQL condition holds."""
        table = self.open()
        if table is not None:
            with explained(self.lake):
                table.delete(condition)


class _NotFound(LakeError):
    pass


class _Exists(LakeError):
    pass


_SENTENCES: tuple[tuple[str, type[LakeError], str], ...] = (  # pattern, error, sentence
    (r"too many concurrent writers|commit conflict", CommitConflict, "other processes are writing; try again"),
    (r"dataset already exists", _Exists, "there is a table already"),
    (r"nosuchbucket|bucket .*does not exist|container .*not exist", LakeError, "there is no such bucket: create it"),
    (
        r"accessdenied|access denied|invalidaccesskey|signaturedoesnotmatch|forbidden|unauthorized|40[13]\b|"
        r"no credentials|missing credentials|credential",
        LakeError,
        "the storage refused access: check the keys in the environment, and whether they allow reading and writing",
    ),
    (r"permission denied|read-only file system", LakeError, "this user can search the library, but not change it"),
    (r"no space left|quota", LakeError, "the disk is full: free some space and run the command again"),
    (
        r"error sending request|connection (refused|reset|closed)|timed? ?out|dns error|error trying to connect|"
        r"50[0234]\b|internal server error|slow ?down|service unavailable|incomplete message|error decoding response",
        StoreAway,
        "the storage does not answer: try again when it does",
    ),
    (r"was not found|not found", _NotFound, "a part of the library is missing"),
)


@contextmanager
def explained(lake: str) -> Iterator[None]:
    """Turn what Lance raises into errors that say what to do."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as problem:
        if isinstance(problem, LakeError):
            raise
        text = re.sub(r", (/|[a-z]:\\)\S*\.rs:\d+:\d+.*$", "", str(problem), flags=re.S | re.I)
        for pattern, kind, sentence in _SENTENCES:
            if re.search(pattern, text, re.I):
                raise kind(f"{lake}: {sentence} ({_short(text)})") from problem
        raise LakeError(f"{lake}: {_short(text)}. `prvr library verify` checks the library.") from problem


def _short(text: str, most: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}…"


def until_committed(attempt: Callable[[], _Result]) -> _Result:
    """Repeat a change that begins by reading until no other process has changed the table in between."""
    for number in range(_CONFLICTS):
        try:
            return attempt()
        except CommitConflict:
            time.sleep(random.uniform(0, min(2.0, 0.05 * 2 ** min(number, 6))))
    return attempt()
