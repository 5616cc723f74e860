"""docs/add-a-backbone.md works to the letter: its files are written, its commands are run, and the method learns."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from prvr.backbones import METHOD_FOLDERS, UnknownMethod, methods
from prvr.training import Run, read_metrics

IN_ONE_PROCESS = """
import json, sys
from prvr.cli import main
for words in json.loads(sys.argv[1]):
    code = main(words)
    if code:
        sys.exit(code)
"""  # a fresh interpreter for each command would take seconds to import torch
DOCUMENT = Path(__file__).parent.parent / "docs" / "add-a-backbone.md"


@pytest.mark.slow
def test_following_the_document(tmp_path: Path) -> None:
    text = DOCUMENT.read_text("utf-8")
    files = re.findall(r"```(?:python|toml) (\S+)\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in files] == ["my_methods/meanmax.py", "meanmax.toml"]  # one file, one preset
    for name, content in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    (commands,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [shlex.split(line, comments=True) for line in commands.splitlines()]
    exports = dict(words[1].split("=", 1) for words in lines if words[0] == "export")
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS, json.dumps([words[1:] for words in lines if words[0] == "prvr"])],
        cwd=tmp_path,
        env=os.environ | exports,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert exports.keys() == {METHOD_FOLDERS}
    first, last = read_metrics(tmp_path / "runs" / "meanmax")
    assert sum(last["loss"].values()) < sum(first["loss"].values())
    assert last["base"]["sum_r"] > 210  # chance on 16 videos: 100·(1 + 5 + 10)/16 + 100 = 200
    assert Run(tmp_path / "runs" / "meanmax").record["config"]["method"] == "meanmax"
    assert "meanmax" in done.stdout.splitlines()[-1]  # the row of the transfer table


def test_the_document_shows_clean_code(tmp_path: Path) -> None:
    ((name, code),) = re.findall(r"```python (\S+)\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    file = tmp_path / Path(name).name
    file.write_text(code, encoding="utf-8")
    config = DOCUMENT.parent.parent / "pyproject.toml"
    for command in (["ruff", "check", "--config", str(config)], ["ruff", "format", "--check", "--config", str(config)]):
        done = subprocess.run([sys.executable, "-m", *command, str(file)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_folder_that_is_not_there_or_a_name_that_is_taken_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(METHOD_FOLDERS, os.pathsep.join([str(tmp_path), str(tmp_path / "gone")]))
    with pytest.raises(UnknownMethod, match=r"PRVR_BACKBONES lists .*gone, which is not a folder"):
        methods()
    (tmp_path / "mine.py").write_text(
        "from prvr.backbones import register\nfrom prvr.backbones.xml import XML\n"
        "@register\nclass Mine(XML):\n    pass\n"
    )
    monkeypatch.setenv(METHOD_FOLDERS, str(tmp_path))
    with pytest.raises(UnknownMethod, match=r"names its method 'xml', as prvr\.backbones\.xml does"):
        methods()
