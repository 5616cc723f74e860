"""Find the moment in a video library that a sentence describes, and see why it is the right one."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("prvr")
except PackageNotFoundError:  # running from a source tree that was never installed
    __version__ = "0.0.0+source"
