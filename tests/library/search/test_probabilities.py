"""A library made with a calibrated run states probabilities. They are kept with it, and filters do not change them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from prvr.cli import main as prvr
from prvr.library import Filters, Library, LibraryError, SearchRequest
from prvr.scoring import Calibration
from prvr.scoring.calibration import Line
from prvr.trace import Share, VerdictScale
from prvr.training import Run, RunCalibration, RunError, read_calibration
from prvr.worlds import RenderedWorld

SENTENCE = "a red square moves to the left"
SURE = VerdictScale(-1.0, 1.0, Share(90, 100), Share(10, 100))


def with_calibration(run: Run, place: Path, words: frozenset[str] = frozenset()) -> Run:
    """A copy of a run, with a calibration that was made up."""
    shutil.copytree(run.path, place)
    line = Calibration(Line(10.0, -2.0), Line(1.0, 0.0), Line(1.0, 0.0), 0.0, 100, 50)
    found = RunCalibration(line, line, SURE, words)
    copy = Run(place)
    file = place / "weights" / copy.config.selection / "calibration.json"
    file.write_text(json.dumps(found.to_dict()))
    assert read_calibration(copy) == found
    return copy


@pytest.fixture(scope="module")
def calibrated(run: Run, films: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("calibrated")
    words = frozenset(SENTENCE.split())  # of its training sentences
    library = Library.create(folder / "library", model=with_calibration(run, folder / "run", words).path)
    library.add(sorted(films.videos.values())[:8])
    shutil.rmtree(folder / "run")  # the library has its own copy
    return Library.open(folder / "library")


def test_probabilities_fall_with_the_score_and_ignore_filters_and_pages(calibrated: Library) -> None:
    found = calibrated.search(SENTENCE, limit=100)
    rights = [hit.confidence or 0.0 for hit in found]
    assert rights == sorted(rights, reverse=True)
    assert all(0 < right < 1 for right in rights)
    assert found.presence.word is None
    assert (found.presence.probability or 0) >= rights[0] - 1e-9
    by_video = {hit.video.id: hit.confidence for hit in found}
    middle = sorted(video.duration or 0 for video in calibrated.videos())[len(rights) // 2]
    some = calibrated.search(SENTENCE, limit=100, filters=Filters(max_duration=middle))
    assert 0 < len(some) < len(found)
    assert some.presence == found.presence
    assert {hit.video.id: hit.confidence for hit in some} == {hit.video.id: by_video[hit.video.id] for hit in some}
    page = calibrated.search(SENTENCE, limit=1, offset=2)
    assert (page.presence, page[0].confidence) == (found.presence, rights[2])


def test_hits_below_a_probability_can_be_left_out(calibrated: Library) -> None:
    found = calibrated.search(SENTENCE, limit=100)
    least = found[2].confidence or 0.0
    assert len(calibrated.search(SENTENCE, limit=100, min_confidence=least)) == 3
    nothing = calibrated.search(SENTENCE, min_confidence=1.0)
    assert len(nothing) == 0
    assert "probability" in nothing.message


def test_a_verdict_is_given_where_it_was_found_to_tell(calibrated: Library) -> None:
    (hit,) = calibrated.search(SENTENCE, limit=1)
    assert hit.verdict == SURE.verdict(hit.evidence.support_lift)
    explanation = calibrated.explain(SENTENCE, hit.video.id)
    assert explanation.verdict == hit.verdict
    assert "rest of the video" in explanation.why


def test_neighbours_in_a_batch_change_nothing(calibrated: Library) -> None:
    alone = calibrated.search(SENTENCE)
    mates = [SearchRequest("something blue falls"), SearchRequest(SENTENCE), SearchRequest("a yellow ring")]
    together = calibrated.search_many(mates)[1]
    assert together.presence.probability == pytest.approx(alone.presence.probability, abs=1e-3)


def test_words_that_training_never_saw_leave_no_probability(calibrated: Library) -> None:
    found = calibrated.search("grandma opens the red door")
    assert found.understood is not None
    assert "grandma" in found.understood.ignored
    assert found.presence.probability is None
    assert all(hit.confidence is None and hit.verdict is None for hit in found)


def test_a_query_of_which_nothing_is_known_finds_nothing(
    calibrated: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    found = calibrated.search("an elephant")
    assert not found.hits
    assert found.message == "The encoder understands nothing of this query. Try other words."
    assert prvr(["search", "an elephant", "--library", str(calibrated.folder)]) == 1
    assert "understands nothing of this query" in capsys.readouterr().out
    with pytest.raises(LibraryError, match="understands nothing"):
        calibrated.explain("an elephant", calibrated.videos()[0].id)


def test_a_word_that_only_the_encoder_knows_is_searched(calibrated: Library) -> None:
    """`plain` gives "scarlet" the colour of "red", so the model can use it although no training sentence has it."""
    found = calibrated.search("scarlet")
    assert found.hits
    assert found.presence.probability is None


def test_a_damaged_calibration_is_named(calibrated: Library, tmp_path: Path) -> None:
    shutil.copytree(calibrated.folder, tmp_path / "library")
    (file,) = (tmp_path / "library").glob("model-*/weights/*/calibration.json")
    file.write_text("{}")
    with pytest.raises(RunError, match=r"calibration\.json is damaged"):
        Library.open(tmp_path / "library").search(SENTENCE)
