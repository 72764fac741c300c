"""Contents on their way to processes on other machines: whole, once a cache, a few messages of them in the store at a time."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from attached_cases import free_port, job_of

from chronoscale.errors import MachineError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks import attached, attached_job
from chronoscale.real_exec.ranks.attached import Attachment
from chronoscale.real_exec.ranks.bundle import Cache
from chronoscale.real_exec.ranks.rank_end import AttachedEnd
from chronoscale.real_exec.ranks.starter import Starter

CHUNK, BATCH = 4, 3  # bytes, messages
CACHES = ("", "one", "one", "other")  # of each process; two share one


class Sending:
    """Four processes as threads, and what is seen of the store as each message is taken."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for module, name, value in (
            (attached, "LOOK_S", 0.01),
            (attached_job, "LOOK_S", 0.01),
            (attached_job, "ANSWER_S", 0.001),
            (attached_job, "CHUNK", CHUNK),
            (attached_job, "BATCH", BATCH),
        ):
            monkeypatch.setattr(module, name, value)
        monkeypatch.setattr(attached_job, "Cache", lambda: Cache(folder / self._own.cache))
        self._own, port = threading.local(), free_port()
        starters = [Starter("torchrun", rank, 4, rank, 4, "127.0.0.1", port, rank == 0, "run") for rank in range(4)]
        with ThreadPoolExecutor() as threads:
            self.processes = list(threads.map(partial(Attachment, facts={}), starters))
        self.taken, self.stored, self.sizes, self.read = Counter[str](), 0, dict[str, int](), dict[int, bytes]()

    def watch(self, sha256: str, cache: Cache, chunks: Iterator[bytes], messages: int) -> Iterator[bytes]:
        """Pass a content's messages on; note how many of it are in the store meanwhile."""
        store = self.processes[0].store
        for chunk in chunks:
            keys = [f"job/0/content/{sha256}/{number}" for number in range(messages)]
            self.stored = max(self.stored, sum(store.check([key]) for key in keys))
            self.taken[cache.folder.name] += 1
            yield chunk

    def attend(self, rank: int) -> None:
        self._own.cache = CACHES[rank]
        self.processes[rank].attend(partial(self._run, rank), pytest.fail)

    def _run(self, rank: int, entry: str, path: Path, job: Job, *given: object) -> AttachedEnd:
        self.read[rank] = Path(job.items[0].schedule).read_bytes()
        return AttachedEnd()

    def launch(self, job: Job, folder: Path) -> None:
        """Have all four execute a job."""
        with ThreadPoolExecutor() as threads:
            others = [threads.submit(self.attend, rank) for rank in (1, 2, 3)]
            try:
                self.processes[0].launch("", job, 4, folder / "job.json", lambda *given: AttachedEnd())
            finally:
                self.processes[0].close(0)
        for each in others:
            each.result()


def _job(folder: Path, content: bytes) -> Job:
    """A job whose only file is its schedule."""
    job = job_of(folder)
    (folder / "psg.parquet").write_bytes(content)
    item = replace(job.items[0], dataset="", parts="", prepare="")
    return replace(job, items=(item,), modules=(), settings=replace(job.settings, topology=""))


@pytest.mark.parametrize("size", [0, 1, CHUNK * BATCH, CHUNK * BATCH * 3, CHUNK * BATCH * 7 + 5])
def test_a_content_travels_in_batches_once_to_each_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    content = bytes(number % 251 for number in range(size))
    sending, messages, add = Sending(tmp_path, monkeypatch), max(1, -(-size // CHUNK)), Cache.add
    monkeypatch.setattr(Cache, "add", lambda cache, sha, chunks: add(cache, sha, sending.watch(sha, cache, chunks, messages)))
    sending.launch(_job(tmp_path, content), tmp_path)
    assert sending.read == {1: content, 2: content, 3: content}
    assert sending.taken == {"one": messages, "other": messages}
    assert 1 <= sending.stored <= min(3 * BATCH, messages)  # two batches; one may go, and another come, as they are counted
    store = sending.processes[0].store
    sha256 = next(file.name for file in (tmp_path / "one").iterdir() if not file.name.startswith("."))
    place = f"job/0/content/{sha256}"
    gone = [place, *(f"{place}/{number}" for number in range(messages)), *(f"{place}/taken/{batch}/" for batch in range(9))]
    names = [(tmp_path / cache / ".name").read_text() for cache in ("one", "other")]
    assert len(set(names)) == 2 and not any(store.check([key + name]) for key in gone for name in ("", *names))


def test_a_rank_that_fails_as_it_receives_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though another of its cache would go on where it left off, and wait for messages that are gone."""
    sending, failed, add = Sending(tmp_path, monkeypatch), list[int](), Cache.add

    def fails_once(cache: Cache, sha256: str, chunks: Iterator[bytes]) -> None:
        def some() -> Iterator[bytes]:
            for number, chunk in enumerate(chunks):
                if number == 4 * BATCH and cache.folder.name == "one" and not failed:
                    failed.append(number)
                    raise MachineError("disk gone")
                yield chunk

        add(cache, sha256, some())

    monkeypatch.setattr(Cache, "add", fails_once)
    with pytest.raises(MachineError, match="disk gone"):
        sending.launch(_job(tmp_path, bytes(CHUNK * BATCH * 9)), tmp_path)


def test_a_content_that_comes_from_elsewhere_meanwhile_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by another command of the user's, which fills the same cache."""
    content = bytes(CHUNK * BATCH * 5)
    sending, add = Sending(tmp_path, monkeypatch), Cache.add

    def comes_first(cache: Cache, sha256: str, chunks: Iterator[bytes]) -> None:
        if cache.folder.name == "other":
            add(cache, sha256, iter([content]))
        add(cache, sha256, chunks)

    monkeypatch.setattr(Cache, "add", comes_first)
    sending.launch(_job(tmp_path, content), tmp_path)
    assert sending.read == {1: content, 2: content, 3: content}
