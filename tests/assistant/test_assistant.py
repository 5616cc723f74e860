"""An assistant searches, looks and cuts, through the protocol's own client."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from prvr.assistant import AssistantOptions, AssistantServer, answers, build_assistant, clip_folder
from prvr.cli import main
from prvr.library import Library
from prvr.media import open_video
from prvr.worlds import RenderedWorld
from tests.waiting import until

QUERY = "a red square moves left"
TOKEN = "sixteen-letters-or-more"


def talk(server: Any, conversation: Callable[[Client], Awaitable[None]]) -> None:
    """Connect the protocol's own client to a server and run a conversation."""

    async def run() -> None:
        async with Client(server, read_timeout_seconds=60) as client:
            await conversation(client)
        if isinstance(server, AssistantServer):
            await server.close()

    asyncio.run(run())


def command(library: Path, *options: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-m", "prvr", "mcp", str(library), *options], env=dict(os.environ)
    )


@contextmanager
def listening(library: Path, *options: str) -> Iterator[str]:
    words = [sys.executable, "-m", "prvr", "mcp", str(library), "--http", "--port", "0", *options]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        yield next(word for word in process.stderr.readline().split() if word.startswith("http"))
        process.terminate()
        output, errors = process.communicate(timeout=60)
        assert (output, "Traceback" in errors) == ("", False)
    finally:
        process.kill()
        process.wait()


async def search_explain_and_cut(client: Client, library: Library) -> None:
    expected = library.search(QUERY, limit=3)
    answer = (await client.call_tool("search", {"query": QUERY, "limit": 3})).structured_content
    assert [(hit["video"], hit["path"]) for hit in answer["hits"]] == [
        (h.video.id, str(h.video.path)) for h in expected
    ]
    assert (answer["message"], answer["sure"]) == (expected.message, expected.confident)
    first = answer["hits"][0]

    evidence = (await client.call_tool("explain", {"query": QUERY, "video": first["video"]})).structured_content
    assert evidence["moments"][0] == {"start": first["start"], "end": first["end"]}
    assert evidence["why"]
    best = max(evidence["curve"], key=lambda point: point["together"])
    assert first["start"] <= best["start"] < first["end"]

    moment = {"video": first["video"], "start": first["start"], "end": first["end"]}
    like = (await client.call_tool("more_like_this", {**moment, "limit": 2})).structured_content
    assert len(like["hits"]) == 2
    further = {**moment, "limit": 1, "offset": 1}
    assert (await client.call_tool("more_like_this", further)).structured_content["hits"] == like["hits"][1:]

    shown = await client.call_tool("pictures", {"video": first["video"], "times": [first["start"], 1e6], "width": 96})
    pictures = [base64.b64decode(block.data) for block in shown.content]
    assert [picture[:2] for picture in pictures] == [b"\xff\xd8"] * 2

    cut = await client.call_tool("clip", moment)
    path = Path(cut.structured_content["path"])
    with open_video(path) as clip:
        assert clip.info.duration == pytest.approx(first["end"] - first["start"], abs=0.5)
    (link,) = (block for block in cut.content if block.type == "resource_link")
    (content,) = (await client.read_resource(link.uri)).contents
    assert base64.b64decode(content.blob) == path.read_bytes()


def test_over_standard_input_and_output(library: Path, tmp_path: Path) -> None:
    async def conversation(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"search", "explain", "more_like_this", "pictures", "clip", "list_videos", "overview"}
        assert all(tool.description and tool.title for tool in tools.values())
        assert "hits" in tools["search"].output_schema["properties"]
        await search_explain_and_cut(client, Library.open(library))
        assert [path.suffix for path in (tmp_path / "cut").iterdir()] == [".mp4"]

    talk(command(library, "--clips", str(tmp_path / "cut")), conversation)


def test_over_http(library: Path, tmp_path: Path) -> None:
    async def conversation(client: Client) -> None:
        await search_explain_and_cut(client, Library.open(library))

    with listening(library, "--clips", str(tmp_path)) as address:
        assert address.startswith("http://127.0.0.1:")
        talk(address, conversation)
        foreign = httpx.post(address, json={}, headers={"Origin": "http://evil.example"})
        assert foreign.status_code == 403
        assert httpx.post(address, json={}, headers={"Host": "evil.example"}).status_code == 421


def test_a_token_guards_http(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def conversation(client: Client) -> None:
        assert (await client.call_tool("overview", {})).structured_content["videos"] == 16

    with listening(library, "--token", TOKEN) as address:
        assert httpx.post(address, json={}).status_code == 401
        bearer = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"})
        talk(streamable_http_client(address, http_client=bearer), conversation)
    assert main(["mcp", str(library), "--http", "--host", "0.0.0.0"]) == 1
    assert "a token is needed" in " ".join(capsys.readouterr().err.split())


def test_lists_and_overview(library: Path) -> None:
    async def conversation(client: Client) -> None:
        page = (await client.call_tool("list_videos", {"limit": 10})).structured_content
        assert (page["total"], len(page["videos"]), page["next_offset"]) == (17, 10, 10)
        rest = (await client.call_tool("list_videos", {"offset": 10})).structured_content
        assert (len(rest["videos"]), rest["next_offset"]) == (7, None)
        (failed,) = (await client.call_tool("list_videos", {"state": "failed"})).structured_content["videos"]
        assert failed["problem"]
        named = (await client.call_tool("list_videos", {"name": "TEST0003", "tag": "drawn"})).structured_content
        assert [Path(video["path"]).name for video in named["videos"]] == ["test0003.mp4"]
        overview = (await client.call_tool("overview", {})).structured_content
        assert (overview["videos"], overview["failed"], overview["tags"]) == (16, 1, ["drawn"])
        assert "plain" in overview["limits"]

    talk(build_assistant(Library.open(library)), conversation)


def test_offsets_that_are_given_are_accepted(library: Path) -> None:
    found = Library.open(library).search(QUERY, limit=2)
    last = answers.MAX_OFFSET
    nexts = [answers.SearchAnswer.of(replace(found, next_offset=offset)).next_offset for offset in (2, last, last + 1)]
    assert nexts == [2, last, None]

    async def conversation(client: Client) -> None:
        at_the_end = await client.call_tool("search", {"query": QUERY, "offset": last})
        assert at_the_end.structured_content["hits"] == []
        far = await client.call_tool("list_videos", {"offset": last + 100, "limit": 200})
        assert not far.is_error
        assert far.structured_content["total"] == 17

    talk(build_assistant(Library.open(library)), conversation)


def test_a_long_curve_is_shortened_and_keeps_its_peak(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lib = Library.open(library)
    video = lib.search(QUERY)[0].video
    found = lib.explain(QUERY, video.id)
    monkeypatch.setattr(answers, "_MOST_POINTS", 3)
    curve = answers.EvidenceAnswer.of(video, found).curve
    assert len(curve) == 3
    assert max(point.together for point in curve) == pytest.approx(found.evidence.routed.max(), abs=1e-4)


def test_what_goes_wrong_is_one_sentence(library: Path, tmp_path: Path) -> None:
    wrong: list[tuple[str, dict[str, object], str]] = [
        ("search", {"query": "red", "limit": 0}, "`limit`: input should be greater than or equal to 1"),
        ("search", {}, "`query`: field required"),
        ("search", {"query": "red", "after": "soon"}, "is not a date"),
        ("explain", {"query": "red", "video": 999}, "There is no video 999"),
        ("explain", {"query": "grandma", "video": 1}, "understands nothing"),
        ("clip", {"video": 1, "start": 2, "end": 1}, "before it starts"),
        ("clip", {"video": 1, "start": 1000, "end": 1001}, "s long"),
        ("clip", {"video": 1, "start": 0, "end": 5, "margin": 1}, "too long: ask for 2 s"),
        ("pictures", {"video": 1, "times": []}, "`times`"),
        ("nothing", {}, "nothing"),
    ]

    async def conversation(client: Client) -> None:
        for tool, arguments, expected in wrong:
            answer = await client.call_tool(tool, arguments)
            (block,) = answer.content
            assert answer.is_error
            assert expected in block.text
            assert "\n" not in block.text
        for name in ("none.mp4", "..%2Fsecret.mp4"):
            with pytest.raises(MCPError):
                await client.read_resource(f"prvr-clip://{name}")

    (tmp_path / "secret.mp4").write_text("private")
    talk(build_assistant(Library.open(library), AssistantOptions(tmp_path / "clips", longest_clip=2)), conversation)


def test_clips_go_to_a_private_folder_of_limited_size(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(clip_folder, "_MOST_BYTES", 1)
    cut = list[Path]()

    async def conversation(client: Client) -> None:
        for start in (0, 1):
            answer = await client.call_tool("clip", {"video": 1, "start": start, "end": start + 1})
            cut.append(Path(answer.structured_content["path"]))
            assert cut[-1].exists()

    talk(build_assistant(Library.open(library)), conversation)
    assert cut[0].is_relative_to(tmp_path)
    assert [*cut[0].parent.iterdir()] == [cut[1]]
    if sys.platform != "win32":
        assert cut[0].parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_is_gone_is_one_sentence(films: RenderedWorld, tmp_path: Path) -> None:
    film = Path(shutil.copy(sorted(films.videos.values())[0], tmp_path / "film.mp4"))
    library = Library.create(tmp_path / "library", encoder="plain")
    library.add([film])
    film.unlink()

    async def conversation(client: Client) -> None:
        for tool, arguments in (("pictures", {"times": [1.0]}), ("clip", {"start": 0, "end": 1})):
            answer = await client.call_tool(tool, {"video": 1, **arguments})
            (block,) = answer.content
            assert answer.is_error
            assert block.text.startswith(f"{film}: ")

    talk(build_assistant(library, AssistantOptions(tmp_path / "clips")), conversation)
    assert [*(tmp_path / "clips").iterdir()] == []


def test_a_library_that_does_not_exist_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", str(tmp_path / "none")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "is not a library" in captured.err


HELLO = (
    '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", '
    '"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}\n'
)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGPIPE")
def test_it_ends_quietly_when_the_assistant_goes_away(library: Path) -> None:
    words = [sys.executable, "-m", "prvr", "mcp", str(library)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(HELLO.encode())
        assert process.stdout.read(1) == b"{"
        process.stdout.close()
        until(lambda: _has_ended(process, b'{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}\n'))
        assert (process.returncode, process.stderr.read()) == (141, b"")


def _has_ended(process: subprocess.Popen[bytes], message: bytes) -> bool:
    """Whether a process has ended; if not, it is sent a message, which it cannot answer any more."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write(message)
    return process.poll() is not None


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow), None])
def test_it_ends_with_a_signal_or_with_its_input(library: Path, number: signal.Signals | None) -> None:
    words = [sys.executable, "-m", "prvr", "mcp", str(library)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(HELLO)
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "prvr"
    if number is None:
        process.stdin.close()
    else:
        process.send_signal(number)
    assert process.wait(60) == (0 if number is None else -number)
