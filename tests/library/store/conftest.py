"""The files of a library in a folder."""

from __future__ import annotations

import pytest

from prvr.library import Library


@pytest.fixture
def library(in_folder: Library) -> Library:
    return in_folder
