"""Annotated videos to a model, on the command line: data make, train, library add --model."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from prvr.cli import main
from prvr.data import Dataset, check_collections
from prvr.media import PlainEncoder
from prvr.training import Run, preset_for_data
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world

SHORT = ["--backbone-stage.epochs", "2", "--trace-stage.epochs", "1", "--model.width", "16", "--model.heads", "2"]


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    return render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])


@pytest.fixture(scope="module")
def captions(films: RenderedWorld) -> Path:
    path = films.folder / "captions.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["video", "start", "end", "sentence"])
        for queries in films.queries.values():
            for query in queries:
                writer.writerow([f"{query.video}.mp4", query.event.start, query.event.end, query.sentence])
    return path


def make(films: RenderedWorld, captions: Path, out: Path, *more: str) -> list[str]:
    folder = str(films.folder / "videos")
    return ["data", "make", folder, "--captions", str(captions), "--encoder", "plain", "--out", str(out), *more]


@pytest.fixture(scope="module")
def data(films: RenderedWorld, captions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "mine"
    assert main(make(films, captions, out, "--rate", "2")) == 0
    return out


def test_a_dataset_is_complete_and_tells_its_counts(
    films: RenderedWorld, captions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine"
    assert main(make(films, captions, out, "--val", "0.2", "--test", "0.2")) == 0
    text = capsys.readouterr().out
    sentences = sum(map(len, films.queries.values()))
    assert f"wrote {out}: 16 videos (10 train, 3 val, 3 test), {sentences} sentences" in text
    assert f"next: prvr train {out}" in text
    assert check_collections(out).ok
    train = Dataset.load(out, "mine", "train")
    assert len(train) == 10
    assert train.moments is not None
    assert not [path.name for path in (out / "FeatureData").iterdir() if path.name.endswith("finished-videos")]
    assert main(make(films, captions, out)) == 1
    assert "holds a dataset already" in capsys.readouterr().err


def test_the_dataset_decides_the_preset(data: Path) -> None:
    config = preset_for_data(data)
    assert (config.data.collection, config.model.visual_width) == ("mine", PlainEncoder().width)
    assert config.backbone_stage.epochs > 100  # so few videos make one step an epoch
    assert preset_for_data(data, "hlformer").model.visual_width == PlainEncoder().width


def test_from_videos_to_a_search_with_ones_own_model(
    data: Path, films: RenderedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, library = tmp_path / "run", tmp_path / "library"
    assert main(["train", str(data), "--out", str(run), *SHORT]) == 0
    assert Run(run).config.data.collection == "mine"
    capsys.readouterr()
    assert main(["train", "--resume", str(run)]) == 0
    assert "is finished: nothing to do" in capsys.readouterr().out
    add = ["library", "add", str(films.folder / "videos"), "--library", str(library), "--model", str(run)]
    assert main(add) == 0
    assert "16 added" in capsys.readouterr().out
    sentence = films.queries["test"][0].sentence
    main(["search", sentence, "--library", str(library), "--json"])  # so short a training may refuse to answer
    assert json.loads(capsys.readouterr().out)["query"] == sentence


def test_a_stopped_command_continues_where_it_was(
    films: RenderedWorld,
    captions: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[int] = []
    encode, stop_after = PlainEncoder.encode_frames, 5

    def counted(self: PlainEncoder, images, before=None):  # type: ignore[no-untyped-def]
        if len(encoded) == stop_after:
            raise KeyboardInterrupt
        encoded.append(len(images))
        return encode(self, images, before)

    monkeypatch.setattr(PlainEncoder, "encode_frames", counted)
    out = tmp_path / "mine"
    assert main(make(films, captions, out)) == 130
    assert "the same command continues from here" in capsys.readouterr().out
    assert not (out / "TextData").exists()
    stop_after = 1000
    assert main(make(films, captions, out)) == 0
    assert len(encoded) == 16  # none of them twice


def test_mistakes_are_found_before_anything_is_encoded(
    films: RenderedWorld, captions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("video,start,end,sentence\ntest0000.mp4,0,1,x\nnothing.mp4,0,1,x\ntest0001.mp4,0,999,x\n")
    out = tmp_path / "mine"
    for line, message in (
        (make(films, wrong, out), f"{wrong}:3: there is no video 'nothing.mp4'"),
        (make(films, wrong, out), f"{wrong}:4: the end (999 s) is after the end of test0001.mp4"),
        (make(films, captions, out, "--encoder", "siglp2"), "Did you mean 'siglip2'?"),
        (make(films, captions, out, "--rate", "0"), "--rate must be above 0"),
        (make(films, captions, tmp_path / "my data"), "choose a name of letters"),
        (make(films, captions, out, "--val", "1"), "below 1 together"),
        (["train", str(tmp_path)], "should hold a dataset, and holds none"),
        (["train", "--resume", str(tmp_path)], "is not a run"),
    ):
        assert main(line) == 1
        error = capsys.readouterr().err
        assert error.startswith("error:")
        assert message in error
    assert not out.exists()


def test_options_that_draw_videos_do_not_go_with_a_column_split(
    films: RenderedWorld, captions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header, *lines = captions.read_text("utf-8").splitlines()
    table, out = tmp_path / "split.csv", tmp_path / "mine"
    split_lines = [f"{line},{line.partition('0')[0]}" for line in lines]  # train0003.mp4 is for training
    table.write_text("\n".join([f"{header},split", *split_lines]), "utf-8")
    for options, named in (
        (("--val", "0.3"), "--val"),
        (("--test", "0.1"), "--test"),
        (("--val", "0.2", "--seed", "0"), "--val, --seed"),
    ):
        assert main(make(films, table, out, *options)) == 1
        assert f"leave {named} out, or remove the column" in capsys.readouterr().err
    assert not out.exists()


def test_a_video_that_cannot_be_read_is_left_out_and_told(
    films: RenderedWorld, captions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "films"
    folder.mkdir()
    for path in sorted((films.folder / "videos").iterdir()):
        (folder / path.name).symlink_to(path)
    (folder / "broken.mp4").write_text("no video")
    (folder / "unused.mp4").write_text("nobody looks at this")
    more = tmp_path / "captions.csv"
    more.write_text(captions.read_text("utf-8") + "broken.mp4,0,1,something\n", "utf-8")
    line = ["data", "make", str(folder), "--captions", str(more), "--encoder", "plain", "--out", str(tmp_path / "mine")]
    assert main(line) == 1
    text = capsys.readouterr().out
    assert "16 videos" in text
    assert "failed" in text
    assert f"left out: 1 video in {folder} without sentences" in text
    assert check_collections(tmp_path / "mine").ok
