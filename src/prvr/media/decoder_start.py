"""Start the processes that decode videos, quickly where the system allows it.

On Linux, one process (``fork_server``) imports what decoders need, and they are its forks. Where pictures are scaled by
torch, importing takes seconds and hundreds of megabytes: forks share both. On other systems, and if that process cannot
be started or has ended, each decoder is a Python program of its own (``decode_server``).

``start_decoders_early`` starts that process before it is known what is decoded, while this one loads an encoder.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from prvr.media.frame_batches import Sampling
from prvr.processes import python_command

FORKS = sys.platform == "linux"  # whether decoders may be forks
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # of numpy and torch: each has its own core
_IMPORTING = 120.0  # seconds that the fork server may take until it forks
_ENDING = 5.0  # seconds that a process may take to end
_early: list[DecoderStarter] = []  # at most one, which nobody has taken yet
_taking = threading.Lock()


def start_decoders_early(*, needs_torch: bool) -> None:
    """Start the process that decoders are forks of, for those who decode next. Nothing where there is none.

    Args:
        needs_torch: as ``Sampling.needs_torch`` will be.
    """
    if not FORKS:
        return
    with _taking:
        if not _early:
            _early.append(DecoderStarter("pyav", needs_torch=needs_torch))


def take_starter(how: Sampling) -> DecoderStarter:
    """What was started early, where it fits; else a new one."""
    with _taking:
        early = _early.pop() if _early else None
    if early is not None:
        if (early.decoder, early.needs_torch) == (how.decoder, how.needs_torch):
            return early
        early.close()
    return DecoderStarter(how.decoder, needs_torch=how.needs_torch)


def drop_early_decoders() -> None:
    """End what was started early, if nobody has taken it."""
    with _taking:
        while _early:
            _early.pop().close()


atexit.register(drop_early_decoders)


class DecoderStarter:
    """Starts decoders for one kind of samples. Any thread may call it."""

    def __init__(self, decoder: str, *, needs_torch: bool):
        self.decoder, self.needs_torch = decoder, needs_torch
        self._server: subprocess.Popen[bytes] | None = None
        self._has_forked = self._closed = False
        self._process = os.getpid()
        if FORKS and decoder == "pyav":  # what other decoders load may not survive a fork
            with suppress(OSError):  # no memory, or too many processes or open files
                self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with other:
                    words = [str(other.fileno()), *(["torch"] if needs_torch else [])]
                    self._server = _start_program("prvr.media.fork_server", *words, handles=[other.fileno()])

    def start(self, handles: Sequence[int]) -> tuple[subprocess.Popen[bytes] | ForkedDecoder, Sequence[int]]:
        """A new decoder, to which these open files are handed over, and the numbers which they have there.

        Raises:
            OSError: there is no memory, or there are too many processes.
        """
        if self._server is not None:
            with suppress(OSError):
                decoder = ForkedDecoder(self._control, handles)
                self._has_forked = True
                return decoder, decoder.handles
        if self._closed:
            raise OSError("no decoder is wanted any more")
        return _start_program("prvr.media.decode_server", handles=handles, pipe=subprocess.PIPE), handles

    def close(self) -> None:
        """End the fork server, and the decoders that it has forked. In a fork of its process: nothing."""
        self._closed = True
        if self._server is None or self._process != os.getpid():
            return
        if not self._has_forked:  # it may still be importing
            self._server.kill()
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._server.wait(_ENDING)
        except subprocess.TimeoutExpired:  # somebody has stopped it
            self._server.kill()
            self._server.wait()
        self._control.close()


class ForkedDecoder:
    """A fork of the fork server: what is needed here of ``subprocess.Popen``, of which it is not a child."""

    def __init__(self, control: socket.socket, handles: Sequence[int]):
        self._lock, self._pidfd, self._status = threading.Lock(), -1, -int(signal.SIGKILL)
        with ExitStack() as ours:  # which are closed if something goes wrong
            with ExitStack() as theirs:
                requests, stdin = os.pipe()
                theirs.callback(os.close, requests)
                self.stdin = ours.enter_context(open(stdin, "wb"))
                stdout, answers = os.pipe()
                theirs.callback(os.close, answers)
                self.stdout = ours.enter_context(open(stdout, "rb"))
                self._report, report = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                ours.enter_context(self._report), theirs.enter_context(report)
                sent = [requests, answers, report.fileno(), *handles]
                socket.send_fds(control, [str(len(sent)).encode()], sent)
            self._report.settimeout(_IMPORTING)
            answer, files, _, _ = socket.recv_fds(self._report, 4096, 1)
            if not answer:
                raise OSError("the process that forks decoders has ended, or has no room for another")
            if not files:  # the decoder ends when its input does
                raise OSError("too many open files")
            [self._pidfd] = files
            self.handles: tuple[int, ...] = tuple(json.loads(answer))  # as they are numbered there
            ours.pop_all()

    def kill(self) -> None:
        with self._lock, suppress(ProcessLookupError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def wait(self) -> int:
        """The exit status, or minus the signal, of a decoder that has ended or is about to."""
        if self._pidfd >= 0:
            self._report.settimeout(_ENDING)
            with suppress(OSError, ValueError):  # the fork server has ended: it was killed, and so are its decoders
                self._status = int(self._report.recv(64))
            with self._lock:
                os.close(self._pidfd)
                self._pidfd = -1
            self._report.close()
        return self._status


def _start_program(
    module: str, *arguments: str, handles: Sequence[int], pipe: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        python_command(module, *arguments), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, pass_fds=handles,
        env={**os.environ, **_ONE_THREAD},
        start_new_session=True,  # Ctrl-C reaches this process only, which then stops that one
    )  # fmt: skip
