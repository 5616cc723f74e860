"""Find the moment in a video library that a sentence describes, and see why it is the right one."""

__version__: str


def __getattr__(name: str) -> str:
    """``__version__``, which takes as long to find as a small library takes to search."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    global __version__
    try:
        __version__ = version("prvr")
    except PackageNotFoundError:  # running from a source tree that was never installed
        __version__ = "0.0.0+source"
    return __version__
