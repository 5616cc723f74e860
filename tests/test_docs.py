"""What the documents show works: Python blocks run, commands exist, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from prvr.cli import COMMANDS

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [path.name for path in DOCUMENTS]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_python_blocks_run(path: Path) -> None:
    for block in blocks(path, "python"):
        exec(compile(block, path.name, "exec"), {})


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_commands_exist(path: Path) -> None:
    for block in blocks(path, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["prvr"]:
                assert words[1] in COMMANDS, line
            elif words[:1] == ["make"]:
                assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), line
            elif words[:1] == ["python"]:
                assert (ROOT / words[1]).is_file(), line


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text("utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target
