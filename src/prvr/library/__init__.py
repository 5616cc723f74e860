"""A person's videos on one machine: index them, then find moments by sentence or picture, with evidence.

    from prvr.library import Library

    library = Library.create("films.prvr")
    library.add(["holiday/"])
    for hit in library.search("a red car turns left"):
        print(hit.video.path, hit.start, hit.end, hit.confidence)

``Library`` is the façade. Behind it are three folders: ``store/`` keeps videos and vectors on disk, ``ingest/`` turns
files into vectors, ``search/`` turns a query into hits.
"""

from prvr.library.errors import LibraryError, NoCandidates
from prvr.library.ingest.add import Adder, AddProgress, AddReport
from prvr.library.ingest.embedding import Embedded, Embedding
from prvr.library.ingest.files import VIDEO_SUFFIXES, Fingerprint, SourceFile, absolute_path, find_videos
from prvr.library.ingest.frozen import FrozenEmbedding
from prvr.library.ingest.index import FILE_PROBLEMS, failure_reason, index_parts, new_video
from prvr.library.ingest.tracks import FRAMES, PAGE_TOKENS, TEXT, Piece, Track
from prvr.library.library import Library
from prvr.library.search.candidate_build import CandidateRecall
from prvr.library.search.candidates import FEWEST_TOKENS, INDEX_FOLDER, CandidateIndex, IndexSettings
from prvr.library.search.confidence import CONFIDENT
from prvr.library.search.explain import MomentEvidence, VideoExplanation
from prvr.library.search.filters import Filters
from prvr.library.search.judge import Judgement, KnownQuery, judge, rendered_queries
from prvr.library.search.moments import FoundMoment, MomentOptions
from prvr.library.search.query import TrackQuery
from prvr.library.search.request import GroupBy, QueryInput, SearchRequest
from prvr.library.search.results import SCORES_NOTE, Hit, Missing, SearchResult
from prvr.library.search.score import score_queries
from prvr.library.store.arrays import SHARDS_FOLDER, Section, read_shards
from prvr.library.store.buffer import IndexedVideo, SectionBuffer
from prvr.library.store.catalogue import CATALOGUE_FILE, Catalogue, NewVideo, Video, read_generation
from prvr.library.store.claims import Claim, claim
from prvr.library.store.commit import commit_videos, disk_error
from prvr.library.store.edit import free_space
from prvr.library.store.sections import Ids, MappedShard, SectionsByVideo, TrackSections
from prvr.library.store.settings import RECORD_FILE, LibraryRecord, LibrarySettings, read_record, write_record
from prvr.library.store.snapshot import Snapshot
from prvr.library.store.verify import LibraryStatus, Verification

__all__ = [
    "CATALOGUE_FILE",
    "CONFIDENT",
    "FEWEST_TOKENS",
    "FILE_PROBLEMS",
    "FRAMES",
    "INDEX_FOLDER",
    "PAGE_TOKENS",
    "RECORD_FILE",
    "SCORES_NOTE",
    "SHARDS_FOLDER",
    "TEXT",
    "VIDEO_SUFFIXES",
    "AddProgress",
    "AddReport",
    "Adder",
    "CandidateIndex",
    "CandidateRecall",
    "Catalogue",
    "Claim",
    "Embedded",
    "Embedding",
    "Filters",
    "Fingerprint",
    "FoundMoment",
    "FrozenEmbedding",
    "GroupBy",
    "Hit",
    "Ids",
    "IndexSettings",
    "IndexedVideo",
    "Judgement",
    "KnownQuery",
    "Library",
    "LibraryError",
    "LibraryRecord",
    "LibrarySettings",
    "LibraryStatus",
    "MappedShard",
    "Missing",
    "MomentEvidence",
    "MomentOptions",
    "NewVideo",
    "NoCandidates",
    "Piece",
    "QueryInput",
    "SearchRequest",
    "SearchResult",
    "Section",
    "SectionBuffer",
    "SectionsByVideo",
    "Snapshot",
    "SourceFile",
    "Track",
    "TrackQuery",
    "TrackSections",
    "Verification",
    "Video",
    "VideoExplanation",
    "absolute_path",
    "claim",
    "commit_videos",
    "disk_error",
    "failure_reason",
    "find_videos",
    "free_space",
    "index_parts",
    "judge",
    "new_video",
    "read_generation",
    "read_record",
    "read_shards",
    "rendered_queries",
    "score_queries",
    "write_record",
]
