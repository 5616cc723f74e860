"""Connect to a Ray cluster. Ray is an extra, and is imported when it is used."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prvr import __version__
from prvr.library import LibraryError, absolute_path
from prvr.media import MissingExtra

# Makes Ray use the loopback address. A cluster on this machine alone needs that, or Ray waits forever; one of several
# machines must not have it. Ray reads it when it is imported.
_LOOPBACK = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
_PATIENCE = 10.0  # seconds to connect to a cluster


class ClusterError(LibraryError):
    """The cluster cannot do what was asked. The message says what to do."""


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a cluster and yield the ``ray`` module. An existing connection is used, and stays open afterwards.

    Args:
        address: ``auto`` (the cluster that this machine belongs to), ``host:port``, or ``local`` (start a new one on
            this machine alone).
    """
    ray = _require_ray(address)
    if ray.is_initialized():
        yield ray
        return
    own = {"include_dashboard": False} if address == "local" else {}
    try:
        _require_listener(address)
        with _safe_folder(), _own_sigterm():
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **own)
    except (OSError, RuntimeError, ValueError) as problem:
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]
        raise ClusterError(
            f"no Ray cluster answers at {address} ({reason}): start one with `ray start --head`, give the host:port of "
            "a running one, or use --cluster local for this machine alone. If the cluster has a token, set "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN here too"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def address_for_nodes(lake: str) -> str:
    """The address of a lake as the processes of a cluster need it: they have another working folder."""
    return lake if "://" in lake else str(absolute_path(lake))


def require_same_version(command: str) -> None:
    """Refuse to work for a command of another version, which might not read what this one writes."""
    if command != __version__:
        raise ClusterError(
            f"node {socket.gethostname()} has prvr {__version__}, but the command was started by prvr {command}: "
            "install the same version on every node"
        )


def _require_ray(address: str) -> Any:
    """Import Ray, or raise an error that says how to install it."""
    if address == "local" or address.startswith(("127.", "localhost:", "[::1]:")):
        os.environ.setdefault(*_LOOPBACK)
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    warnings.filterwarnings("ignore", "lance is not fork-safe")  # Ray forks only to start other programs
    try:
        import ray
    except ImportError as problem:
        raise MissingExtra("Ray, which clusters need,", "scale", problem) from None
    return ray


@contextmanager
def _safe_folder() -> Iterator[None]:
    """Change to the folder of Python's own modules: Ray's workers can import from the folder that it is started in."""
    before = os.getcwd()
    os.chdir(os.path.dirname(os.__file__))
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep this process's answer to SIGTERM. Ray puts its own in its place, which ends a command with the status 15."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _require_listener(address: str) -> None:
    """Raise at once if nothing listens at an address. Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
