"""A program that forks decoders for another process: ``python -m prvr.media.fork_server SOCKET [torch]``.

It imports what decoders need, once, and starts no thread: a fork would have none of them, but the locks they hold.
SOCKET is the number of an open socket. Each message on it is a count, and carries so many open files: standard input
and output of a new decoder, a socket for reports, and what else the decoder needs. The first report is a JSON list of
the numbers which these last files have in the decoder, and carries a pidfd of it. The second is its exit status, or
minus the signal that ended it. When SOCKET is closed, or the process that started this one is gone, this process ends
and its decoders too.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress

from prvr.media.decode_server import serve_frames, step_back, use_one_thread

_LOOK = 2.0  # seconds between looks for the process that started this one
_MOST_FILES = 16  # in a message


class ForkServer:
    """Forks decoders, and reports how they end."""

    def __init__(self, control: socket.socket):
        self.control = control
        self.decoders: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: process and socket for reports

    def run(self) -> None:
        parent, wanted = os.getppid(), True
        while wanted and os.getppid() == parent:
            events = select.poll()  # select would not take files with large numbers
            for file in (self.control.fileno(), *self.decoders):
                events.register(file, select.POLLIN)
            for ready, _ in events.poll(1000 * _LOOK):
                if ready in self.decoders:
                    self._report(ready)
                else:
                    wanted = self._serve()
        for pidfd in [*self.decoders]:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            self._report(pidfd)

    def _serve(self) -> bool:
        """Fork a decoder. Returns False if nobody will ask for more."""
        message, files, _, _ = socket.recv_fds(self.control, 64, _MOST_FILES)
        if not message:
            return False
        if len(files) != int(message):  # too many are open here
            for file in files:
                os.close(file)
            return True
        requests, answers, report, *others = files
        reports, server = socket.socket(fileno=report), os.getpid()
        try:
            process = os.fork()
            if process == 0:
                self._become_decoder(requests, answers, reports, server)
            pidfd = os.pidfd_open(process)
            self.decoders[pidfd] = process, reports
            with suppress(OSError):  # the other process does not want it any more: the decoder's input ends
                socket.send_fds(reports, [json.dumps(others).encode()], [pidfd])
        except OSError:  # no memory, or too many processes; the closed socket says so
            reports.close()
        for file in (requests, answers, *others):
            os.close(file)
        return True

    def _become_decoder(self, requests: int, answers: int, reports: socket.socket, server: int) -> None:
        """The life of a fork, which ends here."""
        status = 1
        try:
            for file, place in ((requests, 0), (answers, 1)):
                os.dup2(file, place)
                os.close(file)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115 (it stays open)
            for theirs in (self.control, reports, *(other for _, other in self.decoders.values())):
                theirs.close()
            for pidfd in self.decoders:
                os.close(pidfd)
            serve_frames(server)
            status = 0
        finally:
            os._exit(status)

    def _report(self, pidfd: int) -> None:
        """Tell how a decoder has ended."""
        process, reports = self.decoders.pop(pidfd)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        with reports, suppress(OSError):  # nobody listens
            reports.send(str(status).encode())
        os.close(pidfd)


if __name__ == "__main__":
    step_back()
    os.close(os.pidfd_open(os.getpid()))  # ends here where Linux is older than 5.3
    if "torch" in sys.argv:
        use_one_thread()
    gc.freeze()  # so that collecting garbage writes to no memory that decoders share
    ForkServer(socket.socket(fileno=int(sys.argv[1]))).run()
    os._exit(0)  # without the quarter of a second in which torch is unloaded
