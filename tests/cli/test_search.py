"""``prvr search`` without quotation marks, by picture, by moment, and as a shell."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.library import Library, MomentQuery
from prvr.media import open_video, save_picture
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    return render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])


@pytest.fixture(scope="module")
def made(films: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "library"
    Library.create(folder, encoder="plain", rate=2.0).add([films.folder])
    return folder


@pytest.fixture(autouse=True)
def _use(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRVR_LIBRARY", str(made))


def found(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    capsys.readouterr()
    assert main(["search", *words, "--json"]) == 0
    result: dict[str, object] = json.loads(capsys.readouterr().out)
    return result


UNNEEDED = {"torch", "transformers", "h5py", "scipy", "matplotlib", "av", "lance", "pyarrow", "fastapi"}
UNNEEDED |= {f"prvr.{room}" for room in ("training", "backbones", "losses", "tokens", "worlds", "data", "server")}


@pytest.mark.parametrize(
    "words",
    [
        "a red square moves left",
        "a red square moves left --json --group-by moment --min-duration 1 --moments.most 2",
        "a blue circle --no-trace --offset 2",
        "--like test0001.mp4@1-3",
    ],
)
def test_a_search_imports_only_what_it_needs(words: str) -> None:
    """Every module is paid for by every search, torch most of all; `benchmarks/cold_start.py` says how much."""
    assert not UNNEEDED & modules_of(["search", *words.split()])


def test_so_does_a_shell() -> None:
    assert not UNNEEDED & modules_of(["search", "--shell"], "a red square\na blue circle moves up --json\n")


def modules_of(words: list[str], lines: str = "") -> set[str]:
    """What a command has imported when it ends."""
    program = (
        "import sys; from prvr.cli import main; code = main(sys.argv[1:]); print(*sys.modules, file=sys.stderr); "
        "sys.exit(code)"
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    modules = {*done.stderr.splitlines()[-1].split()}
    assert "prvr.library.search.score" in modules
    return modules


def test_words_need_no_quotation_marks(capsys: pytest.CaptureFixture[str]) -> None:
    quoted = found(capsys, "a red square moves left", "--limit", "2")
    assert quoted["query"] == "a red square moves left"
    for words in (
        ("a", "red", "square", "moves", "left", "--limit", "2"),
        ("--limit", "2", "a", "red", "square", "moves", "left"),
        ("a red", "square moves", "left", "--limit", "2"),
        ("a", "red", "square", "--limit", "2", "moves", "left"),
    ):
        assert found(capsys, *words)["hits"] == quoted["hits"], words


def test_a_moment_is_named_by_path_name_or_number(
    made: Path, films: RenderedWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    path, library = films.videos["test0003"], Library.open(made)
    number = next(video.id for video in library.videos() if video.path == path)
    expected = [hit.video.id for hit in library.search(MomentQuery(number, 1.0, 3.0))]
    for text in (f"{path}@1-3", "test0003.mp4@0:01-0:03.0", f"{number}@1.0–3"):
        assert [hit["video"] for hit in found(capsys, "--like", text)["hits"]] == expected  # type: ignore[attr-defined]
    assert number not in expected
    assert found(capsys, "--like", "test0003.mp4")["hits"]  # the whole video


def test_a_picture_finds_its_film(films: RenderedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_video(films.videos["val0001"]) as video:
        image = [frame.image for frame in video.frames(1.0)][2]
    hits = found(capsys, "--picture", str(save_picture(tmp_path / "still.png", image)))["hits"]
    assert Path(hits[0]["path"]) == films.videos["val0001"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "give one of: a sentence"),
        (["red", "--like", "test0003.mp4@1"], "give one of: a sentence"),
        (["--like", "nowhere.mp4@3"], "nowhere.mp4 is not a video of"),
        (["--like", "test0003.mp4@soon"], "names no moment"),
        (["--like", "test0003.mp4@900"], "there is nothing at 900 s"),
        (["--like", "test0003.mp4@3-1"], "a moment needs"),
        (["--picture", "nowhere.png"], "does not exist"),
        (["--like", "1@1", "--min-confidence", "0.5"], "for sentences only"),
    ],
)
def test_mistakes_are_one_line(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", *words]) == 1
    text = " ".join(capsys.readouterr().err.split())
    assert text.startswith("error:")
    assert expected in text


def test_the_shell_answers_line_after_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["a red square", "", "xyzzy's", "--like nowhere@3", "--nonsense", "something blue --limit 1 --json"]
    lines += ["exit", "a yellow star"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    assert main(["search", "--shell", "--limit", "2"]) == 0
    said = capsys.readouterr()
    assert said.out.count("scores can be compared within this search only") == 2  # a table, and the JSON
    assert "more: --offset 2" in said.out  # the options of the command hold for every line
    assert "understands nothing of this query" in said.out
    assert "nowhere is not a video of" in " ".join(said.err.split())
    document = json.loads(said.out[said.out.index("{") :])
    assert (document["query"], len(document["hits"])) == ("something blue", 1)


def test_ctrl_c_ends_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupt)
    assert main(["search", "--shell"]) == 130


def test_clips_that_exist_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["search", "a red square", "--limit", "2", "--export", str(tmp_path / "clips")]
    assert main(words) == 0
    first, second = sorted((tmp_path / "clips").iterdir())
    first.unlink()
    second.write_text("mine")
    assert main(words) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"error: {second} exists: choose another --export, or add --overwrite to replace it" in said
    assert second.read_text() == "mine"
    assert not first.exists()  # nothing was cut
    assert main([*words, "--overwrite"]) == 0
    capsys.readouterr()
    without = [word for word in words if word not in ("--export", words[words.index("--export") + 1])]
    assert main([*without, "--overwrite"]) == 1
    assert "error: --overwrite replaces clips: say with --export DIR where they are" in capsys.readouterr().err
    assert min(first.stat().st_size, second.stat().st_size) > 1000


def test_one_video_is_counted_as_one(films: RenderedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Library.create(tmp_path / "library", encoder="plain").add([min(films.videos.values())])
    assert main(["search", "a red square", "--library", str(tmp_path / "library")]) == 0
    assert "\n1 video in " in capsys.readouterr().out
