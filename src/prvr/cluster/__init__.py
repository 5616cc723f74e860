"""A library past one machine: indexing on a Ray cluster, searching in shards that several nodes hold."""

from prvr.cluster.connecting import ClusterError, connected
from prvr.cluster.hedging import Shards
from prvr.cluster.indexing import ClusterIndexing
from prvr.cluster.searching import ClusterSearcher
from prvr.cluster.shards import start_shards, stop_shards

__all__ = [
    "ClusterError",
    "ClusterIndexing",
    "ClusterSearcher",
    "Shards",
    "connected",
    "start_shards",
    "stop_shards",
]
