"""What a library in a folder promises about adding, on a real S3 server: the same tests (see ``tests/library``)."""

from __future__ import annotations

import pytest

from prvr.lake import create_library
from prvr.library import Library, LibrarySettings
from tests.library.conftest import RATE, own  # noqa: F401
from tests.library.ingest.test_add import (  # noqa: F401
    test_a_good_file_that_goes_bad_leaves_the_search,
    test_a_moved_file_keeps_its_number_tags_and_vectors,
    test_a_touched_file_is_recognised_and_a_changed_one_is_indexed_anew,
    test_adding_again_does_nothing,
    test_pipes_and_names_that_are_no_text_are_listed_and_the_rest_is_added,
    test_removal_frees_space_and_leaves_the_rest_as_it_was,
    test_videos_whose_files_are_gone_are_reported_and_can_be_removed,
    test_what_cannot_be_read_is_listed_with_a_reason_and_retried_on_request,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def library(bucket: str) -> Library:
    return create_library(f"{bucket}/films", LibrarySettings("plain", rate=RATE))
