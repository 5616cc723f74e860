"""The container's files agree with the package. The image itself is not built here."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from prvr.cli.serve import ServeArguments
from prvr.server import ServerOptions
from prvr.server.service_routes import router

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def test_the_image_installs_extras_that_exist_as_a_user_without_rights() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (chosen,) = re.findall(r"^ARG EXTRAS=(.+)$", DOCKERFILE, re.MULTILINE)
    assert {*chosen.split(",")} <= extras.keys()
    assert {"server", "export", "watch", "mcp"} <= {*chosen.split(",")}  # all that the page and its commands offer
    stages = DOCKERFILE.split("\nFROM ")
    assert len(stages) == 3
    assert "slim" in stages[-1].splitlines()[0]
    assert re.search(r"^USER prvr$", stages[-1], re.MULTILINE)
    assert 'ENTRYPOINT ["prvr"]' in stages[-1]


def test_everything_that_is_copied_into_the_image_exists_and_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists(), name
            assert f"!{name}" in ignored, name


def test_health_is_asked_where_the_server_answers() -> None:
    port = ServerOptions().port
    assert f"http://127.0.0.1:{port}/v1/health" in DOCKERFILE  # tests/server/test_access.py runs it
    assert f"https://127.0.0.1:{port}/v1/health" in DOCKERFILE
    assert '"-I"' in DOCKERFILE  # a file in /data must not be imported
    assert f"EXPOSE {port}\n" in DOCKERFILE
    assert "/health" in {getattr(route, "path", "") for route in router.routes}


def test_compose_gives_the_token_as_a_file_and_keeps_the_library() -> None:
    yaml = pytest.importorskip("yaml")
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    service = compose["services"]["prvr"]
    secret = service["environment"]["PRVR_TOKEN_FILE"].removeprefix("/run/secrets/")
    assert [each["source"] for each in service["secrets"]] == [secret]
    assert f"useradd --uid {service['secrets'][0]['uid']} " in DOCKERFILE
    assert compose["secrets"][secret] == {"environment": "PRVR_TOKEN"}
    assert "library:/data" in service["volumes"]
    assert f"127.0.0.1:{ServerOptions().port}:{ServerOptions().port}" in service["ports"]
    options = {f"--{name.replace('_', '-')}" for name in ServeArguments.__dataclass_fields__}
    assert {word for word in service["command"] if word.startswith("--")} <= options
    cuda = yaml.safe_load((ROOT / "compose.cuda.yaml").read_text("utf-8"))["services"]["prvr"]
    for device, args in (("cpu", service["build"]["args"]), ("cuda", cuda["build"]["args"])):
        assert args == {"DEVICE": device}
        assert f"\n        {device}) pip install" in DOCKERFILE
