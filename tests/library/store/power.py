"""A disk whose power is cut: what a program wrote, reduced to what was synchronised.

``record`` runs a program under strace and keeps every change that it makes in a folder, with the lines that it prints
in between. ``Disk`` follows these changes. Whatever was not synchronised may be lost in a power cut: the bytes of a
file until the file is synchronised, and the names in a folder (new, renamed, deleted) until the folder is. ``cut``
writes the folder as it may be found afterwards.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_CALLS = "openat,write,pwrite64,ftruncate,lseek,fsync,fdatasync,rename,unlink,unlinkat,link,linkat,mkdir,mkdirat,rmdir"
_LINE = re.compile(r"^(?P<pid>\d+) +(?:<\.\.\. \w+ resumed>)?(?P<rest>.*)$")
_CALL = re.compile(r"^(?P<name>\w+)\((?P<words>.*)\) += (?P<result>-?\d+)")
_WORD = re.compile(r'"(?:\\x[0-9a-f]{2})*"|(?:AT_FDCWD|\d+)<[^>]*>(?:\(deleted\))?|[^,\s][^,]*')
_MEMORY = "-shm"  # shared memory of SQLite: nothing on the disk depends on it


@dataclass
class File:
    content: bytes = b""
    synced: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # place and bytes; or a new length and None

    def change(self, place: int, data: bytes | None) -> None:
        self.content = _changed(self.content, place, data)
        self.pending.append((place, data))

    def sync(self) -> None:
        self.synced, self.pending = self.content, []

    def found(self, chance: random.Random, share: float) -> bytes:
        content = self.synced
        for place, data in self.pending:
            if chance.random() < share:
                content = _changed(content, place, data)
        return content


@dataclass
class Folder:
    names: dict[str, File | Folder] = field(default_factory=dict)
    synced: dict[str, File | Folder] = field(default_factory=dict)
    pending: list[dict[str, File | Folder | None]] = field(default_factory=list)  # names that change together

    def change(self, **names: File | Folder | None) -> None:
        _rename(self.names, names)
        self.pending.append(names)

    def sync(self) -> None:
        self.synced, self.pending = dict(self.names), []

    def found(self, chance: random.Random, share: float) -> dict[str, File | Folder]:
        names = dict(self.synced)
        for change in self.pending:
            if chance.random() < share:
                _rename(names, change)
        return names


class Disk:
    """The folder ``root`` of a recorded program, and what of it would survive a power cut."""

    def __init__(self, root: Path):
        self.root, self.folder = root, Folder()
        self.places: dict[int, int] = {}  # of open files

    def apply(self, name: str, words: list[str], result: int) -> None:
        """Follow one system call."""
        paths = self._paths(words[:1] if name in ("write", "pwrite64") else words) if result >= 0 else []
        if not paths or paths[-1].endswith(_MEMORY):
            return
        if name == "openat":
            self._open(paths[-1], words[2], result)
        else:
            self._change(name, words, paths, result)

    def cut(self, place: Path, seed: int, share: float) -> None:
        """Write the folder as it may be found. ``share``: how much of what was not synchronised is there anyway."""
        _write(self.folder, place, random.Random(seed), share)

    def _change(self, name: str, words: list[str], paths: list[str], result: int) -> None:
        handle = int(words[0].partition("<")[0]) if words[0][0].isdigit() else -1
        if name in ("fsync", "fdatasync"):
            if (found := self._find(paths[0])) is not None:
                found.sync()
        elif name == "lseek":
            self.places[handle] = result
        elif name in ("write", "pwrite64", "ftruncate"):
            file = self._find(paths[0])
            if isinstance(file, File):
                if name == "ftruncate":
                    file.change(int(words[1]), None)
                elif name == "pwrite64":
                    file.change(int(words[3]), _bytes(words[1])[:result])
                else:
                    file.change(self.places.get(handle, 0), _bytes(words[1])[:result])
                    self.places[handle] = self.places.get(handle, 0) + result
        elif name in ("mkdir", "mkdirat"):
            self._parent(paths[-1]).change(**{Path(paths[-1]).name: Folder()})
        elif name in ("unlink", "unlinkat", "rmdir"):
            self._parent(paths[-1]).change(**{Path(paths[-1]).name: None})
        elif name in ("rename", "link", "linkat"):
            source, target = paths[-2:]
            assert Path(source).parent == Path(target).parent
            gone = {Path(source).name: None} if name == "rename" else {}
            self._parent(target).change(**{**gone, Path(target).name: self._find(source)})

    def _open(self, path: str, flags: str, handle: int) -> None:
        found = self._find(path)
        if found is None:
            found = File()
            self._parent(path).change(**{Path(path).name: found})
        if "O_TRUNC" in flags and isinstance(found, File):
            found.change(0, None)
        self.places[handle] = 0

    def _paths(self, words: list[str]) -> list[str]:
        """The paths in the folder that the words of a call name: open files that are not deleted, and texts."""
        found = []
        folder = ""  # of an open folder, which the next text may be relative to
        for word in words:
            if "<" in word and not word.endswith("(deleted)"):
                folder = _bytes(word.partition("<")[2].rstrip(">")).decode()
                found.append(folder)
            elif word[0] == '"':
                found = [path for path in found if path != folder]
                found.append(str(Path(folder, _bytes(word).decode())))
        return [path for path in found if path == str(self.root) or path.startswith(f"{self.root}/")]

    def _find(self, path: str) -> File | Folder | None:
        found: File | Folder | None = self.folder
        for name in Path(path).relative_to(self.root).parts:
            found = found.names.get(name) if isinstance(found, Folder) else None
        return found

    def _parent(self, path: str) -> Folder:
        found = self._find(str(Path(path).parent))
        assert isinstance(found, Folder), path
        return found


def record(program: str, root: Path, *words: object) -> Iterator[tuple[Disk, str | None]]:
    """Run a Python program that works in the new folder ``root``. After each change, the disk; at a printed line, that.

    The same disk is given each time.
    """
    trace = root.with_name(f"{root.name}.trace")
    root.mkdir()
    command = ["strace", "-f", "-y", "-xx", "-s", "100000000", "-e", f"trace={_CALLS}", "-o", str(trace)]
    command += [sys.executable, "-c", program, str(root), *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    disk, main = Disk(root), trace.read_text().partition(" ")[0]
    for process, name, arguments, result in _calls(trace):
        if name == "write" and arguments[0].startswith("1<") and process == main:
            yield disk, _bytes(arguments[1]).decode()
        else:
            disk.apply(name, arguments, result)
            if name != "lseek":
                yield disk, None


def _calls(trace: Path) -> Iterator[tuple[str, str, list[str], int]]:
    """All system calls in the order in which they ended: the thread, the call, its arguments and its result."""
    begun: dict[str, str] = {}
    with trace.open() as lines:
        for line in lines:
            found = _LINE.match(line)
            assert found is not None, line
            process, rest = found["pid"], found["rest"]
            if "<unfinished ...>" in rest:
                begun[process] = rest.partition("<unfinished ...>")[0]
                continue
            if "resumed>" in line[:60]:
                rest = begun.pop(process, "") + rest
            call = _CALL.match(rest)
            if call is not None:
                yield process, call["name"], _WORD.findall(call["words"]), int(call["result"])


def _bytes(word: str) -> bytes:
    return bytes.fromhex(word.strip('"').replace("\\x", ""))


def _changed(content: bytes, place: int, data: bytes | None) -> bytes:
    if data is None:
        return content[:place].ljust(place, b"\0")
    return content[:place].ljust(place, b"\0") + data + content[place + len(data) :]


def _rename(names: dict[str, File | Folder], changes: dict[str, File | Folder | None]) -> None:
    for name, found in changes.items():
        if found is None:
            names.pop(name, None)
        else:
            names[name] = found


def _write(folder: Folder, place: Path, chance: random.Random, share: float) -> None:
    place.mkdir(parents=True)
    for name, found in folder.found(chance, share).items():
        if isinstance(found, Folder):
            _write(found, place / name, chance, share)
        else:
            (place / name).write_bytes(found.found(chance, share))
