"""Libraries on object storage: published as immutable objects, changed and searched in a local copy.

    with working_copy("s3://bucket/films.prvr") as copy:
        copy.open_or_create(encoder="plain").add(["archive/"])
    open_published("s3://bucket/films.prvr").search("a red car turns left")

Objects never change once written. A small manifest, uploaded last, lists all objects of one state of a library, with
sizes and hashes; the manifest with the highest number counts. However a process ends, readers find a complete state.
"""

from prvr.objects.copies import Copy, fetch_copy, fetch_description
from prvr.objects.manifest import Manifest, newest_manifest
from prvr.objects.reader import PublishedLibrary, open_published, published_problems
from prvr.objects.store import ObjectMissing, Store, StoreError, is_address, open_object_store
from prvr.objects.writer import WorkingCopy, working_copy

__all__ = [
    "Copy",
    "Manifest",
    "ObjectMissing",
    "PublishedLibrary",
    "Store",
    "StoreError",
    "WorkingCopy",
    "fetch_copy",
    "fetch_description",
    "is_address",
    "newest_manifest",
    "open_object_store",
    "open_published",
    "published_problems",
    "working_copy",
]
