"""A library on several machines of a Ray cluster: nodes decode and encode videos, and hold the parts that are searched.

    with connected("auto") as ray:
        ClusterIndexing("auto").add(library, find_videos(["archive/"]))
        shards = Shards(ray, start_shards(ray, library.folder, shards=4, replicas=2))
        ClusterSearcher(library, shards).search_many([SearchRequest("a red car")])

Needs ``pip install "prvr[cluster]"``; Ray is imported when it is first used.
"""

from prvr.cluster.add import ClusterIndexing
from prvr.cluster.connection import ClusterError, connected
from prvr.cluster.decode import Decode
from prvr.cluster.encode import EncodeFrames, SectionWriter
from prvr.cluster.jobs import ClusterAdd, plan_jobs
from prvr.cluster.partition import assign_videos
from prvr.cluster.pieces import FolderPieces
from prvr.cluster.replicas import Shards
from prvr.cluster.search import ClusterSearcher
from prvr.cluster.service import ClusterOptions, serve_on_cluster
from prvr.cluster.shard_actor import ShardActor, ShardRequest, start_shards, stop_shards

__all__ = [
    "ClusterAdd",
    "ClusterError",
    "ClusterIndexing",
    "ClusterOptions",
    "ClusterSearcher",
    "Decode",
    "EncodeFrames",
    "FolderPieces",
    "SectionWriter",
    "ShardActor",
    "ShardRequest",
    "Shards",
    "assign_videos",
    "connected",
    "plan_jobs",
    "serve_on_cluster",
    "start_shards",
    "stop_shards",
]
