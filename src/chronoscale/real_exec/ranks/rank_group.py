"""RankGroup: the ranks of one job, and the server that they are forked from, as the launching process holds them."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

import chronoscale
from chronoscale.errors import MachineError
from chronoscale.real_exec.ranks import positions
from chronoscale.real_exec.ranks.positions import PositionPage
from chronoscale.real_exec.ranks.request import STOP, RankEnd, Request, Started, receive, send
from chronoscale.real_exec.ranks.root_cause import last_line

START_S = 300.0  # for a server to import what ranks run, and to fork them
STOP_S = 5.0  # for killed ranks to be gone
# glibc keeps freed memory: mapping tensors anew at every step costs page faults, by luck of their sizes, and blurs every figure.
# What the user has set himself stands.
QUIET = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
ALONE = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}  # pyarrow's allocator has a thread, which a process that forks must not have
BEFORE_START = ("MALLOC_", "GLIBC_", "LD_", "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "MKL_", "PYTHON", "CUDA_")  # read as a process starts
HERE = Path(chronoscale.__file__).parents[1]  # where this package was imported from
Setting = tuple[tuple[str, str], ...]


class RankGroup:
    """The rank processes of one job, from start to end, as the launcher holds them.

    pids: process ids by rank; ended: exit codes (or minus signals) of those that have ended, by rank; folder: the job's private one.
    """

    def __init__(self, server: RankServer, channel: socket.socket) -> None:
        self.server, self.channel = server, channel
        self.ended: dict[int, int] = {}
        channel.settimeout(START_S)
        try:
            message = receive(channel)
        except TimeoutError:
            server.close()
            raise MachineError(f"ranks cannot start: their server has not answered for {START_S:g} s") from None
        started = Started([], "", server.last_output()) if message is None else Started(*message)
        if started.error:
            raise MachineError(f"ranks cannot start: {started.error}")
        self.pids, self.folder = started.pids, Path(started.folder)
        self.pages: Sequence[PositionPage] = positions.pages(self.folder, len(self.pids))
        server.ready = True

    @property
    def over(self) -> bool:
        """Return whether all ranks of the job have ended."""
        return len(self.ended) == len(self.pids)

    def wait_for_end(self, seconds: float) -> None:
        """Wait at most `seconds` for one rank of the job to end, and note its exit code.

        Raises MachineError where the server is lost: all ranks end with it.
        """
        self.channel.settimeout(seconds)
        try:
            message = receive(self.channel)
        except TimeoutError:
            return
        if message is None:
            raise MachineError("the server of ranks was lost, and all ranks with it; give the same command again")
        ended = RankEnd(*message)
        self.ended[ended.rank] = ended.status
        self.server.spent_s += ended.cpu_s

    def stop(self) -> None:
        """End all ranks of the job at once; a caller that waits for them sees them lost. Any thread may call it."""
        with suppress(OSError):
            send(self.channel, STOP)

    def close(self) -> None:
        """End at once those of the job's ranks that still run, and remove its private folder.

        May be called more than once, and by any thread.
        """
        self.stop()
        try:
            until = time.monotonic() + (0.0 if self.server.stopped else STOP_S)
            while not self.over and time.monotonic() < until:
                self.wait_for_end(max(until - time.monotonic(), 0.01))
        except (MachineError, OSError):
            pass  # the channel is closed
        if not self.over:
            self.server.close()  # it is lost, stopped, or hangs: ranks end with it
        shutil.rmtree(self.folder, ignore_errors=True)
        self.channel.close()


class RankServer:
    """Handle of a server process (`ranks.server`) that has imported torch and forks ranks from then on, so that jobs start fast.

    The launcher has one for each set of environment variables that a process reads as it starts.
    """

    def __init__(self, setting: Setting) -> None:
        self.spent_s = 0.0  # CPU seconds of its ranks that have ended
        self.ready = False  # it has started ranks
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(BEFORE_START)} | {**ALONE, **dict(setting)}
        if str(HERE) not in (*site.getsitepackages(), site.getusersitepackages()):  # else it is found, or another one
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE), environment.get("PYTHONPATH", ""))))
        command = [sys.executable, "-P", "-m", "chronoscale.real_exec.ranks.server", str(theirs.fileno()), str(os.getpid())]
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 (it goes with this object)
        self._process = subprocess.Popen(
            command,
            env=environment,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._words,
            start_new_session=True,
        )
        theirs.close()
        self._control = ours

    @property
    def pid(self) -> int:
        """Return the process id of the server of ranks."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Return whether the server of ranks still runs."""
        return self._process.poll() is None

    @property
    def used_s(self) -> float:
        """Return the CPU seconds of the server of ranks, which imports what they run, and of its ranks that have ended."""
        try:
            own = psutil.Process(self.pid).cpu_times()
        except psutil.Error:
            return self.spent_s
        return float(own.user + own.system) + self.spent_s

    @property
    def stopped(self) -> bool:
        """Return whether the server of ranks is stopped, as by SIGSTOP."""
        try:
            return bool(psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)
        except psutil.Error:
            return False

    def start(self, request: Request) -> RankGroup:
        """Have the server fork the ranks of a job; the first time, it imports for some seconds before it does.

        Raises MachineError where it cannot.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, request.pack() as content:
                socket.send_fds(self._control, [b"\0"], [theirs.fileno(), content.fileno()])
            return RankGroup(self, ours)
        except BaseException as error:
            ours.close()
            if isinstance(error, OSError):
                raise MachineError(f"ranks cannot start: {self.last_output()}") from None
            raise

    def last_output(self) -> str:
        """End the server of ranks; return the last line that it wrote, or its exit code in words."""
        self.close()
        return last_line(Path(f"/proc/self/fd/{self._words.fileno()}")) or f"their server ended with code {self._process.returncode}"

    def close(self) -> None:
        """End the server of ranks, and all ranks with it."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # also where a fork of this process has it open
        self._control.close()
        try:
            self._process.wait(STOP_S if self.ready and not self.stopped else 0.0)  # while it imports, it does not read its socket
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.returncode:
            _end_session(self.pid)  # it could not end what ranks have started


def _end_session(leader: int) -> None:
    """Kill what is left of the processes below a server that has died."""
    for pid in psutil.pids():
        with suppress(OSError):
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)


_servers: dict[Setting, RankServer] = {}
_lock = threading.Lock()


def spent_s() -> float:
    """Return the CPU seconds of this process's ranks that have ended, for budgets of tests and benchmarks.

    Once their server has ended, too, the system counts them as this process's.
    """
    return sum(server.spent_s for server in tuple(_servers.values()) if server.alive)


def used_s() -> float:
    """Return the CPU seconds of this process's servers of ranks that run, and of their ranks that have ended."""
    return sum(server.used_s for server in tuple(_servers.values()) if server.alive)


def server_of(threads: int) -> RankServer:
    """Return the server process that forks ranks whose computation has `threads` threads each; start it if there is none."""
    variables = {key: value for key, value in os.environ.items() if key.startswith(BEFORE_START)}
    setting = tuple(sorted({**QUIET, **variables, "OMP_NUM_THREADS": str(threads)}.items()))
    with _lock:
        if setting not in _servers or not _servers[setting].alive:
            _servers[setting] = RankServer(setting)
        return _servers[setting]


@atexit.register
def close_servers() -> None:
    """End all servers of ranks that this process has started; the next job starts new ones."""
    while _servers:
        _servers.popitem()[1].close()


def _forget() -> None:
    """Drop, in a forked child, the parent's servers, and its lock, which another of its threads may have had at the fork."""
    global _lock
    _lock = threading.Lock()
    _servers.clear()


os.register_at_fork(after_in_child=_forget)
