"""The tools that an assistant can call. Their docstrings are what it reads to choose one.

Videos are decoded in separate processes, so that a file that crashes the decoder does not end the conversation.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Image
from mcp.types import CallToolResult, ResourceLink, TextContent
from pydantic import Field

from prvr.assistant.answers import (
    MAX_OFFSET,
    ClipAnswer,
    EvidenceAnswer,
    LibraryOverview,
    SearchAnswer,
    VideoEntry,
    VideoListing,
)
from prvr.assistant.clip_folder import ClipFolder
from prvr.library import (
    Filters,
    Library,
    LibraryError,
    ListRequest,
    MomentQuery,
    Video,
    VideoList,
    absolute_path,
    library_limits,
)
from prvr.media import CLIP_PROGRAM, THUMBNAIL_PROGRAM, ExpectedFile
from prvr.server import DecoderProcess

CLIP_ADDRESS = "prvr-clip://{name}"
_MOST_PICTURES = 8
_EVERY = 2**31 - 1  # videos of a list
_LONGEST_SIDE = 1920  # pixels of a clip

QueryArgument = Annotated[
    str, Field(min_length=1, max_length=500, description="a sentence, as one would describe the picture to somebody")
]
VideoArgument = Annotated[int, Field(description="number of the video, from search or list_videos")]
TimeArgument = Annotated[float, Field(ge=0, le=1e7, description="seconds from the beginning of the video")]
FolderArgument = Annotated[str | None, Field(description="only videos in this folder and below: an absolute path")]
OffsetArgument = Annotated[int, Field(ge=0, le=MAX_OFFSET, description="`next_offset` of the previous answer")]
ListOffsetArgument = Annotated[int, Field(ge=0, lt=10**9, description="`next_offset` of the previous answer")]


class LibraryTools:
    """The tools of one library."""

    def __init__(self, library: Library, clips: ClipFolder, longest_clip: float):
        self.library, self.clips, self.longest_clip = library, clips, longest_clip
        self._looker = DecoderProcess(THUMBNAIL_PROGRAM, patience=20.0, longest=20.0)
        self._cutter = DecoderProcess(CLIP_PROGRAM, patience=45.0, longest=1800.0)
        self._turn = asyncio.Lock()

    def search(
        self,
        query: QueryArgument,
        limit: Annotated[int, Field(ge=1, le=50, description="number of hits")] = 10,
        offset: OffsetArgument = 0,
        group_by: Annotated[
            Literal["video", "moment"], Field(description="one hit per video, or one per moment")
        ] = "video",
        folder: FolderArgument = None,
        tags: Annotated[list[str] | None, Field(description="only videos with all of these tags")] = None,
        after: Annotated[str | None, Field(description="only files changed on this day or later: 2024-05-31")] = None,
        before: Annotated[str | None, Field(description="only files changed before this day")] = None,
        min_duration: Annotated[float | None, Field(ge=0, description="seconds, at least")] = None,
        max_duration: Annotated[float | None, Field(ge=0, description="seconds, at most")] = None,
    ) -> SearchAnswer:
        """Find the moments in the person's videos that a sentence describes.

        Looks at the pictures, and for the words also in subtitles, file names, folders and tags. Returns the best
        moments with the number and path of the video and the time in seconds. There are always hits: `message` and
        `sure` say whether what was asked for is there at all. Describe what can be seen, in one sentence; try other
        words if nothing stands out.
        """
        filters = Filters(
            folder=None if folder is None else absolute_path(folder),
            after=after,
            before=before,
            min_duration=min_duration,
            max_duration=max_duration,
            tags=tuple(tags or ()),
        )
        return SearchAnswer.of(
            self.library.search(query, limit=limit, offset=offset, group_by=group_by, filters=filters)
        )

    def list_videos(
        self,
        folder: FolderArgument = None,
        tag: Annotated[str | None, Field(description="only videos with this tag")] = None,
        name: Annotated[str | None, Field(description="only files whose path contains this text")] = None,
        state: Annotated[Literal["ok", "failed"] | None, Field(description="only videos in this state")] = None,
        limit: Annotated[int, Field(ge=1, le=200, description="number of videos")] = 50,
        offset: ListOffsetArgument = 0,
    ) -> VideoListing:
        """List the videos of the library, the newest first: number, path, length, date and tags."""
        inside = None if folder is None else absolute_path(folder)
        asked = ListRequest(state, inside, tag, order="newest", offset=offset, limit=limit)
        found = self.library.listing(asked) if name is None else self._named(name, asked)
        more = offset + limit if offset + limit < found.total else None
        return VideoListing(
            total=found.total, videos=[VideoEntry.of(video) for video in found.videos], next_offset=more
        )

    def _named(self, name: str, asked: ListRequest) -> VideoList:
        """A part of the list of videos whose paths contain a text. Reads the whole list."""
        every = self.library.listing(replace(asked, offset=0, limit=_EVERY)).videos
        chosen = [video for video in every if name.casefold() in str(video.path).casefold()]
        return VideoList(chosen[asked.offset : asked.offset + asked.limit], len(chosen))

    def explain(self, query: QueryArgument, video: VideoArgument) -> EvidenceAnswer:
        """Show why a video answers a sentence: the matching moments, the reason in words, and the evidence over time.

        Use it to check a hit of `search`, or to find a moment inside a video that the person named.
        """
        return EvidenceAnswer.of(self._video(video), self.library.explain(query, video))

    def more_like_this(
        self,
        video: VideoArgument,
        start: TimeArgument,
        end: Annotated[TimeArgument | None, Field(description="seconds; without it, the picture at `start`")] = None,
        limit: Annotated[int, Field(ge=1, le=50, description="number of hits")] = 10,
        offset: OffsetArgument = 0,
    ) -> SearchAnswer:
        """Find moments of other videos that look like a moment of a video. The video itself is left out."""
        moment = MomentQuery(self._video(video).id, start, end)
        return SearchAnswer.of(self.library.search(moment, limit=limit, offset=offset))

    async def pictures(
        self,
        video: VideoArgument,
        times: Annotated[
            list[TimeArgument],
            Field(min_length=1, max_length=_MOST_PICTURES, description=f"at most {_MOST_PICTURES} times, in seconds"),
        ],
        width: Annotated[int, Field(ge=64, le=1280, description="greatest width in pixels")] = 512,
    ) -> list[Image]:
        """Look at a video at the given times. Returns one picture for each time, in this order."""
        found = await asyncio.to_thread(self._video, video)
        last, shown = max(0.0, (found.duration or 0.0) - 0.05), []
        for time in times:
            place = {"path": str(found.path), "expected": ExpectedFile(found.size, found.mtime)}
            request = {**place, "time": min(time, last), "width": width}
            shown.append(Image(data=await self._ask(self._looker, found, request), format="jpeg"))
        return shown

    async def clip(
        self,
        video: VideoArgument,
        start: TimeArgument,
        end: TimeArgument,
        margin: Annotated[float, Field(ge=0, le=60, description="seconds to add on both sides")] = 0.0,
    ) -> Annotated[CallToolResult, ClipAnswer]:
        """Cut a part of a video into an .mp4 file of its own, and return its path. The video itself is not changed."""
        found = await asyncio.to_thread(self._video, video)
        first, last = self._stretch(found, start, end, margin)
        self.clips.make()
        name = f"{_plain_name(found.path.stem)}-{found.id}-{first:.2f}-{last:.2f}.mp4"
        path, uri = self.clips.path / name, CLIP_ADDRESS.format(name=name)
        moment = {"video": str(found.path), "start": first, "end": last}
        what = {"moments": [moment], "expected": {str(found.path): ExpectedFile(found.size, found.mtime)}}
        request = {**what, "format": "clip", "out": str(path), "longest_side": _LONGEST_SIDE}
        await self._ask(self._cutter, found, request)
        size = path.stat().st_size
        self.clips.bound(path)
        answer = ClipAnswer(path=str(path), uri=uri, video=video, start=round(first, 2), end=round(last, 2), bytes=size)
        link = ResourceLink(type="resource_link", name=name, uri=uri, mime_type="video/mp4", size=size)
        text = TextContent(type="text", text=answer.model_dump_json())
        return CallToolResult(content=[text, link], structured_content=answer.model_dump(mode="json"))

    def _stretch(self, video: Video, start: float, end: float, margin: float) -> tuple[float, float]:
        """Where a clip begins and ends, or why it cannot be cut."""
        if end <= start:
            raise LibraryError(f"The clip would end at {end:g} s, before it starts at {start:g} s: exchange the times.")
        length = video.duration
        if length is not None and start >= length:
            raise LibraryError(f"The video is only {length:.1f} s long: choose a start inside it.")
        first, last = max(0.0, start - margin), end + margin if length is None else min(end + margin, length)
        if last - first > self.longest_clip:
            raise LibraryError(
                f"A clip of {last - first:.0f} s is too long: ask for {self.longest_clip:g} s or less, with margins."
            )
        return first, last

    async def _ask(self, decoder: DecoderProcess, video: Video, request: dict[str, Any]) -> bytes:
        """Let a decoder do something with a video."""
        async with self._turn:  # one at a time, so that searches are not slowed down
            answer, content = await decoder.ask(request)
        if "problem" in answer:
            raise LibraryError(f"{video.path}: {answer['problem']}.")
        return content

    async def close(self) -> None:
        """Stop the decoders."""
        await self._looker.close()
        await self._cutter.close()

    def overview(self) -> LibraryOverview:
        """Say what the library holds: number and length of videos, tags, encoder, and what is being indexed now."""
        status = self.library.status()
        return LibraryOverview(
            library=self.library.address,
            videos=status.videos,
            failed=status.failed,
            hours=round(status.seconds / 3600, 2),
            subtitle_lines=status.lines,
            encoder=self.library.settings.encoder,
            limits=library_limits(self.library.record),
            tags=list(self.library.summary().tags),
            activity=[activity.describe() for activity in self.library.activities()],
        )

    def read_clip(self, name: str) -> bytes:
        """A clip that was cut here."""
        path = self.clips.path / name
        if path.parent != self.clips.path or path.suffix != ".mp4" or not path.is_file():
            raise LibraryError(f"There is no clip {name!r}: cut it again.")
        return path.read_bytes()

    def _video(self, number: int) -> Video:
        video = self.library.snapshot().videos.get(number)
        if video is None:
            raise LibraryError(f"There is no video {number} that can be searched: `list_videos` tells their numbers.")
        return video


def _plain_name(stem: str) -> str:
    """A name that is also part of an address.

    >>> _plain_name("a film: 1/2 (ü)")
    'a-film-1-2'
    """
    return re.sub(r"[^A-Za-z0-9_]+", "-", stem).strip("-")[:60] or "clip"
