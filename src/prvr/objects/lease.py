"""The right to publish: one process at a time holds ``lease.json`` and rewrites it regularly to show that it runs.

Clocks of machines are not compared. A process that finds another's lease watches whether it changes, for longer than
the pause between two changes of a running holder. pyarrow cannot write conditionally, so two processes could still
publish at once. The lease is read again before every publishing, and ``WorkingCopy.publish`` detects the rest.
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
BEAT = 5.0  # seconds between changes that show that the holder runs
SILENCE = 30.0  # seconds without a change after which a holder counts as dead
SETTLE = 0.5  # seconds to wait after taking it: if two processes take it at once, the first one then notices


class Lease:
    """A lease that is held for the length of a block.

    Args:
        store: where the library is published.
        copy: the id of the local copy that is published from.
        report: called with a sentence if another holder has to be watched.
    """

    def __init__(self, store: Store, copy: str, report: Callable[[str], None] = lambda _: None):
        self.store, self.report = store, report
        self.previous: dict[str, Any] | None = None  # the lease that was found there
        holder = f"process {os.getpid()} on {platform.node()}"
        self.mine: dict[str, Any] = {"owner": uuid.uuid4().hex, "copy": copy, "holder": holder, "beat": 0}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._beat, name="prvr-lease", daemon=True)

    def __enter__(self) -> Lease:
        self.previous = self._read()
        # A killed process left this copy's own lease. We hold the copy's lock, so the lease can be taken.
        if self.previous is not None and self.previous.get("copy") != self.mine["copy"]:
            self._watch(self.previous)
        self._write()
        time.sleep(SETTLE)
        self.check()
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_beating()
        if isinstance(error, StoreError):  # storage may not answer: the lease stays and soon expires
            return
        if self._owner() == self.mine["owner"]:
            self.store.delete([LEASE])

    def stop_beating(self) -> None:
        """Stop showing that this process runs."""
        self.ended.set()
        self.thread.join()

    def check(self) -> None:
        """Raise if another process has taken the lease."""
        found = self._read()
        if found is None or found.get("owner") != self.mine["owner"]:
            reason = "its lease was deleted" if found is None else f"{found.get('holder')} changes it now"
            raise StoreError(
                f"this process lost the right to change {self.store.address} ({reason}): nothing was published; run "
                "the command again"
            )

    def _watch(self, found: dict[str, Any]) -> None:
        """Wait until a holder counts as dead; raise if it runs."""
        self.report(f"{found.get('holder')} held {self.store.address}; checking for {SILENCE:.0f} s whether it runs")
        end = time.monotonic() + SILENCE
        over = False
        while not over:
            time.sleep(min(1.0, SILENCE / 5))
            over = time.monotonic() >= end  # before reading, so that the last read comes after the whole wait
            now = self._read()
            if now is None:
                return
            if now != found:
                raise StoreError(f"{now.get('holder')} changes {self.store.address}: wait until it is done")

    def _beat(self) -> None:
        while not self.ended.wait(BEAT):
            try:
                if self._owner() != self.mine["owner"]:
                    return  # lost: the next publishing reports it
                self.mine["beat"] += 1
                self._write()
            except StoreError:  # publishing reports it if it lasts
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
        return found if isinstance(found, dict) else {"holder": "another process"}
