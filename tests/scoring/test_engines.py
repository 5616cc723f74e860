"""One contract for all engines, whatever the lengths, registers and storage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones import TokenSet
from prvr.scoring import Engine, FusedEngine, Gallery, ScoringEngine, gallery_ranks, ranks, score, score_parts, top_k
from prvr.scoring.engines import best_routes, products
from prvr.scoring.engines.factorised import TILE_ELEMENTS, FactorisedEngine
from prvr.scoring.engines.products import FEWEST_FOR_ONEDNN, stored_products
from prvr.scoring.engines.reference import ReferenceEngine
from prvr.scoring.storage import Storage, Vectors
from prvr.scoring.top import TopKeeper
from prvr.scoring.workspace import Workspace
from prvr.tokens import VideoTokens
from prvr.trace import Trace, TraceConfig, trace_evidence

WIDTH = 64
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
ENGINES = ["reference", "torch", pytest.param("triton", marks=needs_gpu)]
# Largest error of a score in the units of its own size; eight bits are judged by ranks instead.
TOLERANCE: dict[str, float] = {"fp64": 1e-9, "fp32": 1e-5, "fp16": 1e-3, "bf16": 1e-3}
TRITON_TOLERANCE = 1e-3  # tensor cores round full floats, too


@dataclass
class Corpus:
    """A stand-in for a backbone: tokens as they are, clips and frames weighted."""

    method = "corpus"
    separable = True
    unit_tokens = True
    clips: bool = True

    def token_sets(self, videos: VideoTokens) -> tuple[TokenSet, ...]:
        frames = TokenSet(0.4, videos.frames)
        return (TokenSet(0.6, videos.clips), frames) if self.clips else (frames,)


def videos(lengths: list[int], registers: int = 3, dtype: torch.dtype = torch.float32, seed: int = 0) -> VideoTokens:
    torch.manual_seed(seed)
    slots = max(lengths)
    mask = torch.arange(slots) < torch.tensor(lengths)[:, None]
    topic = 1 + torch.randn(len(lengths), 1, WIDTH)  # all share something, as real ones do
    frames = (topic + torch.randn(len(lengths), slots, WIDTH)) * mask[..., None]
    clips, held = topic + torch.randn(len(lengths), 32, WIDTH), topic + torch.randn(len(lengths), registers, WIDTH)
    return VideoTokens(frames, mask, clips, held).to(dtype)


def trace_of(dtype: torch.dtype = torch.float32, **changes: Any) -> Trace:
    torch.manual_seed(1)
    trace = Trace(WIDTH, TraceConfig(**changes))
    for weight in trace.projections.values():
        weight.data += 0.3 * torch.randn(WIDTH, WIDTH) / WIDTH**0.5
    return trace.to(dtype)


def questions(count: int = 7, dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(2)
    return (1 + torch.randn(count, WIDTH)).to(dtype)


def expected(queries: Tensor, tokens: VideoTokens, trace: Trace, corpus: Corpus) -> tuple[Tensor, Tensor]:
    """Base and evidence, from the definitions."""
    q = F.normalize(queries, dim=-1)
    base = sum(
        s.weight * (q @ F.normalize(s.tokens, dim=-1).flatten(0, 1).T).view(len(q), *s.tokens.shape[:2]).amax(-1)
        for s in corpus.token_sets(tokens)
    )
    assert isinstance(base, Tensor)
    registers = trace.registers(tokens)
    found = trace_evidence(queries, registers, tokens.frames, tokens.frame_mask, trace.projections, trace.config)
    return base, found.score


def gallery_of(tokens: VideoTokens, trace: Trace | None, corpus: Corpus, engine: str, **how: Any) -> Gallery:
    gallery = Gallery.of_tokens(corpus, trace, tokens, **how)  # type: ignore[arg-type]
    return gallery.to("cuda") if engine == "triton" else gallery


def check(
    engine: Engine,
    tokens: VideoTokens,
    trace: Trace,
    corpus: Corpus,
    queries: Tensor,
    *,
    leeway: float = 1.0,
    **how: Any,
) -> None:
    with torch.no_grad():
        base, evidence = expected(queries, tokens, trace, corpus)
        gallery = gallery_of(tokens, trace, corpus, engine, **how)
        found = score_parts(queries, gallery, engine)
    limit = leeway * max(TOLERANCE[gallery.storage], TRITON_TOLERANCE if engine == "triton" else 0.0)
    assert found.trace is not None
    for ours, true in ((found.base, base), (found.trace, evidence)):
        assert float((ours.cpu() - true).norm() / true.norm()) < limit


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("lengths", [[16, 1, 9, 4, 1], [128] * 3, [40, 1, 300, 129, 128], [1]], ids=str)
def test_ragged_videos_of_any_length(engine: Engine, lengths: list[int]) -> None:
    check(engine, videos(lengths), trace_of(), Corpus(), questions())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("page", [16, 32])
def test_a_long_video_is_several_pages(engine: Engine, page: int) -> None:
    check(engine, videos([40, 1, 33, 16, 64]), trace_of(), Corpus(), questions(), page=page)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("registers", [1, 2, 6, 8, 16])
def test_any_number_of_registers(engine: Engine, registers: int) -> None:
    check(engine, videos([16, 1, 9], registers), trace_of(), Corpus(), questions())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("storage", TOLERANCE)
@pytest.mark.parametrize("count", [1, 2, 70])
def test_every_storage_type_within_its_tolerance(engine: Engine, storage: Storage, count: int) -> None:
    dtype = torch.float64 if storage == "fp64" else torch.float32
    if engine == "triton" and storage == "fp64":
        pytest.skip("float64 is for the others")
    tokens = videos([30, 1, 90, 128], dtype=dtype)
    check(engine, tokens, trace_of(dtype), Corpus(), questions(count, dtype), storage=storage)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [1, 40])
def test_eight_bits_keep_the_ranking(engine: Engine, count: int) -> None:
    tokens, trace, queries = videos([20] * 200), trace_of(), questions(count)
    full = top_k(queries, gallery_of(tokens, trace, Corpus(), "torch"), k=10)
    eight = top_k(queries, gallery_of(tokens, trace, Corpus(), engine, storage="int8"), k=10, engine=engine)
    shared = (full.indices[:, :, None] == eight.indices.cpu()[:, None, :]).any(-1).float().mean()
    assert shared >= 0.8


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "option", [{"gate": True}, {"anchors": "hybrid"}, {"gate": True, "anchors": "hybrid"}], ids=str
)
def test_what_goes_beyond_the_paper(engine: Engine, option: dict[str, Any]) -> None:
    # A gate multiplies by a certainty that can be near 0: what is left is small, rounding is not.
    check(engine, videos([16, 5, 9]), trace_of(**option), Corpus(), questions(), leeway=5.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gate_over_one_register_is_open(engine: Engine) -> None:
    check(engine, videos([16, 5], registers=1), trace_of(gate=True), Corpus(), questions())


@pytest.mark.parametrize("engine", ["reference", "torch"])
@pytest.mark.parametrize("temperature", [0.5, 0.02, 0.007])
def test_any_temperature(engine: Engine, temperature: float) -> None:
    check(engine, videos([16, 1, 9]), trace_of(temperature=temperature), Corpus(), questions())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_method_without_clips(engine: Engine) -> None:
    check(engine, videos([16, 1, 9]), trace_of(), Corpus(clips=False), questions())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("clips", [True, False])
def test_without_trace_there_are_base_scores_alone(engine: Engine, clips: bool) -> None:
    tokens, corpus, queries = videos([16, 1, 9]), Corpus(clips), questions()
    gallery = gallery_of(tokens, None, corpus, engine)
    found = score_parts(queries, gallery, engine)
    assert found.trace is None
    base, _ = expected(queries, tokens, trace_of(), corpus)
    torch.testing.assert_close(found.base.cpu(), base, atol=1e-3 if engine == "triton" else 1e-5, rtol=0)
    assert torch.equal(score(queries, gallery, engine), found.base)


@pytest.mark.parametrize("engine", ENGINES)
def test_only_an_empty_slot_lifts_a_video_to_zero(engine: Engine) -> None:
    """The field's rule: padding counts as cosine 0. A video that fills its slots has none, however it is paged."""
    frames = torch.zeros(2, 16, WIDTH)
    frames[0, :, 0], frames[1, :4, 0] = -1.0, -1.0  # all opposed to the query
    mask = torch.arange(16) < torch.tensor([16, 4])[:, None]
    tokens = VideoTokens(frames, mask, torch.zeros(2, 0, WIDTH))
    query = F.one_hot(torch.tensor([0]), WIDTH).float()
    for page in (16, 32):
        gallery = gallery_of(tokens, None, Corpus(clips=False), engine, page=page)
        torch.testing.assert_close(score(query, gallery, engine).cpu(), torch.tensor([[-0.4, 0.0]]))


@pytest.mark.parametrize("engine", ENGINES)
def test_tiles_do_not_show(engine: Engine) -> None:
    gallery, queries = gallery_of(videos([16, 3, 40, 5, 1]), trace_of(), Corpus(), engine, page=16), questions()
    whole = score_parts(queries, gallery, engine)
    small: dict[str, ScoringEngine] = {
        "reference": ReferenceEngine(tile_elements=1),
        "torch": FactorisedEngine(tile_elements=1, queries_per_tile=3),
        "triton": FusedEngine(scores_at_once=2 * 3, queries_at_once=3),
    }
    tiled = score_parts(queries, gallery, small[engine])
    torch.testing.assert_close(tiled.base, whole.base, atol=1e-6, rtol=0)
    torch.testing.assert_close(tiled.trace, whole.trace, atol=1e-6, rtol=0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("k", [1, 3, 50])
def test_top_k_is_the_head_of_the_sorted_scores(engine: Engine, k: int) -> None:
    tokens = videos([16, 3, 9, 5, 1, 2])
    tokens = replace(tokens, **{name: torch.cat([t, t]) for name, t in tokens.tensors().items()})  # every score twice
    gallery, queries = gallery_of(tokens, trace_of(), Corpus(), engine), questions()
    two_videos = FactorisedEngine(tile_elements=2 * 7 * 16)
    true = score(queries, gallery, engine).sort(dim=1, descending=True, stable=True)
    top = top_k(queries, gallery, k=k, engine=two_videos if engine == "torch" else engine)
    torch.testing.assert_close(top.scores, true.values[:, :k], atol=1e-6, rtol=0)
    assert torch.equal(top.indices, true.indices[:, :k])


@pytest.mark.parametrize("at_once", [1, 20, 10_000])
def test_ranks_need_no_score_matrix(at_once: int) -> None:
    gallery, queries = gallery_of(videos([16, 3, 9, 5, 1, 2]), trace_of(), Corpus(), "torch"), questions()
    right = torch.arange(7) % 6
    expected_ranks = ranks(score(queries, gallery), right)
    assert torch.equal(gallery_ranks(queries, gallery, right, scores_at_once=at_once), expected_ranks)
    several = [[int(r), 0] for r in right]
    found = gallery_ranks(queries, gallery, several, scores_at_once=at_once)
    assert torch.equal(found, ranks(score(queries, gallery), several))


def test_unknown_engines_and_widths_are_refused_by_name() -> None:
    gallery = gallery_of(videos([2]), trace_of(), Corpus(), "torch")
    with pytest.raises(ValueError, match="unknown engine 'cuda'; there are: auto, reference, torch, triton"):
        score(questions(), gallery, "cuda")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"queries have shape \(7, 10\), but this gallery is 64 wide"):
        score(questions()[:, :10], gallery)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without a CUDA device")
def test_without_a_device_triton_steps_aside_with_a_notice() -> None:
    gallery, queries = gallery_of(videos([2, 5]), trace_of(), Corpus(), "torch"), questions()
    with pytest.warns(UserWarning, match="torch engine: the gallery is on cpu, and the triton engine needs a CUDA"):
        found = score(queries, gallery, "triton")
    assert torch.equal(found, score(queries, gallery, "torch"))


@pytest.mark.parametrize("engine", ["reference", "torch"])
def test_low_temperatures_keep_paths_that_leave_float32(engine: Engine) -> None:
    """The query dislikes a register by more than exp can say in float32, and its frame likes that one by even more."""
    tokens = videos([16, 1, 9], registers=4)
    assert tokens.registers is not None
    tokens.registers[:, 1] *= -1
    tokens.frames[:, ::2] *= -1
    check(engine, tokens, trace_of(temperature=0.007), Corpus(), questions())


@pytest.mark.parametrize("engine", ["reference", "torch"])
@pytest.mark.parametrize("storage", [*TOLERANCE, "int8"])
@pytest.mark.parametrize("made", ["fp64", "fp32"])
def test_a_converted_gallery_scores_like_one_made_so(engine: Engine, storage: Storage, made: Storage) -> None:
    tokens, queries = videos([16, 1, 40], dtype=torch.float64), questions()
    direct = gallery_of(tokens, trace_of(), Corpus(), engine, storage=storage)
    converted = gallery_of(tokens, trace_of(), Corpus(), engine, storage=made).to(storage=storage)
    limit = 1e-2 if storage == "int8" else 1e-3 if storage in ("fp16", "bf16") else 1e-5
    torch.testing.assert_close(score(queries, converted, engine), score(queries, direct, engine), atol=limit, rtol=0)


@pytest.mark.parametrize("storage", ["fp16", "bf16", "int8"])
@pytest.mark.parametrize("count", [3, 70, 1024])
def test_no_tile_turns_more_vectors_into_floats_than_its_bound(storage: Storage, count: int) -> None:
    gallery = gallery_of(videos([16] * 60), trace_of(), Corpus(), "torch", storage=storage, page=16)
    gallery = Gallery.cat([gallery] * 100)
    tiles = FactorisedEngine().plan(count, gallery)
    assert max((t.videos.stop - t.videos.start) * 16 * WIDTH for t in tiles) <= TILE_ELEMENTS["cpu"]


@pytest.mark.parametrize("k", [1, 4])
def test_top_k_never_looks_at_the_whole_score_matrix(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gallery, queries = gallery_of(videos([16, 3, 9, 5, 1, 2]), trace_of(), Corpus(), "torch"), questions()
    true = score(queries, gallery).sort(dim=1, descending=True, stable=True)
    looked: list[int] = []
    offer = TopKeeper.offer

    def watched(keeper: TopKeeper, scores: Tensor, rows: slice, first: int) -> None:
        looked.append(scores.numel())
        offer(keeper, scores, rows, first)

    monkeypatch.setattr(TopKeeper, "offer", watched)
    top = top_k(queries, gallery, k=k, scores_at_once=2 * len(queries))
    assert looked == [2 * len(queries)] * 3
    assert torch.equal(top.indices, true.indices[:, :k])


def test_nothing_to_score_is_no_mistake() -> None:
    gallery, queries = gallery_of(videos([2, 3]), trace_of(), Corpus(), "torch"), questions()
    assert score(queries[:0], gallery).shape == (0, 2)
    assert score(queries, gallery[2:]).shape == (7, 0)
    assert top_k(queries, gallery[2:]).indices.shape == top_k(queries, gallery, k=0).indices.shape == (7, 0)
    assert bool(score(torch.zeros(1, WIDTH), gallery).isfinite().all())
    with pytest.raises(ValueError, match="k is -1"):
        top_k(queries, gallery, k=-1)


def test_a_grid_has_room_for_every_run_of_videos() -> None:
    many = 1_000_000
    gallery = replace(gallery_of(videos([1]), None, Corpus(clips=False), "torch"), first_page=torch.arange(many + 1))
    runs = [tile.videos for tile in FusedEngine().plan(1, gallery)]
    assert max(run.stop - run.start for run in runs) <= 4 * 65_535
    assert (runs[0].start, runs[-1].stop) == (0, many)


@pytest.mark.parametrize("clips", [True, False])
def test_a_broken_token_shows(clips: bool) -> None:
    tokens = videos([16, 3])
    tokens.frames[0, 2, 0] = torch.nan
    scores = score(questions(), gallery_of(tokens, None, Corpus(clips), "torch"))
    assert bool(scores[:, 0].isnan().all())
    assert bool(scores[:, 1].isfinite().all())


@pytest.fixture
def one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass that Numba compiles, whatever the size of the work."""
    pytest.importorskip("numba", reason='needs Numba: pip install "prvr[numba]"')
    monkeypatch.setattr(best_routes, "WORTH", 1)


@pytest.mark.usefixtures("one_pass")
@pytest.mark.parametrize("page", [1, 15, 16])
@pytest.mark.parametrize("registers", [1, 5])
def test_one_pass_finds_the_same_routes(page: int, registers: int) -> None:
    tokens = videos([40, 1, 33, 15, 64], registers)
    check("torch", tokens, trace_of(), Corpus(), questions(70), page=page)
    check("torch", tokens, trace_of(temperature=0.05), Corpus(), questions(70), page=page, storage="bf16")
    check("torch", tokens, trace_of(temperature=0.01), Corpus(), questions(70), page=page)  # too low for it


@pytest.mark.usefixtures("one_pass")
def test_one_pass_hides_no_broken_token() -> None:
    tokens, queries = videos([16, 3, 9]), questions(70)
    gallery = gallery_of(tokens, trace_of(), Corpus(), "torch")
    gallery.keys.values[0, 2, 0] = torch.nan  # type: ignore[union-attr]
    gallery.routes.grounding[1, 1, 2] = torch.nan  # type: ignore[union-attr]
    queries[5, 0] = torch.nan
    scores = score_parts(queries, gallery).trace
    assert scores is not None
    assert bool(scores[:, :2].isnan().all())
    assert scores[:, 2].isnan().nonzero().flatten().tolist() == [5]


def test_how_far_a_batch_is_padded_does_not_matter() -> None:
    """Frames of a batch may be fewer than the 32 clips in one and more in another: frames stay on the pages."""
    parts = [gallery_of(videos(lengths), trace_of(), Corpus(), "torch", page=16) for lengths in ([5, 9], [40, 3], [32])]
    each = torch.cat([score(questions(), part) for part in parts], 1)
    torch.testing.assert_close(score(questions(), Gallery.cat(parts)), each, atol=1e-6, rtol=0)


@pytest.mark.parametrize("storage", ["fp32", "fp16", "int8"])
@pytest.mark.parametrize("queries", [FEWEST_FOR_ONEDNN - 1, FEWEST_FOR_ONEDNN, 130])
def test_both_libraries_of_products_give_the_same(
    storage: Storage, queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Vectors.store(torch.randn(7, 5, 24), storage)
    columns = torch.randn(24, queries)
    monkeypatch.setattr(products, "BLOCK_ELEMENTS", 4 * queries)  # several blocks
    found = stored_products(rows, columns, Workspace(), "found").clone()
    assert (products.onednn_product(columns) is not None) == (products._has_onednn() and queries >= FEWEST_FOR_ONEDNN)
    monkeypatch.setattr(products, "_has_onednn", lambda: False)
    torch.testing.assert_close(found, stored_products(rows, columns, Workspace(), "expected"), atol=1e-5, rtol=1e-5)
