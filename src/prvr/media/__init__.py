"""Video files to frames, subtitles and feature vectors.

A video is opened, sampled at a steady rate and encoded. Frames and sentences become unit vectors of one space, so that
their products say how well they match:

>>> import tempfile
>>> import numpy as np
>>> from prvr.media import open_encoder, open_video, video_features, write_video
>>> red, blue = np.zeros((2, 48, 64, 3), np.uint8)
>>> red[..., 0], blue[..., 2] = 220, 220
>>> film = write_video(tempfile.mkdtemp() + "/film.mp4", [red] * 4 + [blue] * 4, fps=2)  # 2 s red, 2 s blue

>>> with open_video(film) as video:  # MediaError where the file is not a video
...     print(video.info.duration, [frame.time for frame in video.frames(rate=1.0)])
4.0 [0.0, 1.0, 2.0, 3.0]

>>> encoder = open_encoder("plain")  # no weights; "siglip2" and others after `prvr prepare siglip2`
>>> features = video_features(film, encoder, rate=1.0)
>>> query = encoder.encode_texts(["something blue"])[0]
>>> [f"{match:.1f}" for match in features.vectors @ query]  # second by second
['0.0', '0.0', '0.6', '0.6']

``features.recipe`` says how the vectors were made. Features of two recipes cannot be compared: ``Recipe.require``
refuses them. ``subtitle_tracks`` reads the text that goes with a video; ``cut_clip`` writes a part of it to a file,
``export_moments`` several parts of several videos.

Decoders and models are imported when they are first used. Where one is not installed, ``MissingExtra`` names the
command that installs it.
"""

from typing import TYPE_CHECKING

from prvr.doors import lazy_door

if TYPE_CHECKING:
    from prvr.errors import MissingExtra
    from prvr.media.annotated import AnnotatedVideos, match_captions
    from prvr.media.bucket_files import FileStatus
    from prvr.media.buckets import BucketPath, VideoFile, is_gone, video_path
    from prvr.media.checked import ONLY_BELOW, ExpectedFile, FileChanged, open_checked, open_place
    from prvr.media.clips import CLIP_PROGRAM, cut_clip
    from prvr.media.dataset import ExtractionResult, TextFeatures, add_features, require_new_features, write_dataset
    from prvr.media.decoder_start import drop_early_decoders, start_decoders_early
    from prvr.media.decoding import decode_videos, decodes_in_processes
    from prvr.media.encoders import (
        SHORT_NAMES,
        Array,
        Encoder,
        EncoderPreset,
        PlainEncoder,
        TextEncoder,
        Understanding,
        WindowEncoder,
        find_preset,
        open_encoder,
        open_text_encoder,
        open_window_encoder,
        open_word_encoder,
        picture_engine,
        prepared_encoders,
        presets,
        unit_rows,
    )
    from prvr.media.encoders.choice import (
        ENGINE_SETTING,
        EngineChoice,
        EngineName,
        least_cosine,
        openvino_installed,
        processor_engines,
        remembered_choices,
        required_cosine,
    )
    from prvr.media.encoders.downloads import DownloadPlan, download, plan_download
    from prvr.media.encoders.hashes import file_hash, require_unchanged
    from prvr.media.encoders.operation_times import operation_times
    from prvr.media.encoders.weights import cached_models, find_model, hub_cache, model_folder, weights_hash
    from prvr.media.errors import EncoderError, MediaError, StorageError
    from prvr.media.export.formats import EXPORT_SUFFIXES, ExportFormat, ExportReport, export_moments
    from prvr.media.export.moments import ExportError, ExportMoment, parse_moments
    from prvr.media.features import (
        EncodedVideo,
        FeaturePart,
        VideoFeatures,
        encode_videos,
        feature_parts,
        video_features,
    )
    from prvr.media.frame_batches import DecodedFile, FrameBatch, Sampling
    from prvr.media.frames import USUAL_RATE, Fit, Frame, Image, StreamInfo, VideoInfo
    from prvr.media.kept_features import Extraction
    from prvr.media.packages import require_hub, require_onnx, require_onnxruntime, require_transformers
    from prvr.media.pictures import PICTURE_PROGRAM, decode_picture, load_picture, picture_bytes, save_picture
    from prvr.media.reader import Backend, VideoReader, decoder_name, longest_decoding, open_video
    from prvr.media.recipe import Recipe, RecipeMismatch
    from prvr.media.repeats import USUAL_REPEATS, RepeatFilter, spread
    from prvr.media.speech import SPEECH_MODELS, Sound, Speech, Transcriber, open_transcriber
    from prvr.media.subtitles import (
        SUBTITLE_SUFFIXES,
        SubtitleTrack,
        TimedLine,
        read_subtitles,
        subtitle_files,
        subtitle_tracks,
    )
    from prvr.media.thumbnails import THUMBNAIL_PROGRAM, thumbnail
    from prvr.media.windows import window_features
    from prvr.media.writer import write_video
else:
    __getattr__, __dir__ = lazy_door(__name__)

__all__ = [
    "CLIP_PROGRAM",
    "ENGINE_SETTING",
    "EXPORT_SUFFIXES",
    "ONLY_BELOW",
    "PICTURE_PROGRAM",
    "SHORT_NAMES",
    "SPEECH_MODELS",
    "SUBTITLE_SUFFIXES",
    "THUMBNAIL_PROGRAM",
    "USUAL_RATE",
    "USUAL_REPEATS",
    "AnnotatedVideos",
    "Array",
    "Backend",
    "BucketPath",
    "DecodedFile",
    "DownloadPlan",
    "EncodedVideo",
    "Encoder",
    "EncoderError",
    "EncoderPreset",
    "EngineChoice",
    "EngineName",
    "ExpectedFile",
    "ExportError",
    "ExportFormat",
    "ExportMoment",
    "ExportReport",
    "Extraction",
    "ExtractionResult",
    "FeaturePart",
    "FileChanged",
    "FileStatus",
    "Fit",
    "Frame",
    "FrameBatch",
    "Image",
    "MediaError",
    "MissingExtra",
    "PlainEncoder",
    "Recipe",
    "RecipeMismatch",
    "RepeatFilter",
    "Sampling",
    "Sound",
    "Speech",
    "StorageError",
    "StreamInfo",
    "SubtitleTrack",
    "TextEncoder",
    "TextFeatures",
    "TimedLine",
    "Transcriber",
    "Understanding",
    "VideoFeatures",
    "VideoFile",
    "VideoInfo",
    "VideoReader",
    "WindowEncoder",
    "add_features",
    "cached_models",
    "cut_clip",
    "decode_picture",
    "decode_videos",
    "decoder_name",
    "decodes_in_processes",
    "download",
    "drop_early_decoders",
    "encode_videos",
    "export_moments",
    "feature_parts",
    "file_hash",
    "find_model",
    "find_preset",
    "hub_cache",
    "is_gone",
    "least_cosine",
    "load_picture",
    "longest_decoding",
    "match_captions",
    "model_folder",
    "open_checked",
    "open_encoder",
    "open_place",
    "open_text_encoder",
    "open_transcriber",
    "open_video",
    "open_window_encoder",
    "open_word_encoder",
    "openvino_installed",
    "operation_times",
    "parse_moments",
    "picture_bytes",
    "picture_engine",
    "plan_download",
    "prepared_encoders",
    "presets",
    "processor_engines",
    "read_subtitles",
    "remembered_choices",
    "require_hub",
    "require_new_features",
    "require_onnx",
    "require_onnxruntime",
    "require_transformers",
    "require_unchanged",
    "required_cosine",
    "save_picture",
    "spread",
    "start_decoders_early",
    "subtitle_files",
    "subtitle_tracks",
    "thumbnail",
    "unit_rows",
    "video_features",
    "video_path",
    "weights_hash",
    "window_features",
    "write_dataset",
    "write_video",
]
