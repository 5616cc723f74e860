"""Converts a BigFile, or one file per video, to one HDF5 file with a dataset per video, which is one read.

Converting takes minutes, so it can be interrupted at any moment and continues where it stopped. HDF5 alone does not
survive that: a process killed while it changes the file's directory leaves it unreadable. So the work is done in two
steps:

1. write an HDF5 file with all datasets, allocated but empty, and move it to ``feature.hdf5.part`` when it is complete;
2. write frames directly to the offsets that HDF5 allocated, without HDF5, and note the progress in a journal.

In the second step the directory is never touched, so there is no moment at which the file is broken.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from prvr.data.bigfile import BIGFILE_NAMES
from prvr.data.cache import fingerprint
from prvr.data.errors import DataError
from prvr.data.folder_store import ArrayFolderStore, array_files
from prvr.data.progress_bar import show_progress
from prvr.data.reserved import ReservedFile
from prvr.data.store_base import FeatureStore
from prvr.data.stores import BigFileStore, H5Store
from prvr.files import whole_file, write_whole

_DIRECTORY, _ENTRY = 1 << 20, 1024  # bytes that HDF5 needs at most, for the file and for each dataset
GROUP_BYTES = 64 << 20  # written between two notes in the journal: about a second of work


def convert_features(folder: str | Path, *, force: bool = False, progress: bool = True) -> Path:
    """Convert the BigFile or the array files in ``folder`` to ``folder/feature.hdf5`` and return that path."""
    folder = Path(folder)
    target = folder / "feature.hdf5"
    if target.exists() and not force:
        raise DataError(f"{target} exists already; use it as it is, or write it again with --force.")
    part, journal = folder / "feature.hdf5.part", folder / "feature.hdf5.journal"
    per_video = not (folder / "feature.bin").is_file() and array_files(folder)
    with ArrayFolderStore(folder) if per_video else BigFileStore(folder) as source:
        files = per_video.values() if per_video else [folder / name for name in BIGFILE_NAMES]
        origin = fingerprint([*files])
        for leftover in folder.glob(f".{target.name}.*.part"):  # of a conversion that was killed
            leftover.unlink(missing_ok=True)
        state = _State.resume(part, journal, origin)
        try:
            if state is None:
                journal.unlink(missing_ok=True)
                _allocate(part, source)
                state = _State(journal, origin)
                state.save(0)
            _fill(part, source, state, progress)
        except OSError as problem:
            raise DataError(
                f"{part} cannot be written ({problem.strerror or problem}); free some space in {folder} and convert "
                "again: it continues where it stopped."
            ) from problem
        _verify(part, source)
    os.replace(part, target)
    journal.unlink()
    return target


@dataclass
class _State:
    """How many videos are complete in the part file, and from which source."""

    path: Path
    source: str
    done: int = 0

    @staticmethod
    def resume(part: Path, path: Path, source: str) -> _State | None:
        """The progress of an earlier, interrupted run; None if there was none or its source has changed."""
        if not part.is_file() or not path.is_file() or part.is_symlink():
            return None
        try:
            noted = json.loads(path.read_text(encoding="utf-8"))
            done, origin = int(noted["done"]), str(noted["source"])
        except (ValueError, KeyError, TypeError):
            return None  # not a journal of ours; starting again is safe
        return _State(path, source, done) if origin == source else None

    def save(self, done: int) -> None:
        self.done = done
        write_whole(self.path, json.dumps({"source": self.source, "done": done}))


def _allocate(part: Path, source: FeatureStore) -> None:
    """Create the HDF5 file with every dataset allocated and still empty.

    HDF5 does not survive a disk that fills up under it: it crashes while it closes the file. So room for all of it is
    taken first, and HDF5 writes into that.
    """
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_layout(h5py.h5d.CONTIGUOUS)
    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    numbers = sum(source.length(video) for video in source.ids) * source.width * 4
    about = _DIRECTORY + sum(_ENTRY + len(video.encode()) for video in source.ids)
    with (
        whole_file(part) as new,
        ReservedFile(new, numbers + about) as room,
        h5py.File(room, "w", libver=("v110", "v110")) as file,
    ):
        for video in source.ids:
            space = h5py.h5s.create_simple((source.length(video), source.width))
            h5py.h5d.create(file.id, video.encode(), h5py.h5t.IEEE_F32LE, space, layout)


def _fill(part: Path, source: FeatureStore, state: _State, progress: bool) -> None:
    """Write the videos that are missing, group by group."""
    with h5py.File(part, "r") as file:
        offsets = [int(file[video].id.get_offset()) for video in source.ids]
    todo = list(zip(source.ids, offsets, strict=True))[state.done :]
    label = f"converting {part.parent.name}"
    with part.open("r+b", buffering=0) as out:
        # The file may still be shorter than what was allocated for its last dataset.
        ends = [offset + source.length(video) * source.width * 4 for video, offset in todo]
        out.truncate(max([part.stat().st_size, *ends]))
        unsaved = 0
        steps = show_progress(todo, total=len(offsets), done=state.done, label=label, show=progress)
        for count, (video, offset) in enumerate(steps, start=state.done + 1):
            features = np.ascontiguousarray(source.read(video), dtype="<f4")
            out.seek(offset)
            out.write(features.data)
            unsaved += features.nbytes
            if unsaved >= GROUP_BYTES or count == len(offsets):
                os.fsync(out.fileno())  # the journal must not run ahead of the data, even if the power fails
                state.save(count)
                unsaved = 0


def _verify(part: Path, source: FeatureStore) -> None:
    """Read the result back through HDF5: every video with its length, and the numbers of a sample."""
    with H5Store(part) as result:
        wrong = [v for v in source.ids if v not in result or result.length(v) != source.length(v)]
        sample = source.ids[:: max(1, len(source.ids) // 20)]
        wrong += [v for v in sample if v not in wrong and not np.array_equal(result.read(v), source.read(v))]
        if wrong or len(result.ids) != len(source.ids):
            raise DataError(
                f"{part} does not match its source ({len(result.ids)} of {len(source.ids)} videos, "
                f"first difference: {wrong[0] if wrong else 'the count'}); delete it and convert again."
            )
