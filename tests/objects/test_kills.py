"""``prvr library add`` to object storage, killed (SIGKILL) at random moments, on one machine after the other."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from prvr.library import Library
from prvr.objects import newest_manifest, open_object_store, open_published
from prvr.worlds import RenderedWorld
from tests.cluster.alike import same_library
from tests.objects.conftest import RATE

KILLS = 12
# The command, with short times: it publishes often, and soon takes over the lease of a dead process.
PROGRAM = """
import sys
from prvr.objects import lease, publish, writer
lease.SETTLE, lease.BEAT, lease.SILENCE, writer.EVERY = 0.1, 0.2, 1.5, 0.1
publish.LARGEST, publish.SMALL, publish.BLOCK = 20_000, 5_000, 8192
from prvr.cli import main
print("ready", flush=True)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_killed_again_and_again(
    address: str, films: RenderedWorld, tmp_path: Path, machine: Callable[[str], None]
) -> None:
    whole = Library.create(tmp_path / "whole", rate=RATE)
    whole.add([films.folder])
    chance, store = random.Random(7), open_object_store(address)
    words = [sys.executable, "-c", PROGRAM, "library", "add", str(films.folder), "--library", address, "--rate", "2"]
    states, killed = [], 0
    while True:
        machine(f"machine {chance.randrange(3)}")
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ))
        assert process.stdout is not None
        process.stdout.readline()
        if killed < KILLS:
            time.sleep(chance.uniform(0.1, 1.5))
            process.kill()
        _, err = process.communicate(timeout=120)
        found = newest_manifest(store)
        states.append(0 if found is None else found.generation)
        if found is not None:
            machine("a reader")
            assert open_published(address).verify().ok
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, err
        killed += 1
    assert killed >= 5
    assert states == sorted(states)
    machine("a reader")
    same_library(open_published(address), whole)
    manifests = store.list("manifests")
    assert 0 < len(manifests) <= 3
    assert store.list("lease.json") == {}
