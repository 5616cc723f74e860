"""What torch's compiler leaves behind, kept so that only the first run on a machine waits for it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def keep_compiled_code() -> Path:
    """Have torch's compiler keep its results in a folder of the user's, unless another one was chosen.

    To be called before anything is compiled. By itself torch keeps them with temporary files, which a restart removes.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prvr" / "compiled"
    return Path(os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache)))


class CompiledBefore:
    """Notes that something was compiled on this machine, so that compiling it again will be quick.

    >>> CompiledBefore("a model", "a GPU").file.name
    'prvr-da5de6cef1c64e30'
    """

    def __init__(self, *about: object):
        """``about``: all that decides what is compiled."""
        name = hashlib.sha256(repr(about).encode()).hexdigest()[:16]
        self.file = keep_compiled_code() / f"prvr-{name}"

    def __bool__(self) -> bool:
        return self.file.exists()

    def note(self) -> None:
        """From now on it was."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.touch()
