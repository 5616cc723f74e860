"""Finer measures, each computed again by a simple loop on small data."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from prvr.data.captions import Moment
from prvr.evaluation.encoded_split import encode_subject
from prvr.evaluation.finer import Answers, Finer, Hubness, Relevance, moment_ratios, ratio_bins, search_moments
from prvr.evaluation.finer.corpus_moments import MomentSearch, _best_overlap
from prvr.evaluation.finer.groups import kind_groups, query_kinds
from prvr.evaluation.finer.measure import save_moments
from prvr.evaluation.query_bank import BankCorrection, _asked_by
from prvr.evaluation.report.finer_sections import corpus_moments_section
from prvr.evaluation.study import run_study
from prvr.evaluation.subject import Subject
from prvr.trace import aligned_evidence
from prvr.training import split_scores


def scores_with_ties(queries: int = 7, videos: int = 12) -> Tensor:
    return torch.randint(0, 6, (queries, videos)).float()


def ranking(row: list[float]) -> list[int]:
    """Videos from best to worst, the earlier one first where scores are equal."""
    return sorted(range(len(row)), key=lambda video: (-row[video], video))


def test_answers_are_the_ranking_that_ranks_count() -> None:
    scores = scores_with_ties()
    positives = [[0, 5], [3], [1, 2, 11], [4], [5], [6, 7], [8]]
    found = Answers.join(
        [Answers.of(scores[:3], positives[:3], first=4), Answers.of(scores[3:], positives[3:], first=4)]
    )
    for row, line in enumerate(scores.tolist()):
        order = ranking(line)
        assert found.top[row].tolist() == order[:4]
        assert found.scores[row].tolist() == [line[video] for video in order[:4]]
        assert found.positives[row] == tuple(sorted(order.index(video) + 1 for video in positives[row]))


def test_map_ndcg_and_coverage_by_hand() -> None:
    places = [[1, 4, 30], [2], [11, 200]]
    found = Relevance.of(places)
    precision = [(1 / 1 + 2 / 4 + 3 / 30) / 3, 1 / 2, (1 / 11 + 2 / 200) / 2]
    gain = [
        (1 / math.log2(2) + 1 / math.log2(5)) / (1 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)),
        1 / math.log2(3),
        0.0,
    ]
    assert found.mean_average_precision == pytest.approx(100 * sum(precision) / 3)
    assert found.ndcg_10 == pytest.approx(100 * sum(gain) / 3)
    assert found.coverage_10 == pytest.approx(100 * (2 / 3 + 1 + 0) / 3)
    assert found.coverage_100 == pytest.approx(100 * (1 + 1 + 1 / 2) / 3)
    assert Relevance.of([[1], [1, 2]]).mean_average_precision == Relevance.of([[1], [1, 2]]).ndcg_100 == 100.0


def test_hubs_are_counted_as_a_loop_counts_them() -> None:
    scores = torch.rand(30, 25)
    scores[:, 3] += 0.5  # a planted hub
    scores[:, 9] -= 2.0  # and a planted antihub
    positives = [[int(video)] for video in torch.randint(0, 25, (30,))]
    names = [f"v{n}" for n in range(25)]
    found = Hubness.of(Answers.of(scores, positives), names, positives, torch.tensor(positives).squeeze(1))
    lists = [ranking(line)[:10] for line in scores.tolist()]
    counts = [sum(video in line for line in lists) for video in range(25)]
    mean = sum(counts) / 25
    deviation = math.sqrt(sum((n - mean) ** 2 for n in counts) / 25)
    assert found.skewness == pytest.approx(sum((n - mean) ** 3 for n in counts) / 25 / deviation**3)
    assert found.largest == max(counts)
    assert found.antihubs == counts.count(0) >= 1
    top = sorted(range(25), key=lambda video: (-counts[video], video))[:10]
    assert [hub.video for hub in found.hubs] == [names[video] for video in top]
    assert found.hubs[0].video == "v3"
    assert found.places == pytest.approx(100 * sum(counts[video] for video in top) / 300)
    assert found.queries == pytest.approx(100 * sum(any(v in top for v in line) for line in lists) / 30)
    right = sum(3 in line and positives[row] == [3] for row, line in enumerate(lists))
    assert found.hubs[0].correct == right


def test_a_query_bank_lowers_hubs_and_leaves_other_queries_alone() -> None:
    bank, scores = torch.rand(9, 5), torch.rand(6, 5)
    bank[:, 2] += 0.6
    found = BankCorrection.of(bank, temperature=0.1)
    changed = found.apply(scores)
    firsts = {ranking(line)[0] for line in bank.tolist()}
    for row, line in enumerate(scores.tolist()):
        for video in range(5):
            offset = 0.1 * math.log(sum(math.exp(float(score) / 0.1) for score in bank[:, video]))
            expected = line[video] - offset if ranking(line)[0] in firsts else line[video]
            assert float(changed[row, video]) == pytest.approx(expected, abs=1e-6)
    assert 2 in firsts


def with_moments(subject: Subject) -> Subject:
    """Moments at known places: some where the event is, some elsewhere, one with two windows, one unknown."""
    spans = [(3, 4), (2, 5), (0, 6), (8, 12), (3, 5)]
    moments = {
        caption.id: Moment(caption.video, 5.0 * a, 5.0 * b, 60.0, kind=kind)
        for caption, (a, b), kind in zip(subject.dataset.captions, spans, ["v", "t", "vt", "v", "v"], strict=False)
    }
    last = subject.dataset.captions[4].id
    moments[last] = replace(moments[last], start=50.0, end=55.0, more=((15.0, 20.0),))
    tables = subject.dataset.tables
    tables = replace(tables, frames=tables.frames + 0.03 * torch.randn(tables.frames.shape))  # curves without ties
    return replace(subject, dataset=replace(subject.dataset, moments=moments, tables=tables))


def test_groups_by_ratio_and_type(planted: Subject) -> None:
    dataset = with_moments(planted).dataset
    ratios = moment_ratios(dataset)
    assert ratios[:5].tolist() == pytest.approx([1 / 12, 3 / 12, 6 / 12, 4 / 12, 2 / 12])
    assert ratios[5].isnan()
    assert [rows.nonzero().squeeze(1).tolist() for rows in ratio_bins(ratios).values()] == [[0, 4], [1, 3], [2]]
    groups = kind_groups(query_kinds(dataset))
    assert {name: rows.nonzero().squeeze(1).tolist() for name, rows in groups.items()} == {
        "video": [0, 3, 4],
        "subtitle": [1],
        "video + subtitle": [2],
    }


def test_moments_in_the_corpus_as_a_loop_finds_them(planted: Subject) -> None:
    subject = with_moments(planted)
    dataset, model = subject.dataset, subject.model
    found = split_scores(model, dataset)
    final = {"base": found.base, "trace": found.final(subject.fusion_weight)}
    answers = {name: Answers.of(matrix, dataset.positives) for name, matrix in final.items()}
    searches = search_moments(dataset, encode_subject(subject, timed=False), model.trace.config, answers)
    for name, search in searches.items():
        assert search.rows.tolist() == [0, 1, 2, 3, 4]
        for place, query in enumerate(search.rows.tolist()):
            predictions = []
            for video in range(len(dataset)):
                curve = curve_of(subject, name, query, video)
                stretches = best_by_loop(curve)
                predictions += [
                    (float(final[name][query, video]) - (stretches[0][2] - contrast), video, start / 12, stop / 12)
                    for start, stop, contrast in stretches
                ]
            predictions.sort(key=lambda p: -p[0])
            assert search.score[place, :60].tolist() == pytest.approx([p[0] for p in predictions][:60], abs=1e-4)
            own, windows = int(dataset.query_video[query]), dataset.moments[dataset.captions[query].id].windows  # type: ignore[index]
            found_overlaps = [
                max(overlap((a, b), (s / 60, e / 60)) for s, e in windows) if video == own else 0.0
                for _, video, a, b in predictions
            ]
            for iou in (0.3, 0.5, 0.7):
                right = [n for n, value in enumerate(found_overlaps, start=1) if value >= iou - 1e-6]
                assert int(search.first_right(iou)[place]) == (right[0] if right else 0), (name, query, iou)
    numbers = searches["trace"].as_dict()["vcmr"]["0.5"]
    first = searches["trace"].first_right(0.5).tolist()
    assert numbers["r1"] == pytest.approx(100 * sum(rank == 1 for rank in first) / 5)
    assert numbers["r100"] == pytest.approx(100 * sum(rank > 0 for rank in first) / 5)


def test_a_report_searches_moments_by_itself_only_where_that_takes_seconds(
    planted: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = with_moments(planted)
    assert run_study(subject, timed=False).searches
    monkeypatch.setattr("prvr.evaluation.finer.corpus_moments._QUICK", {"cpu": 0})
    left_out = run_study(subject, timed=False)
    assert left_out.searches is None
    assert "--vcmr" in corpus_moments_section(left_out.finer).absent
    assert run_study(subject, timed=False, corpus_moments=True).searches


def test_recalls_of_moments_follow_from_the_file_of_predictions(planted: Subject, tmp_path: Path) -> None:
    subject = with_moments(planted)
    data, known = subject.dataset, subject.dataset.moments or {}
    answers = {"base": Answers.of(split_scores(subject.model, data).base, data.positives)}
    searches = search_moments(data, encode_subject(subject, timed=False), subject.model.trace.config, answers)
    save_moments(Finer(subject, {"base": torch.ones(6, dtype=torch.long)}, answers, searches), tmp_path)
    with gzip.open(tmp_path / "predictions.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    for row, expected in zip(rows, searches["base"].overlap.tolist(), strict=True):
        moment = known[row["query_id"]]
        found = [
            max(overlap((a, b), (s / 60, e / 60)) for s, e in moment.windows) if video == moment.video else 0.0
            for video, a, b, _ in row["predictions"]
        ]
        assert found == pytest.approx(expected[: len(found)], abs=1e-12)


def test_an_overlap_of_exactly_the_threshold_is_right() -> None:
    """Every stretch of 8 to 14 frames whose IoU with a window on the same grid is the threshold, exactly."""
    for iou, share in ((0.3, Fraction(3, 10)), (0.5, Fraction(1, 2)), (0.7, Fraction(7, 10))):
        starts, ends, windows = [], [], []
        for frames in range(8, 15):
            stretches = list(combinations(range(frames + 1), 2))
            for (a, b), (c, d) in product(stretches, stretches):
                shared = max(0, min(b, d) - max(a, c))
                if Fraction(shared, b - a + d - c - shared) == share:
                    starts.append(a / frames)
                    ends.append(b / frames)
                    windows.append([(c * 2.3 / (frames * 2.3), d * 2.3 / (frames * 2.3))])
        overlaps = _best_overlap(
            *(torch.tensor(edge, dtype=torch.float64)[:, None] for edge in (starts, ends)), windows
        )
        rows = torch.arange(len(starts))
        empty = torch.zeros(len(starts), 1)
        search = MomentSearch(rows, empty, empty, empty, empty, overlap=overlaps, own=overlaps)
        assert len(starts) > 20
        assert search.first_right(iou).tolist() == search.first_own(iou).tolist() == [1] * len(starts)
        assert not search.first_right(iou + 1e-3).any()


def test_two_frames_have_two_stretches(planted: Subject) -> None:
    """Neither is the whole video, so no prediction is right for a moment that is."""
    data = planted.dataset
    moments = {caption.id: Moment(caption.video, 0.0, 60.0, 60.0) for caption in data.captions}
    tables = replace(data.tables, frame_count=torch.full_like(data.tables.frame_count, 2))
    subject = replace(planted, dataset=replace(data, moments=moments, tables=tables))
    answers = {"base": Answers.of(split_scores(planted.model, subject.dataset).base, data.positives)}
    found = search_moments(subject.dataset, encode_subject(subject, timed=False), planted.model.trace.config, answers)[
        "base"
    ]
    assert found.own.tolist() == [[0.5, 0.5, 0.0, 0.0, 0.0]] * len(data.captions)
    assert not found.first_own(0.7).any()
    assert not found.first_right(0.7).any()


def test_a_bank_holds_the_words_of_its_sentences_alone(planted: Subject) -> None:
    count = torch.tensor([2, 3, 1])
    words = torch.cat([torch.randn(6, 36), torch.zeros(1, 36)])
    tables = replace(planted.dataset.tables, words=words, word_start=count.cumsum(0) - count, word_count=count)
    asked = _asked_by(planted.dataset, replace(planted.dataset, tables=tables), [0, 2]).tables
    assert len(asked.words) == 2 + 1 + 1
    found, mask = asked.word_batch(torch.tensor([0, 1]))
    assert mask.tolist() == [[True, True], [True, False]]
    assert torch.equal(found, torch.stack([words[:2], torch.stack([words[5], words[6]])]))


def overlap(a: tuple[float, float], b: tuple[float, float]) -> float:
    shared = max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
    return shared / (a[1] - a[0] + b[1] - b[0] - shared)


@torch.no_grad()
def curve_of(subject: Subject, name: str, query: int, video: int) -> list[float]:
    """One pair's curve, encoded alone."""
    words, frames = subject.dataset.query_batch([query]), subject.dataset.video_batch([video])
    vector = subject.model.backbone.encode_queries(words.tokens, words.mask)
    tokens = subject.model.backbone.encode_video_batch(frames)
    if name == "base":
        unit = torch.nn.functional.normalize(tokens.frames[0], dim=-1)
        return [float(value) for value in unit @ torch.nn.functional.normalize(vector[0], dim=-1)]
    return [float(value) for value in aligned_evidence(subject.model.trace, vector, tokens).routed[0]]


def best_by_loop(curve: list[float], count: int = 5) -> list[tuple[int, int, float]]:
    size = len(curve)
    left = {}
    for start in range(size):
        for stop in range(start + 1, size + 1):
            inside, outside = curve[start:stop], curve[:start] + curve[stop:]
            if outside:
                contrast = sum(inside) / len(inside) - sum(outside) / len(outside)
                left[start, stop] = contrast * math.sqrt(len(inside) * len(outside)) / size
    found = []
    while left and len(found) < count:
        best = max(left, key=lambda pair: left[pair])
        found.append((*best, left[best]))
        left = {pair: score for pair, score in left.items() if overlap(pair, best) <= 0.5}
    return found


def test_a_split_without_moments_has_no_bins_and_no_searches(planted: Subject, tmp_path: Path) -> None:
    scores = split_scores(planted.model, planted.dataset).base
    answers = {"base": Answers.of(scores, planted.dataset.positives)}
    assert (
        search_moments(planted.dataset, encode_subject(planted, timed=False), planted.model.trace.config, answers) == {}
    )
    finer = Finer(planted, {"base": torch.ones(6, dtype=torch.long)}, answers)
    assert (finer.bins, finer.kind_groups) == ({}, {})
    assert set(finer.columns()) == {"base_positive_ranks", "base_top10"}
