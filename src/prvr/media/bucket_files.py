"""Files of a bucket through pyarrow: facts, listings, and reading in ranges. ``buckets`` makes paths of this.

Keys and endpoints come from the environment and from ``~/.aws``, never from an address.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from prvr.errors import MissingExtra
from prvr.media.errors import MediaError, StorageError

_BLOCK = 1 << 18  # bytes; the least that is fetched
_MOST_AHEAD = 32  # blocks in one request, while a file is read in sequence
_KEPT = 128  # blocks of each bucket in memory
_REMEMBERED = 60.0  # seconds that a listing is used again, so that many files of a folder need one listing
_FIRST_TRIES, _TRIES = 3, 6  # pauses double; about half a second, and about 20 seconds in all
_CONNECT, _SILENCE = 5.0, 30.0  # seconds to connect, and without a byte
_Answer = TypeVar("_Answer")


class FileStatus(NamedTuple):
    """What ``Path.stat`` says of a file, as far as a bucket knows it."""

    st_size: int
    st_mtime_ns: int
    st_mode: int

    @staticmethod
    def of(found: Any) -> FileStatus:
        if found.type.name == "NotFound":
            raise FileNotFoundError
        kind = stat.S_IFDIR if found.type.name == "Directory" else stat.S_IFREG
        return FileStatus(found.size or 0, found.mtime_ns or 0, kind)


class BucketFiles:
    """An open bucket, with what was read of it lately. A key begins with the bucket's name."""

    def __init__(self, scheme: str, bucket: str, connect: Callable[[int], Any]):
        self.scheme, self.bucket, self.connect = scheme, bucket, connect
        self.listings: dict[str, tuple[float, dict[str, FileStatus]]] = {}  # by folder: until when, and what is in it
        self.blocks: OrderedDict[tuple[str, FileStatus, int], bytes] = OrderedDict()
        self.lock = threading.Lock()  # of the blocks
        self.require()
        self.files = connect(_TRIES)

    def require(self) -> None:
        """Raise an error if the bucket does not answer or does not exist."""
        address = f"{self.scheme}://{self.bucket}"
        try:
            FileStatus.of(self.connect(_FIRST_TRIES).get_file_info(self.bucket))
        except FileNotFoundError:
            raise StorageError(address, "there is no such bucket; create it, or correct the name") from None
        except (OSError, ValueError) as problem:
            raise StorageError(address, _reason(problem)) from None

    def ask(self, key: str, question: Callable[[], _Answer]) -> _Answer:
        """Ask the store. If the bucket answers and this question fails, then the file is at fault."""
        address = f"{self.scheme}://{key}"
        try:
            return question()
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as problem:
            self.require()
            reason = _reason(problem)
            try:  # reading a file that is gone or denied fails without saying so
                gone = self.files.get_file_info(key).type.name == "NotFound"
            except (OSError, ValueError) as clearer:
                gone, reason = False, _reason(clearer)
            if not gone:
                raise MediaError(address, f"cannot be read from the bucket: {reason}") from None
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), address)

    def status(self, key: str) -> FileStatus:
        folder, _, name = key.rpartition("/")
        until, listed = self.listings.get(folder, (0.0, {}))
        if name in listed and time.monotonic() < until:
            return listed[name]
        return self.ask(key, lambda: FileStatus.of(self.files.get_file_info(key)))

    def listing(self, folder: str) -> dict[str, FileStatus]:
        """What is in a folder, by name."""
        until, found = self.listings.get(folder, (0.0, {}))
        if time.monotonic() > until:
            self._list(folder, recursive=False)
            found = self.listings[folder][1]
        return found

    def walk(self, folder: str) -> list[str]:
        """The keys of all files in a folder and the folders in it."""
        return [each.path for each in self._list(folder, recursive=True) if each.is_file]

    def _list(self, folder: str, *, recursive: bool) -> list[Any]:
        from pyarrow.fs import FileSelector

        began = time.monotonic()
        found = self.ask(folder, lambda: self.files.get_file_info(FileSelector(folder, recursive=recursive)))
        listed: dict[str, dict[str, FileStatus]] = {folder: {}}
        for each in found:
            listed.setdefault(each.path.rpartition("/")[0], {})[each.base_name] = FileStatus.of(each)
        now = time.monotonic()
        until = now + max(_REMEMBERED, 20 * (now - began))  # so that listing takes a twentieth of the time
        kept = {key: known for key, known in self.listings.items() if known[0] > now}
        self.listings = {**kept, **{key: (until, names) for key, names in listed.items()}}
        return list(found)

    def open(self, key: str, status: FileStatus) -> io.BufferedReader:
        return io.BufferedReader(_RangedFile(self, key, status), _BLOCK)


class _RangedFile(io.RawIOBase):
    """A file of a bucket, fetched in ranges. They grow while it is read in sequence, and are small after a jump."""

    def __init__(self, bucket: BucketFiles, key: str, status: FileStatus):
        self.bucket, self.key, self.status = bucket, key, status
        # FFmpeg looks at the suffix. If this looked like an address, it would read far ahead by itself.
        self.name = f"file:{key.rpartition('/')[2]}"
        self.at, self.ahead = 0, 1
        self.file: Any = None  # opened when the first block is missing

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = max(0, offset + (0, self.at, self.status.st_size)[whence])
        return self.at

    def readinto(self, buffer: Any) -> int:
        number, start = divmod(self.at, _BLOCK)
        data = self._block(number)[start : start + len(buffer)] if self.at < self.status.st_size else b""
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)

    def _block(self, number: int) -> bytes:
        blocks = self.bucket.blocks
        with self.bucket.lock:
            if (found := blocks.get((self.key, self.status, number))) is not None:
                blocks.move_to_end((self.key, self.status, number))
                return found
            self.ahead = min(2 * self.ahead, _MOST_AHEAD) if (self.key, self.status, number - 1) in blocks else 1
        data = self._fetch(number * _BLOCK, self.ahead * _BLOCK)
        with self.bucket.lock:
            for start in range(0, len(data), _BLOCK):
                blocks[self.key, self.status, number + start // _BLOCK] = data[start : start + _BLOCK]
            while len(blocks) > _KEPT:
                blocks.popitem(last=False)
        return data[:_BLOCK]

    def _fetch(self, start: int, size: int) -> bytes:
        def read() -> bytes:
            if self.file is None:
                self.file = self.bucket.files.open_input_file(self.key)
            return bytes(self.file.read_at(size, start))

        try:
            return self.bucket.ask(self.key, read)
        except FileNotFoundError as gone:  # FFmpeg would take an OSError for the end of a damaged file
            raise MediaError(gone.filename, "does not exist any more (was it moved, renamed or deleted?)") from None

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        super().close()


def open_bucket(scheme: str, bucket: str) -> BucketFiles:
    """The files of a bucket, opened once. ``scheme`` is s3, gs or az.

    Raises:
        StorageError: the bucket does not exist or does not answer.
        MissingExtra: pyarrow is not installed.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return _open_bucket(scheme, bucket, endpoint)


@lru_cache(maxsize=64)
def _open_bucket(scheme: str, bucket: str, endpoint: str | None) -> BucketFiles:
    try:
        from pyarrow import fs
    except ImportError as problem:
        raise MissingExtra("pyarrow, which reads from buckets,", "scale", problem) from None

    def connect(tries: int) -> Any:
        if scheme == "gs":
            return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=2 * tries))
        if scheme == "az":
            account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
            if account is None:
                raise StorageError(f"az://{bucket}", "set AZURE_STORAGE_ACCOUNT_NAME to the account that holds it")
            return fs.AzureFileSystem(account_name=account, account_key=os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"))
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        return fs.S3FileSystem(
            endpoint_override=endpoint,
            region=region if endpoint else fs.resolve_s3_region(bucket),
            connect_timeout=_CONNECT,
            request_timeout=_SILENCE,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=tries),
        )

    return BucketFiles(scheme, bucket, connect)


def _reason(problem: Exception) -> str:
    """What went wrong, and what to do."""
    text = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    marks = text.upper()
    if "NO_SUCH_BUCKET" in marks:
        return "there is no such bucket; create it, or correct the name"
    if any(mark in marks for mark in ("CONNECTION", "TIMEOUT", "CURLCODE")):
        return f"no server answers ({text.rpartition('; Details: ')[2][:120]}); check the network and AWS_ENDPOINT_URL"
    if any(
        mark in marks
        for mark in ("ACCESS_DENIED", "ACCESS_KEY", "SIGNATURE", "CREDENTIAL", "TOKEN", "STATUS 403", "AUTHORIZ")
    ):
        return "access is denied; check the keys in the environment or ~/.aws, and what they permit"
    return text[:300]
