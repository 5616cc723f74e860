"""The API against its own description: whatever the schema allows or forbids, the server answers as it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from prvr.library import Library
from prvr.server import ServerOptions, create_app

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: pip install 'prvr[dev]'")


@pytest.fixture(scope="module")
def described(base: Path, tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tmp_path_factory.mktemp("fuzzed")
    shutil.copytree(base / "library", folder / "library")
    (folder / "empty").mkdir()
    app = create_app(Library.open(folder / "library"), ServerOptions(roots=(folder / "empty",)))
    return schemathesis.openapi.from_asgi("/v1/openapi.json", app, headers={"Host": "localhost"})


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_server_does_what_its_schema_says(case: object) -> None:
    case.headers = {**(case.headers or {}), "Host": "localhost"}  # type: ignore[attr-defined]
    case.call_and_validate()  # type: ignore[attr-defined]
