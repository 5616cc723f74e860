"""``python benchmarks/supply_chain.py``: write the tables of docs/supply-chain.md from what is installed here."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from prvr.doctor import Package, examine

DOCUMENT = Path(__file__).parent.parent / "docs" / "supply-chain.md"
MARK = "<!-- from here on written by benchmarks/supply_chain.py -->"


def table(packages: Iterable[Package]) -> list[str]:
    rows = [f"| {p.name} | {p.version} | {p.licence} | {', '.join(p.needed_by)} |" for p in packages]
    return ["| package | version | licence, as it states it | for |", "|---|---|---|---|", *rows]


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
