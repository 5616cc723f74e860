"""No process that we start imports a file from the folder where a command runs."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from prvr.lake import open_library
from prvr.library import Library
from prvr.processes import import_path, python_command
from prvr.worlds import FEATURE_SIZES, RenderConfig, RenderedWorld, render_world, write_feature_world

ROOT = Path(__file__).parent.parent
MARKER = "imported.txt"
PATIENCE = 120.0  # seconds: far more than anything here takes
# Our own packages, what they import, and what Python's own start of a process imports.
HOSTILE = (
    "prvr", "av", "torch", "numpy", "h5py", "json", "pickle", "struct", "socket", "signal", "random", "tempfile",
    "subprocess", "multiprocessing", "runpy", "pkgutil", "asyncio", "rich", "fastapi", "uvicorn", "pydantic",
    "safetensors", "transformers", "tyro", "ray", "lance", "pyarrow", "sitecustomize", "usercustomize",
    "library_search",
)  # fmt: skip
OTHERS = ("get_context", "ProcessPoolExecutor", "Pool")  # ways to start Python that are not ours
COMMAND = "import sys\nfrom prvr.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"

DECODE = """
from prvr.media import Fit, Sampling, decode_videos, decoder_start, video_path
films = [video_path(path) for path in {paths}]
how = Sampling(1.0, Fit(32, 24, "cover", "bilinear"))
for decoder_start.FORKS in {{decoder_start.FORKS, False}}:
    for file in decode_videos(films, how, 2, start_after=0, wait=True):
        assert sum(len(batch.times) for batch in file.batches())
print("decoded")
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder full of files that are named like modules and leave a mark when they are imported."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in HOSTILE:
        mark = f"open({str(folder / MARKER)!r}, 'a').write({name!r} + '\\n')\nraise ImportError('hostile {name}')\n"
        (folder / f"{name}.py").write_text(mark, encoding="utf-8")
    return folder


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The ``prvr`` command as an installed script starts it: the script's own folder is on the path."""
    script = tmp_path / "bin" / "prvr-command"
    script.parent.mkdir()
    script.write_text(COMMAND, encoding="utf-8")
    return [sys.executable, str(script)]


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    config = RenderConfig(train=1, val=1, test=1, events=(1, 2), seconds=(3.0, 4.0), width=64, height=48, fps=4.0)
    return render_world(tmp_path_factory.mktemp("films") / "films", config)


def run(words: list[str], folder: Path, **environment: str) -> str:
    """Run a command in a folder; it must succeed and import nothing from there."""
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, **environment}
    )
    assert imported(folder) == ""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def imported(folder: Path) -> str:
    marker = folder / MARKER
    return marker.read_text() if marker.exists() else ""


@contextmanager
def serving(words: list[str], folder: Path) -> Iterator[str]:
    server = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert "the page:" in line, line + imported(folder)
        yield line.split()[2].rstrip("/")
    finally:
        server.terminate()
        server.wait(60)
        assert server.stdout is not None
        server.stdout.close()


def request(address: str, body: dict[str, Any] | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
        return bytes(answer.read())


@pytest.mark.parametrize("start", ["script", pytest.param("module", marks=pytest.mark.slow)])
def test_a_server_s_thumbnails_and_jobs(
    start: str, hostile: Path, command: list[str], films: RenderedWorld, tmp_path: Path
) -> None:
    library = Library.create(tmp_path / "library", encoder="plain", rate=1.0)
    first, second, *_ = sorted(films.videos.values())
    library.add([first])
    if start == "module":  # what Python itself imports for -m comes from the working folder, before any code of ours
        command = [sys.executable, "-m", "prvr"]
        for name in {*HOSTILE} - {"av", "torch", "numpy", "h5py", "transformers"}:
            (hostile / f"{name}.py").unlink()
    words = [*command, "serve", str(library.folder), "--port", "0", "--allow-root", str(second.parent)]
    with serving(words, hostile) as address:
        assert request(f"{address}/v1/videos/1/thumbnail").startswith(b"\xff\xd8")
        [root] = json.loads(request(f"{address}/v1/library"))["roots"]
        job = json.loads(request(f"{address}/v1/videos", {"root": root, "path": second.name}))
        deadline = time.monotonic() + PATIENCE
        while job["state"] in ("queued", "running") and time.monotonic() < deadline:
            time.sleep(0.1)
            job = json.loads(request(f"{address}/v1/jobs/{job['id']}"))
        assert imported(hostile) == ""
        assert (job["state"], job["report"]["added"]) == ("done", 1)
    assert imported(hostile) == ""


def test_adding_to_a_library(hostile: Path, command: list[str], films: RenderedWorld, tmp_path: Path) -> None:
    folder = str(tmp_path / "library")
    run(
        [*command, "library", "add", str(films.folder), "--library", folder, "--encoder", "plain", "--rate", "1"],
        hostile,
    )
    assert len(Library.open(folder).videos("ok")) == len(films.videos)


def test_decoders(hostile: Path, films: RenderedWorld, tmp_path: Path) -> None:
    """Those that are forked, and those that are programs of their own."""
    script = tmp_path / "script.py"
    script.write_text(DECODE.format(paths=[str(path) for path in films.videos.values()]), encoding="utf-8")
    assert run([sys.executable, str(script)], hostile) == "decoded\n"


def test_work_on_several_cores(hostile: Path, tmp_path: Path) -> None:
    """Also where the caller itself has the working folder on its path, as under ``python -c`` and in notebooks."""
    program = (
        "import sys; place = sys.path.pop(0)\n"
        "import math\n"
        "from prvr.processes import map_in_processes\n"
        "sys.path.insert(0, place)\n"
        "if __name__ == '__main__':\n"
        "    print(*map_in_processes(math.sqrt, [1.0, 4.0, 9.0], workers=2))\n"
    )
    assert run([sys.executable, "-c", program], hostile) == "1.0 2.0 3.0\n"
    script = tmp_path / "script.py"
    script.write_text(program.replace("place = sys.path.pop(0)", "place = ''"), encoding="utf-8")
    assert run([sys.executable, str(script)], hostile) == "1.0 2.0 3.0\n"


def test_watching_a_folder(hostile: Path, command: list[str], films: RenderedWorld, tmp_path: Path) -> None:
    pytest.importorskip("watchfiles", reason='watching needs watchfiles: pip install "prvr[watch]"')
    words = ["library", "watch", str(films.folder), "--library", str(tmp_path / "library"), "--encoder", "plain"]
    watcher = subprocess.Popen([*command, *words, "--settle", "0.1"], cwd=hostile, stdout=subprocess.PIPE, text=True)
    try:
        assert watcher.stdout is not None
        added = (line for line in watcher.stdout if "added" in line)
        assert len([line for _, line in zip(films.videos, added, strict=False)]) == len(films.videos), imported(hostile)
    finally:
        watcher.terminate()
        watcher.communicate(timeout=60)
    assert imported(hostile) == ""
    assert watcher.returncode == 0


def test_an_assistant_s_pictures_and_clips(
    hostile: Path, command: list[str], films: RenderedWorld, tmp_path: Path
) -> None:
    mcp = pytest.importorskip("mcp", reason='assistants need mcp: pip install "prvr[mcp]"')
    library = Library.create(tmp_path / "library", encoder="plain", rate=1.0)
    library.add([min(films.videos.values())])
    words = [*command[1:], "mcp", str(library.folder), "--clips", str(tmp_path / "clips")]
    started = mcp.StdioServerParameters(command=command[0], args=words, cwd=hostile, env=dict(os.environ))

    async def talk() -> None:
        async with mcp.Client(started, read_timeout_seconds=PATIENCE) as client:
            for tool, more in (("pictures", {"times": [1.0]}), ("clip", {"start": 0.0, "end": 1.0})):
                assert not (await client.call_tool(tool, {"video": 1, **more})).is_error

    asyncio.run(talk())
    assert imported(hostile) == ""
    assert [path.suffix for path in (tmp_path / "clips").iterdir()] == [".mp4"]


def test_the_trainings_of_a_sweep(hostile: Path, command: list[str], world: Path, preset: Path, tmp_path: Path) -> None:
    """The training refuses its data, which it reads after all imports."""
    file = tmp_path / "sweep.toml"
    settings = "[settings]\nmodel.visual_width = 7\n"
    file.write_text(f'data = "{world}"\n[methods.dreamprvr]\n[datasets.tiny]\npreset = "{preset}"\n{settings}', "utf-8")
    words = [*command, "sweep", str(file), "--out", str(tmp_path / "out"), "--device", "cpu", "--log", "none"]
    done = subprocess.run(words, cwd=hostile, capture_output=True, text=True, check=False, timeout=300)
    assert imported(hostile) == ""
    assert done.returncode == 1
    (log,) = (tmp_path / "out" / "logs").iterdir()
    assert "visual width 24" in log.read_text("utf-8"), done.stdout + done.stderr


@pytest.mark.slow
def test_a_benchmark_with_a_server(hostile: Path) -> None:
    words = "--videos 4 --minutes 0.2 --width 16 --clients 2 --searches 4 --rounds 1"
    shown = run([sys.executable, str(ROOT / "benchmarks" / "server_load.py"), *words.split()], hostile)
    assert "0 of 64 failed" in shown


@pytest.mark.slow
def test_a_benchmark_that_trains(hostile: Path, tmp_path: Path) -> None:
    write_feature_world(tmp_path / "data" / "charades-mid-correlated", FEATURE_SIZES["tiny"], progress=False)
    (tmp_path / "data" / "charades-mid-correlated" / "proxy").mkdir()  # a world stands in for a proxy
    words = f"{tmp_path} --sources charades --noise mid --shapes correlated --controls --seeds 0"
    words += " --model.visual-width 24 --model.query-width 20 --model.width 16 --model.blocks 2 --model.registers 2"
    words += " --model.frames 24 --model.diffusion-steps 3 --backbone-stage.epochs 1 --trace-stage.epochs 1"
    words += " --trace-stage.frozen-epochs 0 --trace-stage.snapshots 1 --batch-size 10 --data.collection synth"
    run([sys.executable, str(ROOT / "benchmarks" / "proxy_study.py"), *words.split()], hostile)
    assert (tmp_path / "study.json").is_file()


@pytest.mark.slow  # tests/lake/test_on_ray.py adds on a cluster in the ordinary suite
def test_adding_on_a_cluster(hostile: Path, command: list[str], films: RenderedWorld) -> None:
    for package in ("ray", "lance"):
        pytest.importorskip(package, reason='clusters need Ray and Lance: pip install "prvr[scale]"')
    words = [
        "library",
        "add",
        str(films.folder),
        "--library",
        "films.lance",
        "--encoder",
        "plain",
        "--rate",
        "1",
        "--cluster",
        "local",
    ]
    run([*command, *words], hostile)
    assert len(open_library(str(hostile / "films.lance")).videos("ok")) == len(films.videos)


def test_python_is_started_in_one_way() -> None:
    """``python FILE`` puts the file's folder on the path, which is safe; ``python_command`` does what ``-m`` does."""
    unsafe = []
    for path in (*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")):
        text = path.read_text("utf-8")
        if path == ROOT / "src" / "prvr" / "processes.py" or not any(word in text for word in ("executable", *OTHERS)):
            continue
        for node in ast.walk(ast.parse(text)):
            words = [ast.unparse(each) for each in node.elts] if isinstance(node, ast.List) else []
            if "sys.executable" in words and "__file__" not in words:
                unsafe.append(f"{path.relative_to(ROOT)}: {ast.unparse(node)}")
            if isinstance(node, ast.Attribute) and node.attr in OTHERS:
                unsafe.append(f"{path.relative_to(ROOT)}: {ast.unparse(node)}")
    assert unsafe == []


def test_a_folder_that_was_chosen_stays_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not {"", str(tmp_path)} & {*import_path()}
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert str(tmp_path) in import_path()
    assert "" not in import_path()


def test_arguments_reach_the_module() -> None:
    done = subprocess.run(python_command("prvr", "--version"), capture_output=True, text=True, check=True)
    assert done.stdout.startswith("prvr ")
