"""What of a library is open in this process: its store, its encoders and model, and the newest snapshot.

Any process may reindex the library with another encoder. Whoever takes a snapshot notices, and record, store and tracks
follow together. So work that began with one record asks for the tracks of that record, and is refused others.
"""

from __future__ import annotations

import threading

from prvr.errors import UserError
from prvr.library.errors import LibraryError
from prvr.library.folder import FolderStore
from prvr.library.ingest.setup import EncoderOverrides, open_tracks, require_encoder
from prvr.library.ingest.tracks import FRAMES, Track
from prvr.library.search.knowledge import Knowledge
from prvr.library.store.background import Floats
from prvr.library.store.settings import LibraryRecord
from prvr.library.store.snapshot import Snapshot
from prvr.library.stores import Store
from prvr.media import Encoder


class LibraryState:
    """The open parts of one library, for any number of threads."""

    def __init__(self, store: Store, encoders: EncoderOverrides):
        """``encoders`` that are not given are loaded when they are first needed."""
        self.store, self.record, self.encoders = store, store.record, encoders
        self._snapshot: Snapshot | None = None
        self._tracks: tuple[LibraryRecord, dict[str, Track]] | None = None
        self._lock, self._opening = threading.Lock(), threading.Lock()
        for name, encoder in encoders.items():
            if encoder is not None:
                require_encoder(self.record, name, encoder, store.address)

    def tracks(self, record: LibraryRecord) -> dict[str, Track]:
        """The tracks by name, with encoders and model loaded, if ``record`` still says how vectors are made."""
        with self._opening:
            if self._tracks is None:
                self._tracks = (self.record, open_tracks(self.store, self.encoders))
            current, tracks = self._tracks
        if current is not record:
            raise LibraryError("The library was reindexed with another encoder at this moment. Try again.")
        return tracks

    def knowledge(self, record: LibraryRecord) -> Knowledge:
        """How far answers can be trusted. See ``tracks``."""
        return Knowledge.of(self.tracks(record)[FRAMES])

    def snapshot(self) -> Snapshot:
        """The library as it is now. Follows a library that was reindexed."""
        with self._lock:
            self._snapshot = self.store.snapshot(self._snapshot, self._projection)
            if self._snapshot.record is not self.record:
                self._follow(self._snapshot.record)
            return self._snapshot

    def _projection(self, track: str) -> Floats | None:
        trained = self.record.model is not None and track == FRAMES
        return self.tracks(self.record)[track].embedding.query_projection if trained else None

    def _follow(self, record: LibraryRecord, frames: Encoder | None = None) -> None:
        """Take the record of a library that was reindexed, and its new encoder where it is open already."""
        with self._opening:
            self.record, self.store, self._tracks = record, self.store.following(record), None
            self.encoders = {**self.encoders, FRAMES: frames}

    def renew(self, record: LibraryRecord | None = None, frames: Encoder | None = None) -> None:
        """Forget the snapshot, after this process has replaced vectors.

        Args:
            record: how they are made now, if another way than before.
            frames: the encoder that made them.
        """
        with self._lock:
            self._snapshot = None
            if record is not None:
                self._follow(record, frames)

    def leave_out(self, snapshot: Snapshot, videos: frozenset[int]) -> Snapshot:
        """The snapshot without damaged videos. Later searches of the same state leave them out as well."""
        rest = snapshot.without(videos)
        with self._lock:
            if self._snapshot is snapshot:
                self._snapshot = rest
        return rest

    def damage(self) -> str:
        """A sentence about what searches leave out; see ``Library.damage``."""
        if not isinstance(self.store, FolderStore):
            return "" if self._snapshot is None else self._snapshot.damage_note
        try:
            return self.snapshot().damage_note
        except UserError:
            return "The library cannot be read: `prvr library verify` says why."
