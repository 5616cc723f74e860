"""A person's videos on one machine: index them, then find moments by sentence or picture, with evidence.

    from prvr.library import Library

    library = Library.create("films.prvr", encoder="siglip2")
    library.add(["holiday/"])
    for hit in library.search("a red car turns left"):
        print(hit.video.path, hit.start, hit.end, hit.confidence)

``Library`` is the façade. Behind it are three folders: ``store/`` keeps videos and vectors on disk, ``ingest/`` turns
files into vectors, ``search/`` turns a query into hits.
"""

from typing import TYPE_CHECKING

from prvr.doors import lazy_door

if TYPE_CHECKING:
    from prvr.library.activity import ActivityKind, ActivityState, LibraryActivity
    from prvr.library.copying import copy_videos
    from prvr.library.errors import DamagedVectors, LibraryError, NoCandidates
    from prvr.library.folder import FolderStore
    from prvr.library.ingest.add import Adder, start_decoders
    from prvr.library.ingest.choice import PLAIN_LIMITS, default_encoder, library_limits, usual_encoder
    from prvr.library.ingest.files import VIDEO_SUFFIXES, SourceFile, absolute_path, find_videos
    from prvr.library.ingest.frozen import FrozenEmbedding
    from prvr.library.ingest.index import index_file, new_video
    from prvr.library.ingest.progress import AddProgress, AddReport, ProgressClock
    from prvr.library.ingest.sentences import BACKGROUND_SENTENCES
    from prvr.library.ingest.setup import EncoderOverrides, plan_library
    from prvr.library.ingest.tracks import FRAMES, PAGE_TOKENS, TEXT, Piece, Track
    from prvr.library.library import Library
    from prvr.library.reindex import ReindexReport
    from prvr.library.repair import RepairReport
    from prvr.library.search.candidate_build import CandidateRecall, choose_probes, measure_recall
    from prvr.library.search.candidates import (
        FEWEST_TOKENS,
        INDEX_FOLDER,
        CandidateIndex,
        IndexSettings,
        most_tokens,
        reference_videos,
    )
    from prvr.library.search.confidence import Presence, PresenceWord, Standing
    from prvr.library.search.explain import MomentEvidence
    from prvr.library.search.filters import Filters
    from prvr.library.search.judge import Judgement, KnownQuery, judge, rendered_queries
    from prvr.library.search.moments import FoundMoment, MomentOptions
    from prvr.library.search.one_video import VideoExplanation
    from prvr.library.search.request import GroupBy, MomentQuery, QueryInput, SearchRequest, split_moment
    from prvr.library.search.results import SCORES_NOTE, Hit, SearchResult
    from prvr.library.search.score import score_sections
    from prvr.library.search.stretches import (
        STRETCHES,
        build_stretch_index,
        first_videos,
        is_lance_error,
        nearest_rows,
        require_lance,
        rows_to_ask,
        stretch_column,
        stretch_type,
    )
    from prvr.library.search.words import WORDS, TextMatch, find_words
    from prvr.library.store.arrays import Section
    from prvr.library.store.background import Background
    from prvr.library.store.blocks import BlockRows, Ids, SectionBlock
    from prvr.library.store.buffer import IndexedVideo, SectionBuffer
    from prvr.library.store.catalogue import NewVideo, Video
    from prvr.library.store.claims import HeldClaim
    from prvr.library.store.commit import Committer
    from prvr.library.store.listing import (
        MOST_FOLDERS,
        ORDER_COLUMNS,
        LibrarySummary,
        ListRequest,
        VideoList,
        VideoOrder,
        distinct_paths,
        path_range,
    )
    from prvr.library.store.model import model_problem
    from prvr.library.store.rebuild import Rebuild
    from prvr.library.store.rows import PAGED_ARRAYS
    from prvr.library.store.sections import TrackSections
    from prvr.library.store.settings import (
        RECORD_FILE,
        LibraryRecord,
        LibrarySettings,
        parse_record,
        read_record,
        require_empty,
        write_record,
    )
    from prvr.library.store.snapshot import QueryProjection, Snapshot, other_copies
    from prvr.library.store.verify import LibraryStatus, Verification
    from prvr.library.store.words import ScratchWords
    from prvr.library.stores import Store
    from prvr.library.watch import FolderWatcher, WatchEvent, WatchOptions
    from prvr.library.watch_folder import watched_folders
else:
    __getattr__, __dir__ = lazy_door(__name__)

__all__ = [
    "BACKGROUND_SENTENCES",
    "FEWEST_TOKENS",
    "FRAMES",
    "INDEX_FOLDER",
    "MOST_FOLDERS",
    "ORDER_COLUMNS",
    "PAGED_ARRAYS",
    "PAGE_TOKENS",
    "PLAIN_LIMITS",
    "RECORD_FILE",
    "SCORES_NOTE",
    "STRETCHES",
    "TEXT",
    "VIDEO_SUFFIXES",
    "WORDS",
    "ActivityKind",
    "ActivityState",
    "AddProgress",
    "AddReport",
    "Adder",
    "Background",
    "BlockRows",
    "CandidateIndex",
    "CandidateRecall",
    "Committer",
    "DamagedVectors",
    "EncoderOverrides",
    "Filters",
    "FolderStore",
    "FolderWatcher",
    "FoundMoment",
    "FrozenEmbedding",
    "GroupBy",
    "HeldClaim",
    "Hit",
    "Ids",
    "IndexSettings",
    "IndexedVideo",
    "Judgement",
    "KnownQuery",
    "Library",
    "LibraryActivity",
    "LibraryError",
    "LibraryRecord",
    "LibrarySettings",
    "LibraryStatus",
    "LibrarySummary",
    "ListRequest",
    "MomentEvidence",
    "MomentOptions",
    "MomentQuery",
    "NewVideo",
    "NoCandidates",
    "Piece",
    "Presence",
    "PresenceWord",
    "ProgressClock",
    "QueryInput",
    "QueryProjection",
    "Rebuild",
    "ReindexReport",
    "RepairReport",
    "ScratchWords",
    "SearchRequest",
    "SearchResult",
    "Section",
    "SectionBlock",
    "SectionBuffer",
    "Snapshot",
    "SourceFile",
    "Standing",
    "Store",
    "TextMatch",
    "Track",
    "TrackSections",
    "Verification",
    "Video",
    "VideoExplanation",
    "VideoList",
    "VideoOrder",
    "WatchEvent",
    "WatchOptions",
    "absolute_path",
    "build_stretch_index",
    "choose_probes",
    "copy_videos",
    "default_encoder",
    "distinct_paths",
    "find_videos",
    "find_words",
    "first_videos",
    "index_file",
    "is_lance_error",
    "judge",
    "library_limits",
    "measure_recall",
    "model_problem",
    "most_tokens",
    "nearest_rows",
    "new_video",
    "other_copies",
    "parse_record",
    "path_range",
    "plan_library",
    "read_record",
    "reference_videos",
    "rendered_queries",
    "require_empty",
    "require_lance",
    "rows_to_ask",
    "score_sections",
    "split_moment",
    "start_decoders",
    "stretch_column",
    "stretch_type",
    "usual_encoder",
    "watched_folders",
    "write_record",
]
