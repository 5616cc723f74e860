"""Ray, where it is needed and only there."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prvr import __version__
from prvr.library import LibraryError
from prvr.media.errors import MissingExtra

# With it, Ray takes the loopback address for its own: needed where a cluster is there (it waits for ever without), and
# wrong where nodes are several machines. Ray reads it when it is imported.
_LOOPBACK = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
_QUIET = {"RAY_DATA_DISABLE_PROGRESS_BARS": "1", "RAY_BACKEND_LOG_LEVEL": "fatal"}
_PATIENCE = 10.0  # seconds for a cluster to answer at all


class ClusterError(LibraryError):
    """A cluster that cannot be used as asked; the message says what to do."""


def require_ray(address: str = "auto") -> Any:
    """The module, or an error that says how to install it."""
    if address == "local" or address.startswith(("127.", "localhost:", "[::1]:")):
        os.environ.setdefault(*_LOOPBACK)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as problem:
        raise MissingExtra("Ray, which clusters need,", "cluster", problem) from None
    return ray


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to ``auto`` (the cluster of this machine), ``host:port``, or ``local`` (a new one, here alone).

    A connection that exists already is used, and left as it is.
    """
    ray = require_ray(address)
    if ray.is_initialized():
        yield ray
        return
    try:
        _knock(address)
        with _safe_folder():
            ray.init(
                address=address,
                namespace="prvr",
                logging_level=logging.ERROR,
                log_to_driver=False,
                **({"include_dashboard": False} if address == "local" else {}),
            )
    except (OSError, RuntimeError, ValueError) as problem:
        raise ClusterError(
            f"no Ray cluster answers at {address} ({first_line(problem)}): start one with `ray start --head`, give "
            "host:port of one that runs, or --cluster local for this machine alone; one that has a token wants "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN in the environment here too"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _safe_folder() -> Iterator[None]:
    """Work in the folder of Python's own modules: Ray lets its workers import from the folder it is started in."""
    before = os.getcwd()
    os.chdir(os.path.dirname(os.__file__))
    try:
        yield
    finally:
        os.chdir(before)


def _knock(address: str) -> None:
    """Ray waits minutes for a machine that is not there: see first whether anybody listens."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()


def same_version(driver: str) -> None:
    """Refuse to work for a driver of another version: what one writes, the other must read."""
    if driver != __version__:
        raise ClusterError(
            f"a node of the cluster has prvr {__version__}, but the command that started this is prvr {driver}: "
            "install the same version on every node"
        )


def causes(problem: BaseException) -> list[BaseException]:
    """A problem and what is behind it, out of what Ray wraps around it: the outermost first."""
    found: list[BaseException] = []
    waiting: list[Any] = [problem]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, BaseException) and each not in found:
            found.append(each)
            waiting += [getattr(each, "cause", None), each.__cause__, each.__context__]
    return found


def last_line(problem: BaseException) -> str:
    """The end of a report from a node: what went wrong there."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[-1].strip()[:300]


def first_line(problem: BaseException) -> str:
    """What went wrong, in short."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]
