"""A library on several machines of a Ray cluster: nodes decode and encode videos, and hold the parts that are searched.

    with connected("auto") as ray:
        ClusterIndexing("auto").add(library, find_videos(["archive/"]))
        shards = Shards(ray, start_shards(ray, library.folder, shards=4, replicas=2))
        ClusterSearcher(library, shards).search_many([SearchRequest("a red car")])

Needs ``pip install "prvr[cluster]"``; Ray is imported when it is first used.
"""

from prvr.cluster.add import ClusterIndexing
from prvr.cluster.connection import ClusterError, connected
from prvr.cluster.replicas import Shards
from prvr.cluster.search import ClusterSearcher
from prvr.cluster.service import ClusterOptions, serve_on_cluster
from prvr.cluster.shard_actor import start_shards, stop_shards

__all__ = [
    "ClusterError",
    "ClusterIndexing",
    "ClusterOptions",
    "ClusterSearcher",
    "Shards",
    "connected",
    "serve_on_cluster",
    "start_shards",
    "stop_shards",
]
