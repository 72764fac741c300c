"""Server: the process that ranks are forked from. It has imported what they run, has run nothing, and listens nowhere.

`python -m chronoscale.real_exec.ranks.server FD PID`, started by `ranks.rank_group` alone. FD is a socket shared with the launcher, whose
process is PID: each message on it brings a socket for one job, and the job's `request.Request`. On that job's socket, the launcher receives
a message for each rank that ends. When it is closed, or the launcher ends, the job's ranks are killed with all that they have started, and
the folders that were made for them are removed.
"""

from __future__ import annotations

import gc
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import numpy as np

from chronoscale.errors import in_words
from chronoscale.parent import die_with_parent, outlive_parent
from chronoscale.real_exec.ranks import positions
from chronoscale.real_exec.ranks.failure import reserve
from chronoscale.real_exec.ranks.request import RankEnd, Request, Started, receive, send

# What ranks import, and what torch's optimisers import when they are first used.
PRELOADED = ("chronoscale.real_exec.worker", "chronoscale.real_exec.training.epoch_loop", "torch._dynamo")


class RankProcesses:
    """The rank processes of one job in the server that forked them: a process group.

    No rank is reaped before all have ended, so that no other group can get its number.
    """

    def __init__(self, request: Request, channel: socket.socket) -> None:
        self.request, self.channel = request, channel
        self.pids: list[int] = []
        self.handles: dict[int, int] = {}  # pidfd: rank, of ranks that run
        self.dropped = False  # the launcher wants no more of it

    def report(self, handle: int) -> None:
        """Send the launcher how a rank ended; after the last one, kill whatever the job's ranks have left behind.

        handle: the pidfd of the rank.
        """
        rank = self.handles.pop(handle)
        os.close(handle)
        result = os.waitid(os.P_PID, self.pids[rank], os.WEXITED | os.WNOWAIT)
        assert result is not None
        status = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        last = not self.handles
        cpu_s = self.reap() if last else 0.0
        send(self.channel, RankEnd(rank, status, cpu_s))

    def kill(self) -> None:
        """Kill all processes of a job's ranks, at once."""
        if self.handles:
            os.killpg(self.pids[0], signal.SIGKILL)

    def reap(self) -> float:
        """Kill what a job's ranks left behind and reap them; return their CPU seconds, with those of children that they waited for."""
        os.killpg(self.pids[0], signal.SIGKILL)
        usages = [os.wait4(pid, 0)[2] for pid in self.pids]
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    def remove(self) -> None:
        """Remove the private folder of a job, and that of what it received, unless the launcher has done so."""
        for folder in filter(None, (self.request.folder, self.request.received)):
            shutil.rmtree(folder, ignore_errors=True)


class Server:
    """Event loop of the process that forks ranks: over the launcher's socket, the sockets of jobs, and the ranks' processes."""

    def __init__(self, control: socket.socket, launcher: int) -> None:
        self._control, self._jobs = control, list[RankProcesses]()
        self._launcher = os.pidfd_open(launcher)
        self._selector = selectors.DefaultSelector()
        self._watch(control.fileno(), self._accept)
        self._watch(self._launcher, self._close)

    def run(self) -> NoReturn:
        """Start and end ranks as the launcher asks, until the launcher ends."""
        while True:
            for key, _ in self._selector.select():
                if self._selector.get_map().get(key.fd) is key:  # not gone with one before it
                    key.data()

    def _watch(self, file: int, act: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, act)

    def _accept(self) -> None:
        """Receive a request and start the ranks of a job."""
        message, files, _, _ = socket.recv_fds(self._control, 1, 2)
        if not message:
            self._close()
        channel = socket.socket(fileno=files[0])
        with os.fdopen(files[1], "rb") as content:
            request = Request.unpack(content)
        try:
            folder = tempfile.mkdtemp(prefix="chronoscale-ranks-", dir=request.temporary)
        except OSError as error:
            send(channel, Started([], "", in_words(error)))
            return channel.close()
        job = RankProcesses(replace(request, folder=folder), channel)
        self._jobs.append(job)
        refusal = ""
        try:
            positions.make_file(Path(folder), request.ranks)
            for rank in range(request.ranks):
                reserve(Path(folder), request.membership(rank).rank)
                job.pids.append(self._fork(job, rank))
                handle = os.pidfd_open(job.pids[rank])
                job.handles[handle] = rank
                self._watch(handle, lambda handle=handle: self._handle_end(job, handle))  # type: ignore[misc]
        except OSError as failure:  # no process or file is left for it; other jobs go on
            refusal = in_words(failure)
            if len(job.pids) > len(job.handles):  # the last one runs, and nothing would report its end
                os.kill(job.pids[-1], signal.SIGKILL)
            if job.pids and not job.handles:
                job.reap()
        send(channel, Started(job.pids, folder, refusal))
        self._watch(channel.fileno(), lambda: self._handle_message(job))

    def _fork(self, job: RankProcesses, rank: int) -> int:
        """Fork a rank; return its process id. The child never returns."""
        server = os.getpid()
        pid = os.fork()
        if pid:
            os.setpgid(pid, job.pids[0] if rank else pid)
            return pid
        try:
            os.setpgid(0, job.pids[0] if rank else 0)
            die_with_parent(server)
            job.channel.close()
            self._forget()
            _become(job.request, rank)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(1)

    def _forget(self) -> None:
        """Close, in a rank, the files of the server."""
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()

    def _handle_end(self, job: RankProcesses, handle: int) -> None:
        """Handle the end of a rank."""
        self._selector.unregister(handle)
        job.report(handle)
        if job.dropped and not job.handles:
            self._end(job)

    def _handle_message(self, job: RankProcesses) -> None:
        """Handle a message of the launcher about a job: that it is to end (STOP), or, by closing the socket, that the job is no longer
        wanted."""
        if receive(job.channel) is None:
            self._selector.unregister(job.channel.fileno())
            job.dropped = True
            if not job.handles:
                return self._end(job)
        job.kill()

    def _end(self, job: RankProcesses) -> None:
        """Remove all traces of a job."""
        job.remove()
        job.channel.close()
        self._jobs.remove(job)

    def _close(self) -> NoReturn:
        """Kill all ranks and end this process."""
        for job in self._jobs:
            if job.handles:
                job.reap()
            job.remove()
        os._exit(0)


def _become(request: Request, rank: int) -> NoReturn:
    """Turn a forked process into a rank of the job and run it."""
    null, log = os.open(os.devnull, os.O_RDWR), os.open(request.log(rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for file, target in ((null, 0), (null, 1), (log, 2)):
        os.dup2(file, target)
    os.environ.clear()
    os.environ.update(request.environment | request.membership(rank).variables())
    os.chdir(request.directory)
    np.random.seed()
    sys.path[:] = request.modules
    sys.argv = [request.entry, request.argument]
    code = import_module(request.entry).main(request.argument)
    sys.stderr.flush()
    os._exit(code)  # without finalising the interpreter: gloo's threads outlive their group and now and then abort it there


def main(file: int, launcher: int) -> NoReturn:
    """Import what ranks need, then fork ranks as the launcher asks. file: number of the socket shared with it. launcher: its process id."""
    die_with_parent(launcher)  # while it imports, it reads no socket
    for name in PRELOADED:
        import_module(name)
    gc.collect()
    gc.freeze()
    server = Server(socket.socket(fileno=file), launcher)
    outlive_parent()  # from now on it ends its ranks first
    server.run()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
