"""A table of captions is read as people write it, and every wrong line is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from prvr.data import CaptionRow, DataError, read_caption_table

HEADER = "video,start,end,sentence\n"


def table(folder: Path, text: str | bytes, name: str = "captions.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(folder: Path, text: str | bytes, name: str = "captions.csv") -> str:
    with pytest.raises(DataError) as found:
        read_caption_table(table(folder, text, name))
    return str(found.value)


def test_csv_as_spreadsheets_write_it(tmp_path: Path) -> None:
    expected = [
        CaptionRow(2, "a.mp4", 1.0, 90.0, "a dog, then a cat", "train"),
        CaptionRow(3, "b.mp4", 0.5, 2.0, "she says “no”", "val"),
    ]
    rows = 'a.mp4,1,1:30,"a dog, then  a cat",train\nb.mp4,0.5,2s,she says “no”,validation\n'
    assert read_caption_table(table(tmp_path, "video,start,end,sentence,split\n" + rows)) == expected
    windows = "\ufeffVideo , Start,END,Sentence,split,annotator\r\n" + rows.replace("\n", ",me\r\n")
    assert read_caption_table(table(tmp_path, windows)) == expected
    semicolons = (
        'video;start;end;sentence;split\na.mp4;1;1m30s;"a dog, then a cat";train\nb.mp4;.5;2;she says “no”;dev\n'
    )
    assert read_caption_table(table(tmp_path, semicolons)) == expected
    tabs = semicolons.replace('"', "").replace(";", "\t")
    assert read_caption_table(table(tmp_path, tabs, "captions.tsv")) == expected
    lines = "\n".join((
        '{"video": "a.mp4", "start": 1, "end": "1:30", "sentence": "a dog, then a cat", "split": "train"}', "",
        '{"video": "b.mp4", "start": 0.5, "end": 2, "sentence": "she says “no”", "split": "val", "worker": 7}',
    ))  # fmt: skip
    found = read_caption_table(table(tmp_path, lines, "captions.jsonl"))
    assert [row.sentence for row in found] == [row.sentence for row in expected]
    assert found[1].line == 3


def test_a_sentence_over_two_lines_counts_as_one_and_keeps_later_numbers_right(tmp_path: Path) -> None:
    text = HEADER + 'a,0,1,"a dog\nruns"\na,0,1,it sits\nb,5,2,wrong\n'
    assert refused(tmp_path, text).startswith(f"{tmp_path / 'captions.csv'}:5: the end (2 s) must come after")
    assert read_caption_table(table(tmp_path, text.replace("5,2", "1,2")))[0].sentence == "a dog runs"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (HEADER + "a,5,2,x\n", 2, "the end (2 s) must come after the start (5 s)"),
        (HEADER + "a,2,2,x\n", 2, "must come after"),
        (HEADER + "a,0,1,\n", 2, "the sentence is empty"),
        (HEADER + "a,0,1, \n", 2, "the sentence is empty"),
        (HEADER + ",0,1,x\n", 2, "no video is named"),
        (HEADER + "a,zero,1,x\n", 2, "the start 'zero' is not a time"),
        (HEADER + "a,0,nan,x\n", 2, "the end 'nan' is not a time"),
        (HEADER + "a,-1,1,x\n", 2, "the start '-1' is not a time"),
        (HEADER + "a,0,1e400,x\n", 2, "is not a time"),
        (HEADER + "\na,0,1,x\na,0,1,a dog, a cat\n", 4, "5 cells, but the header has 4; put a sentence with commas in"),
        (HEADER + "a,0,1\n", 2, "3 cells, but the header has 4"),
        (HEADER + 'a,0,1,"open\na,0,1,x\n', 2, "is a quotation mark left open?"),
        ("a.mp4,0,1,a dog\n", 1, "no header; expected video,start,end,sentence,split"),
        ("video,start,end,text\na,0,1,x\n", 1, "the header has no column sentence; found video, start, end, text"),
        ("video,start,start,end,sentence\n", 1, "names the column start twice"),
        ("video,start,end,sentence,spilt\na,0,1,x,train\n", 1, "unknown column 'spilt'. Did you mean 'split'?"),
        ("video,start,end,sentence,split\na,0,1,x,trian\n", 2, "'trian' is not a split; expected train, val, test"),
        ("video,start,end,sentence,split\na,0,1,x,train\nb,0,1,y,\n", 3, "no split, but line 2 has one"),
        (HEADER.encode() + b"a,0,1,x\na,0,1,caf\xe9\n", 3, "not UTF-8"),
        ("video,start,end,sentence\n".encode("utf-16"), 1, "not UTF-8"),
    ],
)
def test_a_wrong_line_is_named(text: str | bytes, line: int, message: str, tmp_path: Path) -> None:
    found = refused(tmp_path, text)
    assert found.startswith(f"{tmp_path / 'captions.csv'}:{line}: ")
    assert message in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", ":1: expected a JSON object"),
        ("{", ":1: not JSON"),
        ('{"video": "a", "start": 0, "end": 1}', ":1: sentence is missing; found video, start, end"),
        ('{"video": "a", "start": true, "end": 1, "sentence": "x"}', ":1: the start True is not a time"),
        ('{"video": "a", "start": 0, "end": 1' + "0" * 400 + ', "sentence": "x"}', "is not a time"),
        ('{"video": 7, "start": 0, "end": 1, "sentence": "x"}', ":1: no video is named"),
        ('{"video": "a", "video": "b", "start": 0, "end": 1, "sentence": "x"}', "a name is there twice: video"),
        ("", "holds no sentences"),
    ],
)
def test_a_wrong_json_line_is_named(text: str, message: str, tmp_path: Path) -> None:
    assert message in refused(tmp_path, text, "captions.jsonl")


def test_half_a_character_is_refused_before_anything_is_encoded(tmp_path: Path) -> None:
    line = '{"video": "a.mp4", "start": 0, "end": 2, "sentence": "it \\ud83d smiles"}'
    assert "captions.jsonl:1: the text holds half a character" in refused(tmp_path, line, "captions.jsonl")


def test_all_wrong_lines_are_reported_together(tmp_path: Path) -> None:
    found = refused(tmp_path, HEADER + "a,5,2,x\na,0,1,fine\n" + "a,0,1,\n" * 12)
    assert found.startswith("13 lines of ")
    assert found.count("the sentence is empty") == 9
    assert found.endswith("… and 3 more")


def test_other_files_are_refused(tmp_path: Path) -> None:
    assert "from .csv, .tsv or .jsonl files, not .txt" in refused(tmp_path, "x", "captions.txt")
    assert "is empty; expected a header" in refused(tmp_path, "")
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_caption_table(tmp_path / "nowhere.csv")
