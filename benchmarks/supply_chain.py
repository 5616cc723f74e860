"""``python benchmarks/supply_chain.py``: write the tables of docs/supply-chain.md from what is installed here."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from packaging.utils import canonicalize_name

from prvr.doctor import Package, examine

LOCK = Path(__file__).parent.parent / "locks" / "development.txt"
DOCUMENT = Path(__file__).parent.parent / "docs" / "supply-chain.md"
MARK = "<!-- from here on written by benchmarks/supply_chain.py -->"


def table(packages: Iterable[Package]) -> list[str]:
    rows = [f"| {p.name} | {p.version} | {p.licence} | {', '.join(p.needed_by)} |" for p in packages]
    return ["| package | version | licence, as it states it | for |", "|---|---|---|---|", *rows]


def compared_with_the_lock(packages: Iterable[Package]) -> str:
    """Which installed packages have another version than the lock, and which it does not name."""
    locked = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;]+)", LOCK.read_text("utf-8"), re.M)
    }
    names = {package.name: locked.get(canonicalize_name(package.name)) for package in packages}
    other = [f"{p.name} {p.version} ({names[p.name]})" for p in packages if names[p.name] not in (None, p.version)]
    outside = [name for name, version in names.items() if version is None]
    return (
        f"Compared with `locks/{LOCK.name}`: {', '.join(other) or 'no package'} has another version; "
        f"{', '.join(outside) or 'none'} {'is' if len(outside) == 1 else 'are'} not in it."
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    found = examine()
    direct = [package for package in found.packages if package.direct]
    indirect = [package for package in found.packages if not package.direct]
    day = datetime.now(UTC).date().isoformat()
    lines = [
        MARK,
        "",
        f"## Installed on {day}, Python {found.versions['python']}",
        f"{len(direct)} packages that prvr asks for itself, {len(indirect)} that those ask for. "
        f"FFmpeg inside PyAV: {found.libraries['ffmpeg']}.",
        "",
        "Not in order: " + ("; ".join(found.problems) if found.problems else "nothing") + ".",
        "",
        compared_with_the_lock(found.packages),
        "",
        "### Asked for by prvr",
        *table(direct),
        "",
        "### Asked for by those",
        *table(indirect),
    ]
    before = DOCUMENT.read_text("utf-8").partition(MARK)[0]
    DOCUMENT.write_text(before + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"wrote {DOCUMENT}")


if __name__ == "__main__":
    main()
