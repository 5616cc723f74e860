"""Training losses as pure functions of scores, vectors and labels: no loops, no state, any device.

``labels[n]`` is the column of the video that query ``n`` describes. Labels need not be sorted; a query with label −1 is
padding and takes no part.
"""

from prvr.losses.contrastive import info_nce, query_similarity, two_way_nce
from prvr.losses.diversity import query_diversity
from prvr.losses.triplet import Negatives, pick_negatives, triplet

__all__ = [
    "Negatives",
    "info_nce",
    "pick_negatives",
    "query_diversity",
    "query_similarity",
    "triplet",
    "two_way_nce",
]
