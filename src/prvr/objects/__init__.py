"""Libraries on object storage: published as immutable objects, worked on and searched in a local copy.

    with working_copy("s3://bucket/films.prvr") as copy:
        copy.open_or_create(encoder="plain").add(["archive/"])
    open_published("s3://bucket/films.prvr").search("a red car turns left")

Objects never change once written. A small manifest, uploaded last, names all that one state of a library consists of,
with sizes and hashes; the one with the highest number counts. Whatever ends a process, readers find one whole state.
"""

from prvr.objects.copies import Copy, described, fetched
from prvr.objects.manifest import Manifest, newest
from prvr.objects.reading import PublishedLibrary, open_published, published_problems
from prvr.objects.store import ObjectMissing, Store, StoreError, is_address, open_store
from prvr.objects.working import WorkingCopy, working_copy

__all__ = [
    "Copy",
    "Manifest",
    "ObjectMissing",
    "PublishedLibrary",
    "Store",
    "StoreError",
    "WorkingCopy",
    "described",
    "fetched",
    "is_address",
    "newest",
    "open_published",
    "open_store",
    "published_problems",
    "working_copy",
]
