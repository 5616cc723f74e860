"""Nothing that is read can run: no pickles, no evaluated text, no shells. And what is fetched is compared."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def locked(name: str) -> dict[str, str]:
    """The packages of a lock file, with their versions."""
    found = {}
    for package in re.split(r"\n(?=\S)", (ROOT / "locks" / f"{name}.txt").read_text("utf-8")):
        if not package.startswith("#"):
            assert package.count("--hash=sha256:") >= 1, package
            pinned = re.match(r"([\w.-]+)==([^\s;]+)", package)
            assert pinned is not None, package
            found[canonicalize_name(pinned[1])] = pinned[2]
    return found


def required(*extras: str) -> Iterator[Requirement]:
    for line in [*PROJECT["dependencies"], *(line for e in extras for line in PROJECT["optional-dependencies"][e])]:
        requirement = Requirement(line)
        if requirement.name == PROJECT["name"]:
            yield from required(*requirement.extras)
        else:
            yield requirement


@pytest.mark.parametrize(("lock", "extras"), [("development", ["dev"]), ("runtime", ["media", "server"])])
def test_a_lock_holds_what_pyproject_asks_for(lock: str, extras: list[str]) -> None:
    pins = {Requirement(line).name: line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()[1:]}
    found = locked(lock) | {"torch": locked("torch")["torch"]}
    for requirement in required(*extras):
        name = canonicalize_name(requirement.name)
        assert name in found, f"{name} is not in locks/{lock}.txt: make lock"
        for wanted in (requirement, Requirement(pins[requirement.name])):
            assert wanted.specifier.contains(found[name]), (
                f"{wanted}, but locks/{lock}.txt has {found[name]}: make lock"
            )
    assert not re.search(r"https?:|--(extra-)?index-url", (ROOT / "locks" / f"{lock}.txt").read_text("utf-8"))


def test_the_demo_installs_less_than_the_tests() -> None:
    runtime, development = locked("runtime"), locked("development")
    assert runtime.items() <= development.items()
    assert not {"pytest", "transformers", "moto", "ray", "torch"} & runtime.keys()


def test_a_bill_of_materials_names_every_locked_package() -> None:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "tools" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    made = tool.document()
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    expected = {f"pkg:pypi/{name}@{number}" for lock in ("runtime", "torch") for name, number in locked(lock).items()}
    assert {part["purl"] for part in made["components"]} == expected
    assert all(part["externalReferences"] for part in made["components"])


@pytest.mark.parametrize(("package", "tested"), [("uvicorn", "0.54"), ("rich", "15"), ("ray", "2.60")])
def test_packages_whose_inner_parts_are_extended_have_an_upper_bound(package: str, tested: str) -> None:
    """Look at what is extended (pyproject.toml says where) before the bound is raised, then name the version here."""
    requirements = {each.name: each for each in required("server", "scale")}
    allowed = requirements[package].specifier
    assert allowed.contains(f"{tested}.0")
    parts = tested.split(".")
    assert not allowed.contains(".".join([*parts[:-1], str(int(parts[-1]) + 1), "0"]))
    if package != "ray":
        assert version(package).startswith(f"{tested}.")


def test_the_protocol_of_uvicorn_has_what_is_extended() -> None:
    from uvicorn.protocols.http.h11_impl import H11Protocol

    source = ast.parse((ROOT / "src/prvr/server/protocol.py").read_text("utf-8"))
    used = {n.attr for n in ast.walk(source) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "super()"}
    assert used == {"connection_made", "data_received", "connection_lost"}
    assert used <= vars(H11Protocol).keys()
