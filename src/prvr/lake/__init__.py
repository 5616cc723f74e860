"""A library that outgrows one machine: Lance tables on a disk or in a bucket, and Ray to fill and to serve them.

    from prvr.lake import create_library, open_library
    from prvr.library import LibrarySettings

    library = create_library("s3://bucket/films.lance", LibrarySettings("siglip2"))
    library.add(["holiday/"])
    library.search("a red car turns left")

Needs ``pip install "prvr[scale]"``. Lance and Ray are imported when they are used.
"""

from typing import TYPE_CHECKING

from prvr.doors import lazy_door

if TYPE_CHECKING:
    from prvr.lake.cluster import add_on_cluster
    from prvr.lake.connection import ClusterError, address_for_nodes, connected, require_same_version
    from prvr.lake.copying import copy_library
    from prvr.lake.libraries import create_library, library_exists, open_library
    from prvr.lake.tables import LakeError, StoreAway, is_lake
else:
    __getattr__, __dir__ = lazy_door(__name__)

__all__ = [
    "ClusterError",
    "LakeError",
    "StoreAway",
    "add_on_cluster",
    "address_for_nodes",
    "connected",
    "copy_library",
    "create_library",
    "is_lake",
    "library_exists",
    "open_library",
    "require_same_version",
]
