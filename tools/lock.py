"""``make lock``: write locks/*.txt, the exact version and the hashes of every package that `make setup` installs.

``development.txt`` is for the tests (the extra ``dev``), ``runtime.txt`` for `make demo` and for a server. Both leave
torch out: which build of it is right (CPU, CUDA, ROCm), and with it the file and its GPU libraries, depends on the
machine. ``torch.txt`` holds the build of the usual index with all that it needs, for those who want it by hash.

Versions that are in the files stay as they are, unless constraints.txt says otherwise or ``--upgrade`` is given.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "locks"
EXTRAS = {"development": ("dev",), "runtime": ("media", "server")}
OF_THE_BUILD = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)==")  # what differs between the builds of torch
_HEADER = "# Written by `make lock`. pip install --require-hashes -r locks/{name}.txt\n"


def compiled(name: str, arguments: list[str]) -> list[str]:
    """The packages of a lock, each with its hashes, as uv finds them for every platform and Python from 3.11 on."""
    place = LOCKS / f"{name}.txt"
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--universal", "--generate-hashes"]
    command += ["--python-version", "3.11", "--no-header", "--no-annotate", "--no-emit-index-url", "--quiet"]
    command += ["--constraint", "constraints.txt", "--output-file", str(place), *arguments]
    for extra in EXTRAS[name]:
        command += ["--extra", extra]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return re.split(r"\n(?=\S)", place.read_text("utf-8").strip())


def write(name: str, packages: list[str]) -> None:
    (LOCKS / f"{name}.txt").write_text(_HEADER.format(name=name) + "\n".join(packages) + "\n", "utf-8")
    print(f"locks/{name}.txt: {len(packages)} packages")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that constraints.txt allows")
    upgrade = ["--upgrade"] if parser.parse_args().upgrade else []
    development = compiled("development", upgrade)
    write("development", [package for package in development if not OF_THE_BUILD.match(package)])
    write("torch", [package for package in development if OF_THE_BUILD.match(package)])
    runtime = compiled("runtime", ["--upgrade", "--constraint", str(LOCKS / "development.txt")])
    write("runtime", [package for package in runtime if not OF_THE_BUILD.match(package)])


if __name__ == "__main__":
    main()
