"""Find the moment that ``--like VIDEO@12.5-18`` names."""

from __future__ import annotations

from prvr.library import Library, LibraryError, MomentQuery, Video, absolute_path, split_moment
from prvr.media import video_path


def moment_query(library: Library, text: str) -> MomentQuery:
    """A moment, or a whole video if no time is given. A video is named by its path, its file name or its number."""
    try:
        name, start, end = split_moment(text)
    except LibraryError:
        if not (videos := _videos_named(library, text)):
            raise
        video = _only_one(videos, text)
        return MomentQuery(video.id, 0.0, video.duration)
    videos = _videos_named(library, name)
    if not videos:
        raise LibraryError(f"{name} is not a video of {library.address}: `prvr library list` shows what is in it")
    return MomentQuery(_only_one(videos, name).id, start, end)


def _videos_named(library: Library, name: str) -> list[Video]:
    """The video with a path, or else those with a file name or number."""
    by_path = library.store.find(path=absolute_path(video_path(name)))
    return by_path or [video for video in library.videos("ok") if name in (video.name, str(video.id))]


def _only_one(videos: list[Video], name: str) -> Video:
    if len(videos) > 1:
        several = ", ".join(f"{video.id} ({video.path})" for video in videos[:5])
        raise LibraryError(f"{len(videos)} videos are named {name}: give a path or a number, {several}")
    return videos[0]
