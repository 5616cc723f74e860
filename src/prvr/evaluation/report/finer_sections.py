"""Sections: groups of queries, several correct videos, moments in the corpus, and hubs."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from prvr.evaluation.finer.corpus_moments import IOUS, OWN_AT, STRETCHES, VIDEOS
from prvr.evaluation.finer.hubs import TOP_HUBS, occurrences
from prvr.evaluation.finer.measure import Finer
from prvr.evaluation.finer.relevance import FAR, NEAR
from prvr.evaluation.report.content import RECALL_COLUMNS, Cell, Column, ReportSection, ReportTable, recall_cells
from prvr.scoring import CUTOFFS, recalls

SCORINGS = {  # columns of ranks -> what is printed
    "base": "base branch",
    "trace": "TRACE",
    "witness": "witness",
    "base_bank": "base, query bank",
    "trace_bank": "TRACE, query bank",
}
RATIOS, KINDS = "By moment-to-video ratio", "By query type"
POSITIVES, MOMENTS, HUBS = "Several correct videos per query", "Moments in the whole corpus (VCMR)", "Hubs"
NO_MOMENTS = (
    "Start and end of the queries' moments are not known. `prvr data moments` writes them from published annotations."
)

NOT_SEARCHED = (
    "Left out, because it compares many stretches here and may take long. The command below makes this section "
    "alone, and `prvr report RUN --vcmr` the whole report with it."
)


def ratio_section(finer: Finer) -> ReportSection:
    """Recalls of queries whose moment takes a small, middle or large part of the video."""
    if not finer.bins:
        return ReportSection("ratio", RATIOS, absent=NO_MOMENTS)
    known = sum(int(rows.sum()) for rows in finer.bins.values())
    lead = (
        f"The length of a query's moment over the video's, known for {known:,} of {len(finer.ratios):,} queries. The "
        "smaller it is, the less of the video the query is about."
    )
    return ReportSection("ratio", RATIOS, lead, [_grouped(finer, "ratio", "ratio", RATIOS, finer.bins)])


def kind_section(finer: Finer) -> ReportSection:
    """Recalls by what queries are about."""
    if not finer.kind_groups:
        absent = "This dataset does not say what its queries are about; TVR does (`prvr data moments` keeps it)."
        return ReportSection("types", KINDS, absent=absent)
    lead = "What annotators of the dataset wrote a query about. Features of pictures alone do not show subtitles."
    return ReportSection("types", KINDS, lead, [_grouped(finer, "types", "type", KINDS, finer.kind_groups)])


def _grouped(finer: Finer, name: str, what: str, title: str, groups: Mapping[str, Tensor]) -> ReportTable:
    rows: list[list[Cell]] = [
        [group, int(chosen.sum()), SCORINGS[scoring], *recall_cells(recalls(finer.ranks[scoring][chosen]))]
        for group, chosen in groups.items()
        for scoring in finer.ranks
        if scoring in SCORINGS
    ]
    columns = [Column(what), Column("queries"), Column("scoring"), *RECALL_COLUMNS]
    return ReportTable(name, f"{title} (%)", columns, rows)


def positives_section(finer: Finer) -> ReportSection:
    """The same ranking when every correct video counts."""
    subject = finer.subject
    if not subject.several_positives:
        return ReportSection(
            "positives",
            POSITIVES,
            absent="This split lists one correct video per query. Give a list of all of them (*.gt.jsonl, also gzipped "
            "or in a .zip): --labels FILE.",
        )
    judged = subject.judged
    counts = [len(subject.dataset.positives[row]) for row in judged.nonzero().squeeze(1).tolist()]
    several = sum(count > 1 for count in counts)
    rows: list[list[Cell]] = []
    measured: list[list[Cell]] = []
    for name, answers in finer.answers.items():
        r, label = finer.relevance[name], SCORINGS[name]
        rows.append([f"{label}, labelled video", *recall_cells(recalls(finer.ranks[name][judged]))])
        rows.append([f"{label}, any correct video", *recall_cells(recalls(answers.any_ranks[judged]))])
        measures = [r.mean_average_precision, r.ndcg_10, r.ndcg_100, r.coverage_10, r.coverage_100]
        measured.append([label, *measures])
    columns = [Column("mAP"), *(Column(f"{what}@{k}") for what in ("nDCG", "coverage") for k in (NEAR, FAR))]
    source = f"the label file names {len(counts):,} of {len(judged):,} queries, which are counted here"
    source = source if subject.labelled is not None else "as the dataset's own file says"
    lead = (
        f"{several:,} of {len(counts):,} queries ({100 * several / len(counts):.0f} %) have more than one correct "
        f"video, {sum(counts) / len(counts):.2f} on average ({source}). The rank is that of the best of them. mAP and "
        "nDCG look at the ranks of all of them; coverage@k is the share of them within the first k. Means over queries."
    )
    tables = [
        ReportTable("positives", "Single and several positives (%)", [Column("scoring"), *RECALL_COLUMNS], rows),
        ReportTable("relevance", "All correct videos (%)", [Column("scoring"), *columns], measured),
    ]
    return ReportSection("positives", POSITIVES, lead, tables)


def corpus_moments_section(finer: Finer) -> ReportSection:
    """Right video and right moment at once."""
    if not finer.bins:
        return ReportSection("vcmr", MOMENTS, absent=NO_MOMENTS)
    if not finer.searched:
        return ReportSection("vcmr", MOMENTS, absent=NOT_SEARCHED)
    if not finer.searches:
        absent = "This method compares words with videos: it has no curve over frames to find moments in."
        return ReportSection("vcmr", MOMENTS, absent=absent)
    rows: list[list[Cell]] = []
    for name, search in finer.searches.items():
        found = search.as_dict()
        for iou in IOUS:
            inside, within = found["vcmr"][f"{iou:g}"], found["svmr"][f"{iou:g}"]
            rows.append([SCORINGS[name], f"{iou:g}", *inside.values(), *within.values()])
    columns = [Column("scoring"), Column("IoU"), *(Column(f"R@{k}") for k in CUTOFFS)]
    columns += [Column(f"right video R@{k}") for k in OWN_AT]
    count = len(next(iter(finer.searches.values())).rows)
    lead = (
        f"{count:,} queries with a known moment. Predictions are the {STRETCHES} best stretches of the curve in each "
        f"of the {VIDEOS} best videos, ranked by the video's score, minus how much less clear the stretch is than the "
        "video's best one. One is right if it is in the labelled video and overlaps the moment enough. The last "
        "columns rank the stretches of the labelled video alone (SVMR)."
    )
    return ReportSection("vcmr", MOMENTS, lead, [ReportTable("vcmr", "Moment retrieval (%)", columns, rows)])


def hubs_section(finer: Finer) -> ReportSection:
    """Whether few videos are answers to many queries, and which."""
    rows: list[list[Cell]] = []
    videos = len(finer.subject.dataset)
    for scoring, found in finer.hubness.items():
        label = SCORINGS[scoring]
        measures: list[Cell] = [found.skewness, found.largest, found.places, found.queries, found.antihubs]
        rows.append([label, *measures])
    first = next(iter(finer.hubness.values()))
    columns = [Column("scoring"), Column("skewness", 2), Column("largest N")]
    columns += [Column("places of top hubs, %"), Column("queries with one, %"), Column("antihubs")]
    share = 100 * min(TOP_HUBS, videos) / videos
    lead = (
        f"N is how many queries have a video among their first {first.within} answers; skewness is that of N over the "
        f"{videos:,} videos (the number of labelled queries per video has {first.labelled_skewness:.2f}). The top hubs "
        f"are the {min(TOP_HUBS, videos)} videos with the largest N: {share:.1f} % of the gallery. An antihub is "
        "nobody's answer."
    ).replace(" -", " −")
    return ReportSection("hubs", HUBS, lead, [ReportTable("hubs", "Hubness", columns, rows), _top_hubs(finer)])


def _top_hubs(finer: Finer) -> ReportTable:
    """The top hubs of the scoring that the run ranks by, and what the query bank makes of them."""
    scoring = "trace" if "trace" in finer.hubness else "base"
    corrected = finer.answers.get(f"{scoring}_bank")
    after: dict[str, int] = {}
    if corrected is not None:
        after = dict(zip(finer.subject.dataset.video_ids, occurrences(corrected).tolist(), strict=True))
    rows: list[list[Cell]] = []
    for hub in finer.hubness[scoring].hubs:
        cells: list[Cell] = [hub.video, hub.queries, 100 * hub.queries / len(finer.ratios), hub.queries - hub.correct]
        rows.append([*cells, *([after[hub.video]] if after else [])])
    columns = [Column("video"), Column("N"), Column("of all queries, %"), Column("wrongly")]
    columns += [Column("N with query bank")] if after else []
    note = "Wrongly: not one of the query's correct videos."
    return ReportTable("top_hubs", f"Top hubs of {SCORINGS[scoring]}", columns, rows, note)


FINER_SECTIONS = {  # in the order in which they are printed
    "ratio": ratio_section,
    "types": kind_section,
    "positives": positives_section,
    "vcmr": corpus_moments_section,
    "hubs": hubs_section,
}
