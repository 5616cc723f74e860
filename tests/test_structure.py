"""The house keeps its shape: style and types, who may import whom, and what a numeric machine needs."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from prvr.errors import UserError

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "prvr"

# Data flows left to right; nothing on the left imports from the right.
MAY_IMPORT = {
    "errors": set(),  # which every room may import
    "doors": set(),  # the same
    "terminal": set(),
    "words": set(),
    "times": set(),
    "compiler": set(),
    "dropout": set(),
    "tokens": set(),
    "files": set(),
    "data": {"terminal", "times", "tokens", "files"},
    "processes": set(),
    "processor": {"processes"},
    "media": {"words", "times", "compiler", "processor", "files", "processes", "data"},
    "worlds": {"tokens", "files", "processes", "data", "media"},
    "losses": {"tokens"},
    "trace": {"dropout", "tokens"},
    "backbones": {"dropout", "tokens", "files", "losses", "trace"},
    "scoring": {"tokens", "files", "backbones", "trace"},
    "training": {
        "terminal",
        "words",
        "compiler",
        "processor",
        "tokens",
        "files",
        "processes",
        "losses",
        "backbones",
        "trace",
        "scoring",
        "data",
    },
    "evaluation": {"words", "tokens", "files", "backbones", "trace", "scoring", "training", "data"},
    "sharing": {"files", "backbones", "training", "evaluation", "media"},
    "library": {
        "processes",
        "words",
        "times",
        "tokens",
        "files",
        "data",
        "media",
        "worlds",
        "backbones",
        "trace",
        "scoring",
        "training",
    },
    "bench": {
        "processor",
        "tokens",
        "backbones",
        "trace",
        "scoring",
        "training",
        "data",
        "media",
        "processes",
        "worlds",
        "library",
    },
    "lake": {"files", "library", "media", "scoring"},
    "server": {"processes", "lake", "library", "media", "trace"},
    "assistant": {"library", "media", "server"},
    "doctor": {"processes", "processor", "scoring", "lake", "library", "media", "files"},
    "cli": {
        "terminal",
        "doctor",
        "times",
        "tokens",
        "files",
        "backbones",
        "trace",
        "scoring",
        "training",
        "data",
        "evaluation",
        "sharing",
        "bench",
        "media",
        "library",
        "lake",
        "worlds",
        "server",
        "assistant",
    },
}
NUMERIC_ROOMS = ("tokens", "data", "losses", "backbones", "trace", "scoring", "training", "evaluation")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "tool", [("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",)], ids=["lint", "format", "types"]
)
def test_style_and_types(tool: tuple[str, ...]) -> None:
    result = run(sys.executable, "-m", *tool)
    assert result.returncode == 0, result.stdout + result.stderr


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "prvr" else [f"prvr.{a.name}" for a in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("prvr.")}
    return found


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_rooms_import_only_what_lies_to_their_left(room: str) -> None:
    folder = SOURCE / room
    for path in folder.rglob("*.py") if folder.is_dir() else [SOURCE / f"{room}.py"]:
        beyond = imported_rooms(path) - MAY_IMPORT[room] - {room, "errors", "doors", "__version__"}
        assert not beyond, f"{path.relative_to(SOURCE)} imports {beyond}"


def test_commands_print_on_the_console_that_escapes_names() -> None:
    own = {SOURCE / "terminal.py"}
    wrong = [path for path in {*SOURCE.rglob("*.py")} - own if "rich.console import Console" in path.read_text("utf-8")]
    assert not wrong, f"{wrong}: from prvr.terminal import Console"


def rooms_with_doors() -> dict[str, set[str]]:
    """Rooms that are folders, and what each exports."""
    found = {}
    for door in SOURCE.glob("*/__init__.py"):
        names: set[str] = set()
        for node in ast.parse(door.read_text("utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names = set(ast.literal_eval(node.value))
        found[door.parent.name] = names
    return found


def test_rooms_are_entered_by_their_front_door() -> None:
    """Other rooms, and the benchmarks, import what a room's `__init__` exports and no module inside it."""
    doors = rooms_with_doors()
    wrong = []
    for path in [*SOURCE.rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]:
        own = path.relative_to(SOURCE).parts[0] if path.is_relative_to(SOURCE) else None
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            imports = []
            if isinstance(node, ast.ImportFrom) and node.module:
                imports = [(node.module, alias.name) for alias in node.names]
            elif isinstance(node, ast.Import):
                imports = [(alias.name, None) for alias in node.names]
            for module, name in imports:
                parts = module.split(".")
                if parts[0] != "prvr" or len(parts) < 2 or parts[1] not in doors or parts[1] == own:
                    continue
                if len(parts) > 2 or (name is not None and name not in doors[parts[1]]):
                    wrong.append(f"{path.relative_to(ROOT)}: from {module} import {name}")
    assert not wrong, "\n".join(wrong)


def test_doors_that_import_on_demand_find_what_they_name() -> None:
    """A name that is also a file's would depend on who came first."""
    for room, names in rooms_with_doors().items():
        door = importlib.import_module(f"prvr.{room}")
        assert not [name for name in names if not hasattr(door, name)]
        files = {path.stem for path in (SOURCE / room).iterdir()} if hasattr(door, "__getattr__") else set()
        clash = {name for name in names & files if not isinstance(getattr(door, name), ModuleType)}
        assert not clash, f"prvr.{room} exports {clash}, which are also files there"


def test_a_public_name_means_one_thing() -> None:
    """A public class or function at the top of a file has a name that no other file defines."""
    places: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_every_room_is_listed() -> None:
    rooms = {p.stem for p in SOURCE.iterdir() if p.is_dir() or p.suffix == ".py"}
    assert rooms - {"__init__", "__main__", "__pycache__", "presets"} <= MAY_IMPORT.keys()


def test_numeric_rooms_need_neither_the_command_line_nor_figures() -> None:
    """A training machine has torch, numpy, h5py, safetensors and rich; nothing else may be needed to import."""
    blocked = ("tyro", "pydantic", "matplotlib", "tensorboard", "av", "lancedb", "fastapi", "transformers")
    rooms = [f"prvr.{room}" for room in NUMERIC_ROOMS]
    program = f"import sys\nfor name in {blocked}: sys.modules[name] = None\nimport {', '.join(rooms)}"
    result = run(sys.executable, "-c", program)
    assert result.returncode == 0, result.stderr


POSIX_MODULES = {"fcntl", "resource", "termios", "pwd", "grp", "pty", "tty"}
POSIX_CALLS = {"os.register_at_fork", "os.pread", "os.pwrite", "os.fork", "os.sched_getaffinity", "signal.SIGKILL"}


def needed_to_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported: everything outside functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from needed_to_import(child)


def test_importing_needs_no_posix_system() -> None:
    """So that macOS and Windows can import every room; what needs more says so when it is used."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in needed_to_import(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if POSIX_MODULES & {*names} or (isinstance(node, ast.ImportFrom) and node.module in POSIX_MODULES):
                found.add(str(path.relative_to(SOURCE)))
            if isinstance(node, ast.Attribute) and ast.unparse(node) in POSIX_CALLS:
                found.add(str(path.relative_to(SOURCE)))
    assert found == set()


def test_goldens_stay_small() -> None:
    large = {p.name: p.stat().st_size for p in (ROOT / "tests" / "golden").iterdir() if p.stat().st_size > 1_000_000}
    assert not large


# What is raised for another reason than to tell a person what to put right.
NOT_FOR_PEOPLE = {
    "Irregular",  # a file is decoded in one pass
    "Interrupted",  # ends a training after Ctrl-C
    "Problem",  # an answer of the server
    "ShardMissing",  # a reader looks again
    "UnreadableShard",  # a search leaves videos out
}


def test_every_error_that_a_person_can_fix_has_one_base() -> None:
    """The command line and the server catch ``UserError``; a class beside it would show as a traceback."""
    for info in pkgutil.walk_packages([str(SOURCE)], "prvr."):
        if info.name not in ("prvr.__main__", "prvr.presets"):
            with suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(info.name)
    ours = {each for each in _subclasses(Exception) if each.__module__.startswith("prvr.")}
    assert UserError in ours
    beside = {each.__name__ for each in ours if not issubclass(each, UserError) and each.__name__[0] != "_"}
    assert beside <= NOT_FOR_PEOPLE, "derive it from prvr.errors.UserError"


def _subclasses(base: type[BaseException]) -> Iterator[type[BaseException]]:
    for each in base.__subclasses__():
        yield each
        yield from _subclasses(each)


def test_the_command_line_catches_the_one_base() -> None:
    tree = ast.parse((SOURCE / "cli" / "errors.py").read_text("utf-8"))
    caught = {ast.unparse(node.type) for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type}
    expected = {"_Terminated", "(Interrupted, KeyboardInterrupt)", "BrokenPipeError", "UserError"}
    expected |= {"_safetensor_error()", "OSError"}
    assert caught == expected
