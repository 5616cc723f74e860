"""Work on several cores gives what one core gives, in order."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from prvr.processes import available_memory, map_in_processes


def test_a_container_may_have_less_memory_left_than_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "/proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n",
        "/sys/fs/cgroup/memory.max": "3000000000",
        "/sys/fs/cgroup/memory.current": "2500000000",
        "/sys/fs/cgroup/memory.stat": "anon 1500000000\nactive_file 300000000\ninactive_file 700000000\n",
    }
    monkeypatch.setattr(Path, "read_text", lambda path: told[str(path)])
    assert available_memory() == 1_500_000_000  # files that were read make room
    told["/sys/fs/cgroup/memory.max"] = "max"
    assert available_memory() == 4_000_000 << 10


def test_results_come_in_order() -> None:
    numbers = list(range(40))
    assert list(map_in_processes(math.sqrt, numbers)) == [math.sqrt(n) for n in numbers]
    assert list(map_in_processes(math.sqrt, numbers, workers=2)) == [math.sqrt(n) for n in numbers]


def test_a_problem_of_one_item_is_raised() -> None:
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        list(map_in_processes(math.sqrt, [1.0, -1.0, 4.0], workers=2))


def test_a_worker_that_dies_is_reported() -> None:
    with pytest.raises(RuntimeError, match="terminated abruptly"):
        list(map_in_processes(os._exit, [7, 7], workers=2))


SCRIPT = """
from prvr.processes import map_in_processes

class Scale:
    def __init__(self, factor): self.factor = factor
    def __call__(self, number):
        print("on the way")
        return self.factor * number

def work():
    print(*map_in_processes(Scale(3), [1, 2], workers=2))
"""


def test_a_script_s_own_classes_reach_the_workers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{SCRIPT}\nif __name__ == '__main__':\n    work()\n", encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "3 6"


def test_a_script_that_starts_workers_when_imported_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{SCRIPT}\nwork()\n", encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "if __name__ == '__main__'" in done.stderr
