"""Words of a query are found in subtitles, names, folders and tags, without any encoder that understands them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prvr.cli import main
from prvr.lake import copy_library, create_library, open_library
from prvr.library import Filters, Library, LibrarySettings, ScratchWords, SearchRequest
from prvr.library.search.words import STOP_WORDS, WordMatches, find_words
from prvr.library.store import words as store_words
from prvr.media import TimedLine
from prvr.worlds import RenderedWorld
from tests.library.conftest import RATE

LINES = (
    "1\n00:00:01,000 --> 00:00:02,000\nNobody expected\n\n"
    "2\n00:00:03,000 --> 00:00:04,500\nthe grandmothers' parrot, said <i>Zoë</i>\n\n"
    "3\n00:00:05,000 --> 00:00:06,000\nturn left at the door\n"
)


def make_films(films: RenderedWorld, folder: Path) -> None:
    """Six films: one with subtitles, one with a name, one in a folder with a name."""
    (folder / "Vacances d'été").mkdir(parents=True)
    names = ["test0000", "birthday_party-2019", "Vacances d'été/b", "test0003", "test0004", "test0005"]
    for path, name in zip(sorted(films.videos.values()), names, strict=False):
        shutil.copy2(path, folder / f"{name}.mp4")
    (folder / "test0000.srt").write_text(LINES)


@pytest.fixture(scope="module", params=["folder", "lake"])
def spoken(request: pytest.FixtureRequest, films: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A library of these films, one of them with tags; read only."""
    place = tmp_path_factory.mktemp("spoken")
    make_films(films, place / "own")
    if request.param == "lake":
        pytest.importorskip("lance", reason='a lake needs Lance: pip install "prvr[scale]"')
    name = "library.lance" if request.param == "lake" else "library"
    library = create_library(str(place / name), LibrarySettings("plain", rate=RATE))
    library.add([place / "own"])
    library.add([place / "own" / "test0003.mp4"], tags=["wedding", "Größe"])
    return library


def names(library: Library, query: str, **options: object) -> list[str]:
    """The videos that hold the words of a query, best first."""
    return [hit.video.name for hit in library.search(query, **options) if hit.matched is not None]  # type: ignore[arg-type]


def test_a_line_a_name_a_folder_and_a_tag_are_found(spoken: Library) -> None:
    """`plain` knows none of these words, so that words alone answer. Nothing had to be switched on."""
    (hit,) = found = spoken.search("where is grandmother's parrot")
    assert found.total == 6  # videos that were searched
    assert (hit.video.name, hit.start, hit.end) == ("test0000.mp4", 3.0, 4.5)
    assert hit.line == "the grandmothers' parrot, said Zoë"
    assert hit.matched is not None
    assert hit.matched.to_dict() == {"where": "subtitles", "text": hit.line}
    assert (hit.track, hit.evidence, hit.confidence, hit.ranks) == ("words", None, None, {"words": 1})
    for query, name, where in (
        ("the birthday party", "birthday_party-2019.mp4", "name"),
        ("vacances", "b.mp4", "folder"),
        ("weddings", "test0003.mp4", "tags"),
    ):
        found = spoken.search(query)
        assert [(each.video.name, each.matched and each.matched.where) for each in found] == [(name, where)]
        assert (found[0].start, found[0].end) == (0.0, found[0].video.duration)  # no moment is known: all of it
        assert found.message.startswith("1 video holds the words of the query. The pictures were not searched")
    assert json.loads(json.dumps(spoken.search("weddings").to_dict()))["hits"][0]["evidence"] is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("expects", True),  # the same stem as "expected"
        ("ZOE", True),  # without case and accents
        ("grandm", True),  # the beginning of a word, where no whole word is the same
        ("turn*", True),
        ('"left at the door"', True),
        ('"door at the left"', False),  # a phrase is in this order
        ('nobody "left at the door"', False),  # no text holds both
        ("the", False),
        ("who is it", False),
        ('"the"', True),  # in quotation marks every word counts
        ("xyzzy", False),
    ],
)
def test_words_stems_beginnings_and_phrases(spoken: Library, query: str, found: bool) -> None:
    assert names(spoken, query) == (["test0000.mp4"] if found else [])


def test_pictures_and_words_are_fused(spoken: Library) -> None:
    """A word that pictures understand too: the line moves its video to the front, and both moments are shown."""
    pictures = [hit.video.name for hit in spoken.search("something red at the top")]
    found = spoken.search("a door on the left")
    assert (found[0].video.name, found[0].start) == ("test0000.mp4", 5.0)
    assert found[0].evidence is not None
    assert found[0].track == "frames"
    assert found[0].score == pytest.approx(1 / 61 + 1 / (60 + found[0].ranks["frames"]))
    assert len(found) == len(pictures) == 6
    assert "1 video holds the words" in found.message


def test_a_common_word_does_not_move_a_good_picture(films: RenderedWorld, tmp_path: Path) -> None:
    """All films mention red. The answers, and the moment of the first, are those of the pictures."""
    library = Library.create(tmp_path / "library", encoder="plain", rate=RATE)
    make_films(films, tmp_path / "own")
    library.add([tmp_path / "own"])
    before = library.search("red")
    for path in (tmp_path / "own").rglob("*.mp4"):
        path.with_suffix(".srt").write_text("1\n00:00:00,200 --> 00:00:00,400\nred\n")
    library.add([tmp_path / "own"])
    after = library.search("red")
    assert [hit.video.name for hit in after] == [hit.video.name for hit in before]
    assert (after[0].start, after[0].end, after[0].line) == (before[0].start, before[0].end, None)
    assert after[0].matched is not None
    assert after[-1].line == "red"


def test_few_words_of_a_sentence_change_nothing(spoken: Library) -> None:
    """The line says "turn left", the sentence much more: the pictures decide alone."""
    found = spoken.search("a red square turns to the left")
    assert {hit.matched for hit in found} == {None}
    assert "words" not in found[0].ranks
    assert names(spoken, "parrot wedding") == []  # each word is somewhere, but not in one video


def test_pages_filters_and_moments(spoken: Library) -> None:
    folder = spoken.search("vacances")[0].video.path.parent
    assert names(spoken, "vacances", filters=Filters(folder=folder)) == ["b.mp4"]
    assert names(spoken, "vacances", filters=Filters(tags=("wedding",))) == []
    assert names(spoken, "vacances", min_confidence=0.1) == []  # nothing is known about how sure it is
    everything = spoken.search("mp4", limit=50)
    assert len(everything) == 6
    assert {hit.ranks["words"] for hit in everything} == {1}  # all match equally well
    pages = [spoken.search("mp4", limit=2, offset=offset) for offset in (0, 2, 4)]
    assert [hit.video.id for page in pages for hit in page] == [hit.video.id for hit in everything]
    assert [page.next_offset for page in pages] == [2, 4, None]
    (moment,) = spoken.search("parrot", group_by="moment")
    assert (moment.start, moment.end, moment.line) == (3.0, 4.5, "the grandmothers' parrot, said Zoë")
    moments = spoken.search("a door on the left", group_by="moment", limit=50)
    assert (moments[0].video.name, moments[0].line) == ("test0000.mp4", "turn left at the door")
    assert [hit.score for hit in moments] == sorted((hit.score for hit in moments), reverse=True)
    together = spoken.search_many([SearchRequest("parrot"), SearchRequest("weddings"), SearchRequest("red")])
    assert [result[0].video.name for result in together[:2]] == ["test0000.mp4", "test0003.mp4"]


def test_words_follow_every_change(films: RenderedWorld, library: Library, tmp_path: Path) -> None:
    own = tmp_path / "films"
    make_films(films, own)
    library.add([own])
    assert names(library, "parrot") == ["test0000.mp4"]
    (own / "test0000.srt").write_text(LINES.replace("parrot", "ferret"))
    (own / "birthday_party-2019.mp4").rename(own / "funeral.mp4")
    library.add([own], tags=["mine"])
    library.remove([own / "Vacances d'été"])
    for query, expected in (
        ("parrot", []),
        ("ferret", ["test0000.mp4"]),
        ("birthday", []),
        ("funeral", ["funeral.mp4"]),
        ("vacances", []),
    ):
        assert names(library, query) == expected, query
    assert len(names(library, "mine")) == 5
    assert library.verify().ok


def test_a_copy_of_another_kind_gives_the_same_answers(spoken: Library, tmp_path: Path) -> None:
    pytest.importorskip("lance", reason='a lake needs Lance: pip install "prvr[scale]"')
    target = tmp_path / ("back" if spoken.address.endswith(".lance") else "copy.lance")
    copy_library(spoken.address, str(target))
    copy = open_library(str(target))
    for query in ("parrot", "a door on the left", "birth", "mp4", "vacances d'ete", "party wedding", '"turn left"'):
        mine, theirs = (
            [(hit.video.path, hit.start, hit.end, hit.score, hit.matched) for hit in each.search(query)]
            for each in (spoken, copy)
        )
        assert mine == theirs, query


def older(library: Library) -> None:
    """Make the catalogue that of a version without words."""
    with sqlite3.connect(library.folder / "catalogue.sqlite") as db:
        for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {trigger}")
        db.execute("DROP VIEW video_names")
        db.execute("DROP TABLE name_words")
        db.execute("DROP TABLE line_words")


def test_an_older_library_is_upgraded_when_it_is_searched(own: Path, in_folder: Library) -> None:
    (own / "test0000.srt").write_text(LINES)
    in_folder.add([own / "test0000.mp4"])
    older(in_folder)
    assert names(Library.open(in_folder.folder), "parrot") == ["test0000.mp4"]
    with in_folder.store.catalogue.reading() as db:  # type: ignore[attr-defined]
        assert store_words.has_words(db)


def test_an_older_library_that_cannot_be_written_is_searched_as_well(own: Path, in_folder: Library) -> None:
    (own / "test0000.srt").write_text(LINES)
    in_folder.add([own / "test0000.mp4"])
    older(in_folder)
    library = Library.open(in_folder.folder)
    library.store.catalogue.writing = None  # type: ignore[attr-defined]
    access, os.access = os.access, lambda path, mode: mode != os.W_OK  # root may write everywhere
    try:
        assert names(library, "parrot") == ["test0000.mp4"]
        assert names(library, "parrot") == ["test0000.mp4"]
    finally:
        os.access = access


class TestFinding:
    """The search for words alone, on a database of texts."""

    @staticmethod
    def find(texts: dict[int, list[str]], query: str, paths: dict[int, str] | None = None) -> WordMatches:
        videos = {number: ((paths or {}).get(number, f"/v/{number}.mp4"), (), 0) for number in texts}

        def lines(numbers: list[int]) -> list[tuple[int, list[TimedLine]]]:
            return [(n, [TimedLine(9 * i, 9 * i + 1, text) for i, text in enumerate(texts[n])]) for n in numbers]

        with ScratchWords().holding(1, lambda: videos, lines) as db:
            return find_words(db, query)

    def test_rare_words_weigh_more_than_common_ones(self) -> None:
        texts = {1: ["you know the time"] * 20, 2: ["you know", "a giraffe"], 3: ["time to go", "nothing"]}
        assert list(self.find(texts, "giraffe time")) == [2]  # "time" is everywhere, "giraffe" is not
        assert list(self.find(texts, "giraffe zebra time")) == []  # a word that is nowhere weighs the most

    def test_more_of_the_query_comes_first_and_equals_share_a_place(self) -> None:
        said = {1: "red door", 2: "old red wooden door", 3: "red wooden door", 4: "red wooden door"}
        texts = {number: [text, *["an old thing", "something else"] * 9] for number, text in said.items()}
        found = self.find(texts, "old red wooden door")
        assert next(iter(found)) == 2
        assert found[3].place == found[4].place == 1
        assert 1 not in found

    def test_a_line_counts_together_with_the_name_of_its_video(self) -> None:
        texts = {1: ["a parrot"], 2: ["a parrot"]}
        found = self.find(texts, "parrot in paris", {1: "/v/paris/1.mp4", 2: "/v/rome/2.mp4"})
        assert list(found) == [1]

    def test_a_sentence_may_go_on_in_the_next_line(self) -> None:
        lines = [
            TimedLine(0, 2, "nobody expected"),
            TimedLine(2, 4, "the Spanish inquisition"),
            TimedLine(9, 10, "nobody"),
        ]
        with ScratchWords().holding(1, lambda: {1: ("/v/1.mp4", (), 0)}, lambda _: [(1, lines)]) as db:
            (match,) = find_words(db, "nobody expected the spanish inquisition")[1].matches
            assert (match.start, match.end, match.text) == (0, 4, "nobody expected the Spanish inquisition")
            assert find_words(db, "spanish inquisition nobody expects")[1].best.start == 0
            assert find_words(db, "spanish inquisition")[1].best.start == 2
            assert [each.start for each in find_words(db, "nobody")[1].matches] == [0, 9]

    def test_a_word_that_many_videos_hold_counts_little(self) -> None:
        """Nobody who looks for pictures of a dog wants every film in which one is mentioned."""
        many = self.find({number: [f"a dog {number}"] for number in range(1, 301)}, "dog")
        assert len(many) == 300
        assert min(match.counted for match in many.values()) == 149  # behind the first hundred: it counts nothing
        few = self.find({number: ["a dog" if number < 4 else "a cat"] for number in range(1, 301)}, "dog")
        assert [(match.place, match.counted) for match in few.values()] == [(0, 1), (0, 1), (0, 1)]

    def test_the_folder_of_all_videos_is_not_searched(self) -> None:
        texts = {1: ["coming home"], 2: []}
        paths = {1: "/home/anna/1.mp4", 2: "/home/bert/2.mp4"}
        assert {video: each.best.where for video, each in self.find(texts, "home", paths).items()} == {1: "subtitles"}
        assert {video: each.best.where for video, each in self.find(texts, "anna", paths).items()} == {1: "folder"}

    def test_lines_that_overlap_are_shown_once(self) -> None:
        videos = {1: ("/v/1.mp4", (), 0)}
        lines = [TimedLine(0, 2, "parrot"), TimedLine(1, 3, "parrot!"), TimedLine(5, 6, "parrot?")]
        with ScratchWords().holding(1, lambda: videos, lambda _: [(1, lines)]) as db:
            assert [match.start for match in find_words(db, "parrot")[1].matches] == [0, 5]

    def test_stop_words_alone_find_nothing(self) -> None:
        assert self.find({1: [" ".join(STOP_WORDS)]}, " ".join(STOP_WORDS)) == {}

    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.text(max_size=60)
        | st.lists(
            st.sampled_from(['"', "*", "(", ")", "AND", "OR", "NOT", "NEAR", ":", "-", "^", "{", "'", "\x00", "\ud800"])
            | st.text(max_size=5),
            max_size=12,
        ).map(" ".join)
    )
    def test_no_input_is_an_error(self, query: str) -> None:
        if not hasattr(TestFinding, "database"):
            TestFinding.database = ScratchWords()  # type: ignore[attr-defined]
        texts = [(1, [TimedLine(0, 1, "name AND folder NEAR tags")])]
        with TestFinding.database.holding(1, lambda: {1: ("/v/1.mp4", (), 0)}, lambda _: texts) as db:  # type: ignore[attr-defined]
            find_words(db, query)

    def test_very_long_queries_are_read(self) -> None:
        assert list(self.find({1: ["parrot"]}, "parrot " * 5000)) == [1]
        assert self.find({1: ["parrot"]}, " ".join(f"w{n}" for n in range(5000))) == {}


def test_the_command_line_says_where(
    spoken: Library, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")

    def said(query: str) -> str:
        assert main(["search", query, "--library", spoken.address]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "in the subtitles: “the grandmothers' parrot, said Zoë”" in said("parrot")
    assert "party-2019.mp4 in the name" in said("birthday")
    assert "in the folder" in said("vacances")
    assert "in the tags: “Größe, wedding”" in said("wedding")
