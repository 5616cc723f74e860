"""Score a corpus: prepare it once as a gallery, then rank it against queries."""

from prvr.scoring.encoding import encode_queries
from prvr.scoring.engines import Engine, Scores, ScoringEngine, Top, score, score_parts, top_k
from prvr.scoring.evidence import AlignedPairs, GalleryEvidence, gallery_evidence
from prvr.scoring.gallery import Gallery
from prvr.scoring.pairwise import pairwise_scores, rerank
from prvr.scoring.pool import ScoringPool
from prvr.scoring.preparing import NotSeparable
from prvr.scoring.ranks import Recall, coverage, ranks, recalls
from prvr.scoring.streaming import gallery_ranks

__all__ = [
    "AlignedPairs",
    "Engine",
    "Gallery",
    "GalleryEvidence",
    "NotSeparable",
    "Recall",
    "Scores",
    "ScoringEngine",
    "ScoringPool",
    "Top",
    "coverage",
    "encode_queries",
    "gallery_evidence",
    "gallery_ranks",
    "pairwise_scores",
    "ranks",
    "recalls",
    "rerank",
    "score",
    "score_parts",
    "top_k",
]
