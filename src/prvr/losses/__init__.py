"""Training losses as pure functions of scores, vectors and labels: no state, any device, no loops (but for the search
of ``matching_loss`` on a CPU).

``labels[n]`` is the column of the video that query ``n`` describes. Labels need not be sorted; a query with label −1 is
padding and takes no part.
"""

from prvr.losses.alignment import BranchAlignment, segment_alignment, segment_of_frames
from prvr.losses.contrastive import first_video_nce, info_nce, query_similarity, square_nce, two_way_nce
from prvr.losses.distributions import distribution_alignment, proxy_matching
from prvr.losses.diversity import crowding, query_diversity
from prvr.losses.entailment import exterior_angle, half_aperture, onto_hyperboloid, partial_order
from prvr.losses.evidential import (
    ambiguous,
    combined_evidence,
    dirichlet_evidence,
    divide_queries,
    evidential_error,
    softened_targets,
)
from prvr.losses.labels import LEFT_OUT, also_described, masked_mean, mean_per_video
from prvr.losses.matching import best_matching, matching_loss
from prvr.losses.relations import angle_relation, distance_relation
from prvr.losses.span import span_loss
from prvr.losses.transport import query_clip_similarity, transport_plan
from prvr.losses.triplet import Negatives, pick_negatives, square_triplet, triplet

__all__ = [
    "LEFT_OUT",
    "BranchAlignment",
    "Negatives",
    "also_described",
    "ambiguous",
    "angle_relation",
    "best_matching",
    "combined_evidence",
    "crowding",
    "dirichlet_evidence",
    "distance_relation",
    "distribution_alignment",
    "divide_queries",
    "evidential_error",
    "exterior_angle",
    "first_video_nce",
    "half_aperture",
    "info_nce",
    "masked_mean",
    "matching_loss",
    "mean_per_video",
    "onto_hyperboloid",
    "partial_order",
    "pick_negatives",
    "proxy_matching",
    "query_clip_similarity",
    "query_diversity",
    "query_similarity",
    "segment_alignment",
    "segment_of_frames",
    "softened_targets",
    "span_loss",
    "square_nce",
    "square_triplet",
    "transport_plan",
    "triplet",
    "two_way_nce",
]
