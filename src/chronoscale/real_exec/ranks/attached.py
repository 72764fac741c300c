"""Attached: processes that torchrun, srun or mpirun has started on several machines execute the jobs of the first one's command."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore  # torch.distributed's, which does not export their types

from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.attached_job import ANSWER_S, LOOK_S, AttachedJob, RunRank
from chronoscale.real_exec.ranks.machines import Machine
from chronoscale.real_exec.ranks.starter import Starter

BEAT_S = 2.0  # between two signs of life
LOST_S = 30.0  # without one, after which a process counts as lost
MEET_S = 60.0  # for all processes to meet


class Attachment:
    """This process among those that another launcher has started: they meet in a store, and show that they live."""

    def __init__(self, starter: Starter, facts: Mapping[str, str]) -> None:
        """Meet the others. facts: what this machine is, for `machines`. Raises MachineError, one line, where they do not come within a
        minute.
        """
        self.starter, self.jobs = starter, 0
        try:
            self.store = PrefixStore(self._prefix, self._connect(starter.hosts_store))
            self._pulse = PrefixStore(self._prefix, self._connect(False))
            self.store.set(f"here/{starter.rank}", json.dumps([socket.gethostname(), starter.local_rank, dict(facts)]))
            for rank in range(starter.ranks):
                self.store.wait([f"here/{rank}"], timedelta(seconds=MEET_S))
            there = [json.loads(self.store.get(f"here/{rank}")) for rank in range(starter.ranks)]
        except (dist.DistError, RuntimeError) as error:
            raise MachineError(f"{starter.name}: not all processes met at {starter.host}:{starter.port}: {_line(error)}") from None
        self.hosts = [host for host, _, _ in there]
        first = [rank for rank, (_, local_rank, _) in enumerate(there) if local_rank == 0]
        if [local for _, local, _ in there] != [local for begin, end in pairwise([*first, starter.ranks]) for local in range(end - begin)]:
            raise UserError(f"{starter.name}: ranks have to be numbered machine by machine; have it fill one machine after another")
        bounds = zip(first, [*first[1:], starter.ranks], strict=True)
        self.machines = tuple(Machine(there[begin][0], begin, end - begin, there[begin][2]) for begin, end in bounds)
        self._beats = {rank: ("", time.monotonic()) for rank in range(starter.ranks)}
        self._over, self._answered = threading.Event(), time.monotonic()
        threading.Thread(target=self._beat, daemon=True).start()

    @property
    def rank(self) -> int:
        """Return the number of this process."""
        return self.starter.rank

    @property
    def address(self) -> str:
        """Return where the store is, with the prefix of this run's keys: tcp://HOST:PORT/PREFIX."""
        return f"tcp://{self.starter.host}:{self.starter.port}/{self._prefix}"

    @property
    def _prefix(self) -> str:
        return f"chronoscale/{self.starter.run}"

    def _connect(self, hosts: bool) -> TCPStore:
        host, port = self.starter.host, self.starter.port
        listener = _listen(host, port, self.starter.local_ranks < self.starter.ranks) if hosts else None
        return TCPStore(host, port, None, hosts, timedelta(seconds=MEET_S), wait_for_workers=False, master_listen_fd=listener)

    def _beat(self) -> None:
        with suppress(dist.DistError, RuntimeError):  # the store is gone: whoever waits for it says so
            while not self._over.is_set():
                self._pulse.add(f"beat/{self.starter.rank}", 1)  # unlike `set`, it waits for an answer
                self._answered = time.monotonic()
                self._over.wait(BEAT_S)

    def _notice_cut(self, on_cut: Callable[[str], None]) -> None:
        while not self._over.wait(BEAT_S):
            if (silent_s := time.monotonic() - self._answered) > LOST_S:
                return on_cut(f"rank 0 at {self.starter.host}:{self.starter.port} has not been heard of for {silent_s:.0f} s")

    def lost(self, rank: int) -> str:
        """Return, in words, that a process has shown no sign of life for too long; '' while it lives."""
        key, now = f"beat/{rank}", time.monotonic()
        beat = self.store.get(key).decode() if self.store.check([key]) else ""
        before, since = self._beats[rank]
        if beat != before:
            self._beats[rank] = (beat, now)
            return ""
        return f"rank {rank} on {self.hosts[rank]} has not been heard of for {now - since:.0f} s" if now - since > LOST_S else ""

    def launch(self, entry: str, job: Job, ranks: int, path: Path, run: RunRank, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Have the first `ranks` processes execute a job, this one, rank 0, its own part of it; see `AttachedJob.lead`.

        Raises UserError for more ranks than were started.
        """
        if ranks > self.starter.ranks:
            raise UserError(f"ranks: {ranks}, and {self.starter.name} started {self.starter.ranks} processes; start more")
        number, self.jobs = self.jobs, self.jobs + 1
        AttachedJob(self, number).lead(entry, job, ranks, path, run, is_stopped)

    def attend(self, run: RunRank, on_cut: Callable[[str], None]) -> int:
        """Execute, in a process other than the first, its rank of every job until the first process's command is over.

        Returns that command's exit code. run: as of `launch`. on_cut: called by another thread, with a line, once the connection to the
        first machine is silent: whoever asks the store then waits for ever, this method, too. Raises MachineError where the first process
        is lost.
        """
        threading.Thread(target=self._notice_cut, args=(on_cut,), daemon=True).start()
        try:
            return self._follow_all(run)
        finally:
            self._over.set()  # however it ends: nobody waits for the first machine any more

    def _follow_all(self, run: RunRank) -> int:
        while True:
            key = f"job/{self.jobs}"
            while not self.store.check([key]):
                if self.store.check(["over"]):
                    code = int(self.store.get("over"))
                    self.store.set(f"left/{self.starter.rank}", "1")
                    return code
                if words := self.lost(0):
                    raise MachineError(words)
                time.sleep(LOOK_S)
            try:
                AttachedJob(self, self.jobs).follow(run)
            except Exception:  # a defect, by which this process ends: the first need not wait for it
                self.store.set(f"left/{self.starter.rank}", "1")
                raise
            self.jobs += 1

    def close(self, code: int) -> None:
        """Tell the others, from rank 0, that the command is over, and wait some seconds until they have left. code: its exit code."""
        self._over.set()
        with suppress(dist.DistError, RuntimeError):
            self.store.set("over", str(code))
            until = time.monotonic() + 10.0
            while time.monotonic() < until and not all(
                self.store.check([f"left/{rank}"]) or self.lost(rank) for rank in range(1, self.starter.ranks)
            ):
                time.sleep(ANSWER_S)


def _listen(host: str, port: int, machines: bool) -> int:
    """Return a socket, as a file descriptor, that listens at one address of this machine; a store by itself would listen on all.

    Raises MachineError where it cannot, and where others of several `machines` could not reach it.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        if machines and host != address[0] and ip_address(str(address[0]).partition("%")[0]).is_loopback:
            raise MachineError(f"MASTER_ADDR {host} is {address[0]} on the first machine, which others cannot reach; set it to its address")
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(socket.SOMAXCONN)
    except OSError as error:
        raise MachineError(f"the first machine cannot listen at {host}:{port}: {error.strerror or error}") from None
    return listener.detach()


def _line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


_own: Attachment | None = None


def attachment() -> Attachment | None:
    """Return how this process is attached to others; None for a command that was started alone."""
    return _own


def attach(starter: Starter, facts: Mapping[str, str]) -> Attachment:
    """Attach this process to the others that `starter` has started, for the rest of its life. Raises MachineError as `Attachment`."""
    global _own
    _own = Attachment(starter, facts)
    return _own
