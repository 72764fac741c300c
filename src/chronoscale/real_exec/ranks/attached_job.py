"""AttachedJob: one job of a command that processes on several machines execute together, as they speak of it in their store."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

from torch._C._distributed_c10d import Store  # torch.distributed's, which does not export its type

from chronoscale.errors import MachineError, UserError, in_words
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.attached_folders import make_folder, remove_folder
from chronoscale.real_exec.ranks.bundle import Bundle, Cache
from chronoscale.real_exec.ranks.contents_bound import lock_contents
from chronoscale.real_exec.ranks.rank_end import AttachedEnd

CHUNK = 1 << 20  # bytes of a file in one message
BATCH = 32  # messages; the store holds two batches at most
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
            self._send(others, bundle, sources)
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

    def _send(self, others: range, bundle: Bundle, sources: Mapping[str, Path]) -> None:
        """Send the others those contents that they lack, one file at a time, in batches; one rank of each cache receives it.

        Raises UserError for a file that is no longer what the bundle says.
        """
        lacking = {rank: json.loads(self._await_of(rank, f"lacks/{rank}")) for rank in others}
        sizes = {file.sha256: file.size for file in bundle.files}
        for sha256 in sorted({each for _, needs in lacking.values() for each in needs}):
            ranks = [rank for rank in others if sha256 in lacking[rank][1]]
            takers = {lacking[rank][0]: rank for rank in reversed(ranks)}  # the first of each cache
            keys, count = {f"{self.key}/content/{sha256}"}, max(1, -(-sizes[sha256] // CHUNK))
            try:
                self._store.set(f"{self.key}/content/{sha256}", json.dumps([count, takers]))
                self._send_batches(sha256, sources[sha256], count, [*takers.values()], keys)
                for rank in ranks:
                    self._await_of(rank, f"has/{sha256}/{rank}")
            finally:
                for key in keys:
                    self._store.delete_key(key)

    def _send_batches(self, sha256: str, source: Path, count: int, takers: Sequence[int], keys: set[str]) -> None:
        """Put a content into the store, `count` chunks of it, each batch once all takers have the one before the last, which then goes.

        keys: of the content in the store, to be kept up to date.
        """
        digest, place = hashlib.sha256(), f"content/{sha256}"
        keys |= {f"{self.key}/{place}/taken/{batch}/{rank}" for batch in range(count // BATCH) for rank in takers}
        with source.open("rb") as file:
            for batch in range(-(-count // BATCH) + 1):
                for rank in takers if batch > 1 else ():
                    self._await_of(rank, f"{place}/taken/{batch - 2}/{rank}")
                for number in range((batch - 2) * BATCH, (batch - 1) * BATCH):
                    if (key := f"{self.key}/{place}/{number}") in keys:
                        keys.discard(key)
                        self._store.delete_key(key)
                for number in range(batch * BATCH, min(count, (batch + 1) * BATCH)):
                    chunk = file.read(CHUNK)
                    digest.update(chunk)
                    keys.add(key := f"{self.key}/{place}/{number}")
                    self._store.set(key, cast(str, chunk))  # it takes bytes
            if file.read(1) or digest.hexdigest() != sha256:
                raise UserError(f"{source}: has changed while it was sent; give the same command again")

    def _await_of(self, rank: int, name: str) -> bytes:
        """Return what another process says of the job. Raises MachineError where it is lost, and its own error where it says that it has
        failed.
        """
        key, end = f"{self.key}/{name}", f"{self.key}/end/{rank}"
        while not self._store.check([key]):
            if words := self._process.lost(rank):
                raise MachineError(words)
            if self._store.check([end]) and not self._store.check([key]):
                raise AttachedEnd.from_json(self._store.get(end)).error(self._process.hosts[rank])
            time.sleep(ANSWER_S)
        return self._store.get(key)

    def _await_first(self, name: str) -> bytes:
        """Return what the first process says of the job. Raises MachineError where it is lost, or has ended the job."""
        key, stop = f"{self.key}/{name}", f"{self.key}/stop"
        while not self._store.check([key]):
            if words := self._process.lost(0):
                raise MachineError(words)
            if self._store.check([stop]) and not self._store.check([key]):
                raise MachineError(f"rank 0 on {self._process.hosts[0]} has ended")
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
            with lock_contents(folder):
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
        self._store.set(f"{self.key}/lacks/{own}", json.dumps([cache.name, lacking]))
        for sha256 in sorted(lacking):
            count, takers = json.loads(self._await_first(f"content/{sha256}"))
            if (taker := takers[cache.name]) == own:
                cache.add(sha256, self._chunks(sha256, count))
            else:
                self._await_first(f"has/{sha256}/{taker}")
                if not cache.has(sha256):
                    raise MachineError(f"{cache.folder}: has the name of the one of rank {taker}, as copied with its machine; remove it")
            self._store.set(f"{self.key}/has/{sha256}/{own}", "1")
        return Job.load(bundle.unpack(folder, cache)).map_paths(lambda path: str(folder / path))

    def _chunks(self, sha256: str, count: int) -> Iterator[bytes]:
        """Receive a content, `count` chunks of it, and say which batches have been taken."""
        place = f"content/{sha256}"
        for number in range(count):
            yield self._await_first(f"{place}/{number}")
            if number % BATCH == BATCH - 1:
                self._store.set(f"{self.key}/{place}/taken/{number // BATCH}/{self._process.rank}", "1")

    def _is_over(self, waits: str) -> bool:
        """Return whether the job is over elsewhere, and say where this process's rank waits for others, where that has changed."""
        key = f"{self.key}/waits/{self._process.rank}"
        if waits or self._store.check([key]):
            self._store.set(key, waits)
        return self._store.check([f"{self.key}/stop"]) or bool(self._process.lost(0))
