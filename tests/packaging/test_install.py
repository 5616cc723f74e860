"""The wheel installed in a clean environment, once with each extra: what the extra is for works.

Needs an index, or folders, that `pip` is configured to install from; skipped where it finds none.
"""

from __future__ import annotations

import os
import subprocess
import tomllib
import venv
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT

pytestmark = pytest.mark.slow

FILM = """
from prvr.media import write_video
import numpy as np
red, blue = (np.full((96, 128, 3), colour, np.uint8) for colour in ((200, 20, 20), (20, 40, 200)))
write_video("film.mp4", [red] * 8 + [blue] * 8, fps=2)
"""
LIBRARY = [["-c", FILM], ["-m", "prvr", "library", "add", "film.mp4", "--encoder", "plain"]]
# Commands that must work with an extra, and with nothing but it.
WORKS = {
    "": [["-c", "import prvr.training, prvr.library"], ["-m", "prvr", "data", "synth", "world", "--size", "tiny"]],
    "media": [*LIBRARY, ["-m", "prvr", "search", "something blue"]],
    "server": [["-m", "prvr", "serve", "--help"], ["-c", "import prvr.server"]],
    "encoders": [["-c", "from prvr.media.packages import require_transformers as r; r()"]],
    "openvino": [["-c", "from prvr.media.packages import require_openvino as r; r().Core()"]],
    "speech": [["-c", "from prvr.media.packages import require_faster_whisper as r; r()"]],
    "candidates": [["-c", "import lance, pyarrow"]],
    "numba": [["-c", "import prvr.scoring.engines.numba_kernel"]],
    "tensorboard": [["-c", "import tensorboard"]],
    "wandb": [["-c", "import wandb"]],
    "hub": [["-c", "from prvr.media import require_hub as r; r().HfApi"]],
    "onnx": [["-c", "from prvr.media import require_onnx as r, require_onnxruntime as s; r(), s()"]],
    "media-torchcodec": [["-c", "import importlib.metadata as m; m.version('torchcodec')"]],
    "scale": [["-c", "import ray, lance; from prvr.lake import open_library"]],
}


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", ["", *(extra for extra in EXTRAS if extra != "dev")])
def test_a_clean_environment_with_one_extra(extra: str, wheel: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(python), *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)

    what = f"{wheel}[{extra}]" if extra else str(wheel)
    installed = run("-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), what)
    if "No matching distribution found" in installed.stderr:
        pytest.skip(installed.stderr.strip().splitlines()[-1])
    assert installed.returncode == 0, installed.stderr
    for words in (["-m", "prvr", "--version"], ["-m", "prvr", "doctor"], *WORKS.get(extra, [])):
        done = run(*words)
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    checked = run("-m", "pip", "check")
    assert checked.returncode == 0, checked.stdout
