"""``make sbom``: what a running prvr consists of, as a CycloneDX document, from the locks ``runtime`` and ``torch``."""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOCKS = ("runtime", "torch")


def components(lock: str) -> list[dict[str, Any]]:
    """The packages of a lock.

    >>> components("a==1.0 ; sys_platform == 'linux' \\\\\\n    --hash=sha256:00\\nb==2\\n")[0]["purl"]
    'pkg:pypi/a@1.0'
    """
    found = []
    for package in re.split(r"\n(?=\S)", lock):
        pinned = re.match(r"([\w.-]+)==([^\s;]+)", package)
        if pinned is None:  # a comment
            continue
        name, version = pinned.groups()
        # A package has several files, for platforms; CycloneDX lists their hashes as distributions.
        purl = f"pkg:pypi/{name}@{version}"
        files = [
            {"type": "distribution", "url": purl, "hashes": [{"alg": "SHA-256", "content": sha}]}
            for sha in re.findall(r"--hash=sha256:([0-9a-f]+)", package)
        ]
        entry = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        found.append(entry | {"externalReferences": files})
    return found


def document() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    listed = [each for name in LOCKS for each in components((ROOT / "locks" / f"{name}.txt").read_text("utf-8"))]
    purl = f"pkg:pypi/{project['name']}@{project['version']}"
    own = {"type": "application", "bom-ref": purl, "name": project["name"], "version": project["version"], "purl": purl}
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(listed))  # the same locks, the same document
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": own | {"licenses": [{"license": {"id": project["license"]}}]}},
        "components": listed,
        "dependencies": [{"ref": purl, "dependsOn": sorted({each["bom-ref"] for each in listed})}],
    }


if __name__ == "__main__":
    out = ROOT / "dist" / "prvr.cdx.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(document(), indent=1) + "\n", encoding="utf-8")
    print(f"{out.relative_to(ROOT)}: {len(document()['components'])} packages")
