"""Videos of people: read them, sample their frames, find their subtitles, encode frames and sentences."""

from prvr.media.errors import EncoderError, MediaError, MissingExtra
from prvr.media.frames import Fit, Frame, StreamInfo, VideoInfo
from prvr.media.reader import VideoReader, open_video
from prvr.media.subtitles import SubtitleTrack, TimedLine, subtitle_tracks

__all__ = [
    "EncoderError",
    "Fit",
    "Frame",
    "MediaError",
    "MissingExtra",
    "StreamInfo",
    "SubtitleTrack",
    "TimedLine",
    "VideoInfo",
    "VideoReader",
    "open_video",
    "subtitle_tracks",
]
