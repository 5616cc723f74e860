"""Score a corpus: prepare it once as a gallery, then rank it against queries."""

from typing import TYPE_CHECKING

from prvr.doors import lazy_door

if TYPE_CHECKING:
    from prvr.scoring.calibration import (
        FEWEST_QUERIES,
        Calibration,
        CalibrationQuality,
        KnownSearches,
        LibraryOdds,
        area_under_roc,
        calibration_error,
        fit_calibration,
        known_searches,
    )
    from prvr.scoring.engines import Engine, Scores, ScoringEngine, Top, score, score_parts, top_k
    from prvr.scoring.engines.best_routes import one_pass_pays
    from prvr.scoring.engines.common import prepare_queries
    from prvr.scoring.engines.factorised import FactorisedEngine
    from prvr.scoring.engines.fused import FusedEngine, fused_device_obstacle, fused_obstacle
    from prvr.scoring.engines.products import stored_products
    from prvr.scoring.evidence import AlignedPairs, GalleryEvidence, gallery_evidence
    from prvr.scoring.factors import NotSeparable, require_separable
    from prvr.scoring.few_queries import has_simsimd
    from prvr.scoring.gallery import Gallery
    from prvr.scoring.inputs import encode_query_batches, encode_video_batches, evaluation_mode, join_videos
    from prvr.scoring.mapped import PAGED, GalleryError, array_bytes, map_array
    from prvr.scoring.numpy_gallery import NumpyGallery, NumpyScores, RowEvidence
    from prvr.scoring.pairwise import pairwise_scores, rerank
    from prvr.scoring.pool import OneCoreThreads, ScoringPool
    from prvr.scoring.rank_stream import gallery_ranks
    from prvr.scoring.recall import (
        CUTOFFS,
        Positives,
        Recall,
        coverage,
        positive_pairs,
        positive_ranks,
        ranks,
        recalls,
        require_ranks,
    )
    from prvr.scoring.storage import STORAGE, Storage, Vectors
    from prvr.scoring.sweep import sweep_anchors
else:
    __getattr__, __dir__ = lazy_door(__name__)

__all__ = [
    "CUTOFFS",
    "FEWEST_QUERIES",
    "PAGED",
    "STORAGE",
    "AlignedPairs",
    "Calibration",
    "CalibrationQuality",
    "Engine",
    "FactorisedEngine",
    "FusedEngine",
    "Gallery",
    "GalleryError",
    "GalleryEvidence",
    "KnownSearches",
    "LibraryOdds",
    "NotSeparable",
    "NumpyGallery",
    "NumpyScores",
    "OneCoreThreads",
    "Positives",
    "Recall",
    "RowEvidence",
    "Scores",
    "ScoringEngine",
    "ScoringPool",
    "Storage",
    "Top",
    "Vectors",
    "area_under_roc",
    "array_bytes",
    "calibration_error",
    "coverage",
    "encode_query_batches",
    "encode_video_batches",
    "evaluation_mode",
    "fit_calibration",
    "fused_device_obstacle",
    "fused_obstacle",
    "gallery_evidence",
    "gallery_ranks",
    "has_simsimd",
    "join_videos",
    "known_searches",
    "map_array",
    "one_pass_pays",
    "pairwise_scores",
    "positive_pairs",
    "positive_ranks",
    "prepare_queries",
    "ranks",
    "recalls",
    "require_ranks",
    "require_separable",
    "rerank",
    "score",
    "score_parts",
    "stored_products",
    "sweep_anchors",
    "top_k",
]
