"""Nothing that is read can run: no pickles, no evaluated text, no shells. And what is fetched is compared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = [*sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "benchmarks").glob("*.py"))]
# Modules whose reading is running, and those that pass objects around as pickles.
BANNED_MODULES = {
    "pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "copyreg", "yaml", "pandas",
}  # fmt: skip
BANNED_CALLS = {"eval", "exec", "compile", "__import__"}
BANNED_METHODS = {
    "broadcast_object_list", "all_gather_object", "gather_object", "scatter_object_list", "send_object_list",
    "recv_object_list", "read_pickle", "to_pickle", "special_dtype", "vlen_dtype",
}  # fmt: skip


def offences(tree: ast.AST) -> Iterator[str]:
    """What a file does that it should not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = []
        yield from (f"imports {name}" for name in names if name.partition(".")[0] in BANNED_MODULES)
        if isinstance(node, ast.Call):
            yield from _call(node)


def _call(node: ast.Call) -> Iterator[str]:
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
        yield f"calls {node.func.id}"
    if isinstance(node.func, ast.Attribute):
        name, owner = node.func.attr, ast.unparse(node.func.value)
        if name in BANNED_METHODS:
            yield f"calls {owner}.{name}"
        if (owner, name) == ("torch", "load") and not _is(given.get("weights_only"), True):
            yield "calls torch.load without weights_only=True"
        if (owner, name) == ("torch", "save"):
            yield "calls torch.save, which writes a pickle"
        if owner in ("np", "numpy") and name == "load" and not _is(given.get("allow_pickle"), False):
            yield "calls np.load without allow_pickle=False"
        if (owner, name) in (("os", "system"), ("os", "popen")):
            yield "runs a shell"
        if owner == "subprocess" and "shell" in given and not _is(given["shell"], False):
            yield "runs a shell"
    if "dtype" in given and ast.unparse(given["dtype"]) in ("object", "'O'", "np.object_", "h5py.string_dtype()"):
        yield "stores Python objects in an array"


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def test_nothing_is_unpickled_or_evaluated() -> None:
    found = {str(path.relative_to(ROOT)): list(offences(ast.parse(path.read_text("utf-8")))) for path in SOURCES}
    assert {path: what for path, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "from pickle import loads", "import torch; torch.load('f')", "torch.load('f', weights_only=x)",
        "np.load('f')", "np.load('f', allow_pickle=True)", "eval('1')", "exec('1')", "import shelve", "import yaml",
        "from joblib import load", "dist.broadcast_object_list(box)", "torch.save({}, 'f')", "os.system('ls')",
        "subprocess.run('ls', shell=True)", "file.create_dataset('x', dtype=object)",
    ],
)  # fmt: skip
def test_the_search_finds_what_it_is_for(line: str) -> None:
    assert list(offences(ast.parse(line)))
