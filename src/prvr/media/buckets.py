"""Paths of videos, on a disk or in a bucket: Amazon S3 and servers like it, Google Cloud Storage, Azure.

    film = video_path("s3://films/holiday/a b.mp4")     # a Path where the text is no address
    film.name, film.parent, film.stat().st_size
    with film.open() as file:                           # fetches what is read, and some megabytes ahead
        ...

A name is taken as it is: ``#``, ``?`` and ``%`` have no special meaning.
"""

from __future__ import annotations

import io
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import TypeAlias

from prvr.media.bucket_files import BucketFiles, FileStatus, open_bucket
from prvr.media.errors import MediaError, StorageError

_ADDRESS = re.compile(r"^(s3|gs|az):/+")


class BucketPath(PurePosixPath):
    """An address in a bucket, with those methods of ``pathlib.Path`` that read.

    >>> film = BucketPath("s3://films/holiday/a.mp4")
    >>> str(film.parent), film.stem, film.is_relative_to(BucketPath("s3://films"))
    ('s3://films/holiday', 'a', True)
    """

    def __str__(self) -> str:
        return _ADDRESS.sub(r"\1://", super().__str__())

    @property
    def _files(self) -> BucketFiles:
        return open_bucket(self.parts[0].rstrip(":"), self.parts[1])

    @property
    def _key(self) -> str:
        return "/".join(self.parts[1:])  # with the bucket's name, as pyarrow writes it

    def stat(self) -> FileStatus:
        return self._files.status(self._key)

    def exists(self) -> bool:
        """Whether it exists, by a listing of its folder that may be a minute old, so that many files need one."""
        try:
            return len(self.parts) < 3 or self.name in self._files.listing(self.parent._key)
        except FileNotFoundError:
            return False

    def is_dir(self) -> bool:
        return stat.S_ISDIR(self._mode())

    def is_file(self) -> bool:
        return stat.S_ISREG(self._mode())

    def _mode(self) -> int:
        try:
            return self.stat().st_mode
        except FileNotFoundError:
            return 0

    def iterdir(self) -> Iterator[BucketPath]:
        return (self / name for name in self._files.listing(self._key))

    def files_below(self) -> list[BucketPath]:
        """All files in this folder and the folders in it."""
        return [BucketPath(self.parts[0], key) for key in self._files.walk(self._key)]

    def forget(self) -> None:
        """Forget what was listed of this bucket, because it may have changed."""
        self._files.listings.clear()

    def open(self, mode: str = "rb", *, status: FileStatus | None = None) -> io.BufferedReader:
        """Open it to read. ``status`` saves a request where it is known."""
        return self._files.open(self._key, status or self.stat())

    def read_bytes(self) -> bytes:
        with self.open() as file:
            return file.read()


VideoFile: TypeAlias = Path | BucketPath


def video_path(path: str | PurePath) -> VideoFile:
    """The path of a video, from text: ``s3://``, ``gs://`` and ``az://`` lead into a bucket, all else to a disk."""
    if isinstance(path, BucketPath):
        return path
    text = path if isinstance(path, str) else path.as_posix()  # pathlib writes s3://films as s3:/films
    found = _ADDRESS.match(text)
    if found is None:
        if re.match(r"\w{2,}://", text):
            raise MediaError(text.partition("?")[0], "videos are read from disks, and from s3://, gs:// and az://")
        return Path(path)
    bucket = text[found.end() :].partition("/")[0]
    if "@" in bucket or ":" in bucket:  # the text may hold a secret, so it is not repeated
        raise StorageError(f"{found[1]}://…", "leave keys out of the address; set them in the environment or ~/.aws")
    if not bucket:
        raise StorageError(text, f"name a bucket, as in {found[1]}://BUCKET/FOLDER")
    return BucketPath(text)


def is_gone(path: VideoFile) -> bool:
    """Whether there is no such file. Not where nobody can tell: a folder without permission, a disk that fails."""
    try:
        if isinstance(path, BucketPath):
            return not path.exists()
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, MediaError):
        return False
    return False
