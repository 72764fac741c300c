"""AttachedJob: one job of a command that processes on several machines execute together, as they speak of it in their store."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

from torch._C._distributed_c10d import Store  # torch.distributed's, which does not export its type

from chronoscale.errors import MachineError, UserError, in_words
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.attached_folders import make_folder, remove_folder
from chronoscale.real_exec.ranks.bundle import Bundle, Cache
from chronoscale.real_exec.ranks.contents_bound import held
from chronoscale.real_exec.ranks.rank_end import AttachedEnd

CHUNK = 1 << 20  # bytes of a file in one message
LOOK_S = 0.2  # between looks into the store, which tells no two things at once, for what may take long
ANSWER_S = 0.02  # and for an answer
RunRank = Callable[[str, Path, Job, str, int, Callable[[str], bool]], AttachedEnd]


class Process(Protocol):
    """What a job needs of this process: which it is, the store in which all meet, and whether the others live."""

    hosts: list[str]

    @property
    def store(self) -> Store:
        """The store in which all processes meet."""
        ...

    @property
    def rank(self) -> int:
        """This process's number."""
        ...

    @property
    def address(self) -> str:
        """Where the store is: tcp://HOST:PORT/PREFIX."""
        ...

    def lost(self, rank: int) -> str:
        """Return, in words, that a process has shown no sign of life for too long; '' while it lives."""
        ...


class AttachedJob:
    """One job of several processes, by number: the first leads it, the others follow; in the store, its keys begin with `job/<number>`."""

    def __init__(self, process: Process, number: int) -> None:
        self._process, self._store, self.key = process, process.store, f"job/{number}"
        self._meeting = f"{process.address}/{self.key}/group"  # of its ranks
        self._ends: dict[int, AttachedEnd] = {}

    def lead(self, entry: str, job: Job, ranks: int, path: Path, run: RunRank, is_stopped: Callable[[], bool]) -> None:
        """Have the first `ranks` processes execute the job; this one, rank 0, its own part of it, and wait for all.

        entry: the module whose `main` each rank runs. path: the job file here. run: executes one rank on this machine. is_stopped: once it
        says so, all ranks are ended. Raises the error of the rank that failed first, with its host.
        """
        others = range(1, ranks)
        bundle, sources = Bundle.pack(job)
        self._store.set(f"{self.key}/ranks", str(ranks))
        self._store.set(f"{self.key}/entry", entry)
        self._store.set(self.key, bundle.to_json())
        try:
            self._send(others, sources)
            own = run(entry, path, job, self._meeting, ranks, lambda waits: self._look(others, waits) or is_stopped())
            if own.failed:
                self._ends[0] = own
            if not is_stopped():
                self._gather(others)
        finally:
            self._store.set(f"{self.key}/stop", "1")
        if failed := [rank for rank, end in self._ends.items() if end.failed]:
            first = min(failed, key=lambda rank: self._ends[rank].order)
            raise self._ends[first].error(self._process.hosts[first])

    def _send(self, others: range, sources: dict[str, Path]) -> None:
        """Send the others those contents that they lack, one file at a time; the store keeps none."""
        lacking = {rank: self._await_of(rank, f"lacks/{rank}").decode().split() for rank in others}
        for sha256 in sorted({each for needs in lacking.values() for each in needs}):
            place, count = f"{self.key}/content/{sha256}", 0
            try:
                with sources[sha256].open("rb") as file:
                    while (chunk := file.read(CHUNK)) or not count:
                        self._store.set(f"{place}/{count}", cast(str, chunk))  # it takes bytes
                        count += 1
                self._store.set(place, str(count))
                for rank in (rank for rank in others if sha256 in lacking[rank]):
                    self._await_of(rank, f"has/{sha256}/{rank}")
            finally:
                for part in (place, *(f"{place}/{each}" for each in range(count))):
                    self._store.delete_key(part)

    def _await_of(self, rank: int, name: str) -> bytes:
        """Return what another process says of the job; raises its own error where it says that it has failed."""
        end = f"{self.key}/end/{rank}"
        try:
            return self._await_key(f"{self.key}/{name}", rank, end)
        except MachineError:
            if self._store.check([end]):
                raise AttachedEnd.from_json(self._store.get(end)).error(self._process.hosts[rank]) from None
            raise

    def _await_key(self, key: str, rank: int, end: str) -> bytes:
        """Return the value of a key once `rank` has set it. Raises MachineError where that process is lost, or the key `end` is set."""
        while not self._store.check([key]):
            if words := self._process.lost(rank):
                raise MachineError(words)
            if self._store.check([end]) and not self._store.check([key]):
                raise MachineError(f"rank {rank} on {self._process.hosts[rank]} has ended")
            time.sleep(ANSWER_S)
        return self._store.get(key)

    def _look(self, others: range, waits: str = "") -> bool:
        """Note which others have ended or are lost, and whether all that are left wait for each other; return whether one of them failed.

        waits: where this process's rank waits for others, if it has for too long.
        """
        for rank in others:
            if rank not in self._ends:
                if self._store.check([f"{self.key}/end/{rank}"]):
                    self._ends[rank] = AttachedEnd.from_json(self._store.get(f"{self.key}/end/{rank}"))
                elif words := self._process.lost(rank):
                    self._ends[rank] = AttachedEnd.lost(words)
        if waits:
            waiting = [f"{self.key}/waits/{rank}" for rank in others if rank not in self._ends]
            places = [self._store.get(each).decode() for each in waiting if self._store.check([each])]
            if len(places) == len(waiting) and all(places):
                self._ends[0] = AttachedEnd.of(MachineError(f"ranks wait for each other: {'; '.join([waits, *places])}"))
        return any(end.failed for end in self._ends.values())

    def _gather(self, others: range) -> None:
        """Wait until all others have ended; once one has failed by itself, no longer than others need to be heard."""
        while not all(rank in self._ends for rank in others):
            self._look(others)
            if any(end.certain for end in self._ends.values()):
                return
            time.sleep(LOOK_S)

    def follow(self, run: RunRank) -> None:
        """Execute this process's rank of the job, if it has one, and say how it ended. Reraises a defect, once it is said."""
        own, ranks = self._process.rank, int(self._store.get(f"{self.key}/ranks"))
        if own >= ranks:
            return
        folder = make_folder()
        try:
            job = self._receive(folder)
            entry, path = self._store.get(f"{self.key}/entry").decode(), folder / f"{job.name}.job.json"
            job.save(path)
            with held(folder):
                end = run(entry, path, job, self._meeting, ranks, self._is_over)
        except (MachineError, UserError) as error:
            end = AttachedEnd.of(error)
        except OSError as error:
            end = AttachedEnd.of(MachineError(in_words(error)))
        except Exception as error:  # a defect: the first process hears of it, and this one ends by it
            end = AttachedEnd.of(MachineError(f"rank {own} failed: {type(error).__name__}: {error}"))
            self._store.set(f"{self.key}/end/{own}", end.to_json())
            raise
        finally:
            remove_folder(folder)
        self._store.set(f"{self.key}/end/{own}", end.to_json())

    def _receive(self, folder: Path) -> Job:
        """Return the job, its files laid out below `folder`; those that this machine lacks are received first."""
        own, bundle, cache = self._process.rank, Bundle.from_json(self._store.get(self.key)), Cache()
        lacking = cache.lacks(bundle)
        self._store.set(f"{self.key}/lacks/{own}", " ".join(lacking))
        for sha256 in sorted(lacking):
            place = f"{self.key}/content/{sha256}"
            count = int(self._await_key(place, 0, f"{self.key}/stop"))
            cache.add(sha256, (self._store.get(f"{place}/{each}") for each in range(count)))
            self._store.set(f"{self.key}/has/{sha256}/{own}", "1")
        return Job.load(bundle.unpack(folder, cache)).map_paths(lambda path: str(folder / path))

    def _is_over(self, waits: str) -> bool:
        """Return whether the job is over elsewhere, and say where this process's rank waits for others, where that has changed."""
        key = f"{self.key}/waits/{self._process.rank}"
        if waits or self._store.check([key]):
            self._store.set(key, waits)
        return self._store.check([f"{self.key}/stop"]) or bool(self._process.lost(0))
