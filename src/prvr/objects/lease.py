"""Who may publish: one process at a time holds ``lease.json`` and shows again and again that it lives.

Clocks of machines are not compared. Whoever finds another's lease watches it for longer than its holder would be
silent. Object stores as pyarrow knows them cannot write on a condition, so the lease keeps processes apart that run as
they should, and is asked again before every publishing; the rest is found by ``WorkingCopy.publish``.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any

from prvr.objects.store import ObjectMissing, Store, StoreError

LEASE = "lease.json"
BEAT = 5.0  # seconds between signs of life
SILENCE = 30.0  # seconds of silence after which a holder counts as dead
SETTLE = 0.5  # seconds after which, of two that took it at once, the last one sees itself and the first one the other


class Lease:
    """Held for the length of a block."""

    def __init__(self, store: Store, copy: str, said: Callable[[str], None] = lambda _: None):
        self.store, self.said = store, said
        self.found: dict[str, Any] | None = None  # what somebody left there
        where = f"process {os.getpid()} on {platform.node()}"
        self.mine: dict[str, Any] = {"owner": uuid.uuid4().hex, "copy": copy, "holder": where, "beat": 0}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._live, name="prvr-lease", daemon=True)

    def __enter__(self) -> Lease:
        self.found = self._read()
        if (
            self.found is not None and self.found.get("copy") != self.mine["copy"]
        ):  # else: this copy's, and its lock is ours
            self._watch(self.found)
        self._write()
        time.sleep(SETTLE)
        self.check()
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        self.thread.join()
        if isinstance(error, StoreError):  # storage may not answer: it is left behind, and counts for nothing soon
            return
        if self._owner() == self.mine["owner"]:
            self.store.delete([LEASE])

    def check(self) -> None:
        """Refuse to go on where somebody else has taken it."""
        found = self._read()
        if found is None or found.get("owner") != self.mine["owner"]:
            holder = "somebody deleted its lease" if found is None else f"{found.get('holder')} writes it now"
            raise StoreError(
                f"{self.store.address} is no longer ours to change ({holder}): nothing was published; run it again"
            )

    def _watch(self, found: dict[str, Any]) -> None:
        """Wait until a holder is surely dead, or refuse because it lives."""
        self.said(f"{found.get('holder')} held {self.store.address}; seeing for {SILENCE:.0f} s whether it lives")
        end = time.monotonic() + SILENCE
        over = False
        while not over:
            time.sleep(min(1.0, SILENCE / 5))
            over = time.monotonic() >= end  # before the look: the last one comes after all of the silence
            now = self._read()
            if now is None:
                return
            if now != found:
                raise StoreError(f"{now.get('holder')} changes {self.store.address}: wait until it is done")

    def _live(self) -> None:
        while not self.ended.wait(BEAT):
            try:
                if self._owner() != self.mine["owner"]:
                    return  # lost: the next publishing says so
                self.mine["beat"] += 1
                self._write()
            except StoreError:  # publishing says so if it lasts
                continue

    def _owner(self) -> object:
        return (self._read() or {}).get("owner")

    def _write(self) -> None:
        self.store.put(LEASE, json.dumps(self.mine).encode())

    def _read(self) -> dict[str, Any] | None:
        try:
            found = json.loads(self.store.get(LEASE))
        except ObjectMissing:
            return None
        except (ValueError, RecursionError):
            found = None
        return found if isinstance(found, dict) else {"holder": "somebody"}
