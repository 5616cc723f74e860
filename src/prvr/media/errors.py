"""What can be wrong with a user's file or installation."""

from __future__ import annotations

from pathlib import PurePath

from prvr.errors import UserError, printable


class MediaError(UserError):
    """One file that cannot be used; the message names the file and the reason."""

    def __init__(self, path: str | PurePath, reason: str):
        super().__init__(f"{printable(str(path), one_line=True)}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[MediaError], tuple[str | PurePath, str]]:
        return type(self), (self.path, self.reason)  # so that it can be sent from a worker process


class StorageError(UserError):
    """A bucket that cannot be reached or used. No file is at fault, so the same work may succeed later."""

    def __init__(self, address: str, reason: str):
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason

    def __reduce__(self) -> tuple[type[StorageError], tuple[str, str]]:
        return type(self), (self.address, self.reason)


class EncoderError(UserError):
    """An encoder that is not available or does not fit; the message says what to do."""
