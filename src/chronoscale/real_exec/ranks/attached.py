"""Attached: processes that torchrun, srun or mpirun has started on several machines execute the jobs of the first one's command."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore  # torch.distributed's, which does not export their types

from chronoscale.errors import MachineError, UserError, in_words
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.bundle import Bundle, Cache
from chronoscale.real_exec.ranks.rank_end import AttachedEnd
from chronoscale.real_exec.ranks.starter import Starter

BEAT_S = 2.0  # between two signs of life
LOST_S = 30.0  # without one, after which a process counts as lost
MEET_S = 60.0  # for all processes to meet
CHUNK = 1 << 20  # bytes of a file in one message
LOOK_S = 0.2  # between looks into the store, which tells no two things at once, for what may take long
ANSWER_S = 0.02  # and for an answer
RunRank = Callable[[str, Path, Job, str, int, Callable[[str], bool]], AttachedEnd]


class Attachment:
    """This process among those that another launcher has started: they meet in a store, and show that they live."""

    def __init__(self, starter: Starter) -> None:
        """Meet the others. Raises MachineError, one line, where they do not come within a minute."""
        self.starter, self.host, self.jobs = starter, socket.gethostname(), 0
        try:
            self.store = PrefixStore(self.prefix, self._connect(starter.hosts_store))
            self._pulse = PrefixStore(self.prefix, self._connect(False))
            self.store.set(f"host/{starter.rank}", self.host)
            for rank in range(starter.ranks):
                self.store.wait([f"host/{rank}"], timedelta(seconds=MEET_S))
            self.hosts = [self.store.get(f"host/{rank}").decode() for rank in range(starter.ranks)]
        except (dist.DistError, RuntimeError) as error:
            raise MachineError(f"{starter.name}: not all processes met at {starter.host}:{starter.port}: {_line(error)}") from None
        self._beats = {rank: ("", time.monotonic()) for rank in range(starter.ranks)}
        self._over, self._answered = threading.Event(), time.monotonic()
        threading.Thread(target=self._beat, daemon=True).start()

    @property
    def prefix(self) -> str:
        """Return the prefix of this run's keys in the store."""
        return f"chronoscale/{self.starter.run}"

    def _connect(self, hosts: bool) -> TCPStore:
        return TCPStore(self.starter.host, self.starter.port, None, hosts, timedelta(seconds=MEET_S), wait_for_workers=False)

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

    def await_key(self, key: str, rank: int, end: str) -> bytes:
        """Return the value of a key once `rank` has set it. Raises MachineError where that process is lost, or the key `end` is set."""
        while not self.store.check([key]):
            if words := self.lost(rank):
                raise MachineError(words)
            if self.store.check([end]):
                raise MachineError(f"rank {rank} on {self.hosts[rank]} has ended")
            time.sleep(ANSWER_S)
        return self.store.get(key)

    def meeting(self, number: int) -> str:
        """Return where the ranks of a job form their process group."""
        return f"tcp://{self.starter.host}:{self.starter.port}/{self.prefix}/job/{number}/group"

    def launch(self, entry: str, job: Job, ranks: int, path: Path, run: RunRank, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Have the first `ranks` processes execute a job; this one, rank 0, its own part of it, and wait for all.

        entry: the module whose `main` each rank runs. path: the job file here. run: executes one rank on this machine. is_stopped: once it
        says so, all ranks are ended. Raises UserError for more ranks than were started, and the error of the rank that failed first, with
        its host.
        """
        if ranks > self.starter.ranks:
            raise UserError(f"ranks: {ranks}, and {self.starter.name} started {self.starter.ranks} processes; start more")
        number, self.jobs = self.jobs, self.jobs + 1
        key = f"job/{number}"
        others = range(1, ranks)
        bundle, sources = Bundle.pack(job)
        self.store.set(f"{key}/ranks", str(ranks))
        self.store.set(f"{key}/entry", entry)
        self.store.set(key, bundle.to_json())
        ends: dict[int, AttachedEnd] = {}
        try:
            self._send(key, others, sources)
            meeting = self.meeting(number)
            own = run(entry, path, job, meeting, ranks, lambda waits: self._look(key, others, ends, waits) or is_stopped())
            if own.failed:
                ends[0] = own
            if not is_stopped():
                self._gather(key, others, ends)
        finally:
            self.store.set(f"{key}/stop", "1")
        if ends and (failed := [rank for rank in ends if ends[rank].failed]):
            first = min(failed, key=lambda rank: ends[rank].order)
            raise ends[first].error(self.hosts[first])

    def _send(self, key: str, others: range, sources: dict[str, Path]) -> None:
        """Send the others those contents that they lack, one file at a time; the store keeps none."""
        lacking = {rank: self._await_of(rank, key, f"lacks/{rank}").decode().split() for rank in others}
        for sha256 in sorted({each for needs in lacking.values() for each in needs}):
            with sources[sha256].open("rb") as file:
                count = 0
                while (chunk := file.read(CHUNK)) or not count:
                    self.store.set(f"{key}/content/{sha256}/{count}", cast(str, chunk))  # it takes bytes
                    count += 1
            self.store.set(f"{key}/content/{sha256}", str(count))
            for rank in (rank for rank in others if sha256 in lacking[rank]):
                self._await_of(rank, key, f"has/{sha256}/{rank}")
            for part in (f"{key}/content/{sha256}", *(f"{key}/content/{sha256}/{each}" for each in range(count))):
                self.store.delete_key(part)

    def _await_of(self, rank: int, key: str, name: str) -> bytes:
        """Return what another process says of a job; raises its own error where it says that it has failed."""
        try:
            return self.await_key(f"{key}/{name}", rank, f"{key}/end/{rank}")
        except MachineError:
            if self.store.check([f"{key}/end/{rank}"]):
                raise AttachedEnd.from_json(self.store.get(f"{key}/end/{rank}")).error(self.hosts[rank]) from None
            raise

    def _look(self, key: str, others: range, ends: dict[int, AttachedEnd], waits: str = "") -> bool:
        """Note which others have ended or are lost, and whether all that are left wait for each other; return whether one of them failed.

        waits: where this process's rank waits for others, if it has for too long.
        """
        for rank in others:
            if rank not in ends:
                if self.store.check([f"{key}/end/{rank}"]):
                    ends[rank] = AttachedEnd.from_json(self.store.get(f"{key}/end/{rank}"))
                elif words := self.lost(rank):
                    ends[rank] = AttachedEnd.lost(words)
        if waits:
            waiting = [f"{key}/waits/{rank}" for rank in others if rank not in ends]
            said = [self.store.get(each).decode() for each in waiting if self.store.check([each])]
            if len(said) == len(waiting) and all(said):
                ends[0] = AttachedEnd.of(MachineError(f"ranks wait for each other: {'; '.join([waits, *said])}"))
        return any(end.failed for end in ends.values())

    def _gather(self, key: str, others: range, ends: dict[int, AttachedEnd]) -> None:
        """Wait until all others have ended; once one has failed by itself, no longer than others need to be heard."""
        while not all(rank in ends for rank in others):
            self._look(key, others, ends)
            if any(end.certain for end in ends.values()):
                return
            time.sleep(LOOK_S)

    def attend(self, run: RunRank, on_cut: Callable[[str], None]) -> int:
        """Execute, in a process other than the first, its rank of every job until the first process's command is over.

        Returns that command's exit code. run: as of `launch`. on_cut: called by another thread, with a line, once the connection to the
        first machine is silent: whoever asks the store then waits for ever, this method, too. Raises MachineError where the first process
        is lost.
        """
        threading.Thread(target=self._notice_cut, args=(on_cut,), daemon=True).start()
        while True:
            key = f"job/{self.jobs}"
            while not self.store.check([key]):
                if self.store.check(["over"]):
                    code = int(self.store.get("over"))
                    self.store.set(f"left/{self.starter.rank}", "1")
                    self._over.set()
                    return code
                if words := self.lost(0):
                    raise MachineError(words)
                time.sleep(LOOK_S)
            self._take_part(key, run)
            self.jobs += 1

    def _take_part(self, key: str, run: RunRank) -> None:
        own, ranks = self.starter.rank, int(self.store.get(f"{key}/ranks"))
        if own >= ranks:
            return
        folder = Path(tempfile.mkdtemp(prefix="chronoscale-attached-"))
        try:
            bundle, cache = Bundle.from_json(self.store.get(key)), Cache()
            lacking = cache.lacks(bundle)
            self.store.set(f"{key}/lacks/{own}", " ".join(lacking))
            for sha256 in sorted(lacking):
                count = int(self.await_key(f"{key}/content/{sha256}", 0, f"{key}/stop"))
                cache.add(sha256, (self.store.get(f"{key}/content/{sha256}/{each}") for each in range(count)))
                self.store.set(f"{key}/has/{sha256}/{own}", "1")
            path = bundle.unpack(folder, cache)
            job = _absolute(Job.load(path), folder)
            job.save(path)
            entry, stopped = self.store.get(f"{key}/entry").decode(), f"{key}/stop"
            meeting = self.meeting(self.jobs)
            end = run(entry, path, job, meeting, ranks, lambda waits: self._say(f"{key}/waits/{own}", waits, stopped))
        except (MachineError, UserError) as error:
            end = AttachedEnd.of(error)
        except OSError as error:
            end = AttachedEnd.of(MachineError(in_words(error)))
        except Exception as error:  # a defect: the first process hears of it, and this one ends by it
            end = AttachedEnd.of(MachineError(f"rank {own} failed: {type(error).__name__}: {error}"))
            self.store.set(f"{key}/end/{own}", end.to_json())
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.store.set(f"{key}/end/{own}", end.to_json())

    def _say(self, key: str, waits: str, stopped: str) -> bool:
        """Say under a key, where it has changed, where this process's rank waits for others; return whether the job is over elsewhere."""
        if waits or self.store.check([key]):
            self.store.set(key, waits)
        return self.store.check([stopped]) or bool(self.lost(0))

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


def _absolute(job: Job, folder: Path) -> Job:
    """Return a job of a bundle with its relative paths below `folder`."""

    def below(path: str) -> str:
        return str(folder / path) if path else ""

    items = tuple(
        replace(each, schedule=below(each.schedule), dataset=below(each.dataset), parts=below(each.parts), prepare=below(each.prepare))
        for each in job.items
    )
    settings = replace(job.settings, topology=below(job.settings.topology))
    return replace(job, items=items, settings=settings, modules=tuple(below(each) for each in job.modules), out=below(job.out))


def _line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


_own: Attachment | None = None


def attachment() -> Attachment | None:
    """Return how this process is attached to others; None for a command that was started alone."""
    return _own


def attach(starter: Starter) -> Attachment:
    """Attach this process to the others that `starter` has started, for the rest of its life. Raises MachineError as `Attachment`."""
    global _own
    _own = Attachment(starter)
    return _own
