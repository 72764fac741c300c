"""Contents on their way to processes on other machines: whole, once a cache, a few messages of them in the store at a time."""

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from attached_cases import free_port, job_of

from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks import attached, attached_job
from chronoscale.real_exec.ranks.attached import Attachment
from chronoscale.real_exec.ranks.bundle import Bundle, Cache
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

    def watch(self, sha256: str, cache: Cache, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Pass a content's messages on; note which cache takes them."""
        for chunk in chunks:
            Cache(cache.folder).lacks(Bundle({}, ()))  # another job's, which does not wait for this one
            self.taken[cache.folder.name] += 1
            yield chunk

    def count_stored(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Note how many messages of contents are in the store at once, as its one writer knows."""
        store = self.processes[0].store
        put, drop = store.set, store.delete_key
        there, message = set[str](), re.compile(r".*/content/\w+/\d+")

        def counted(key: str, value: str) -> None:
            there.update({key} if message.fullmatch(key) else ())
            self.stored = max(self.stored, len(there))
            put(key, value)

        def dropped(key: str) -> bool:
            there.discard(key)
            return drop(key)

        monkeypatch.setattr(self.processes[0], "store", SimpleNamespace(set=counted, delete_key=dropped, get=store.get, check=store.check))

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
    store = sending.processes[0].store
    monkeypatch.setattr(Cache, "add", lambda cache, sha, chunks: add(cache, sha, sending.watch(sha, cache, chunks)))
    sending.count_stored(monkeypatch)
    sending.launch(_job(tmp_path, content), tmp_path)
    assert sending.read == {1: content, 2: content, 3: content}
    assert sending.taken == {"one": messages, "other": messages}
    assert sending.stored == min(2 * BATCH, messages)
    sha256 = hashlib.sha256(content).hexdigest()
    place = f"job/0/content/{sha256}"
    gone = [place, *(f"{place}/{number}" for number in range(messages))]
    gone += [f"{place}/taken/{batch}/{rank}" for batch in range(9) for rank in range(4)]
    assert not any(store.check([key]) for key in gone)
    assert (tmp_path / "one" / ".name").read_text() != (tmp_path / "other" / ".name").read_text()


def test_a_rank_that_fails_as_it_receives_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though another of its cache waits for what it receives; nothing of it is left there."""
    sending, add = Sending(tmp_path, monkeypatch), Cache.add

    def fails(cache: Cache, sha256: str, chunks: Iterator[bytes]) -> None:
        def some() -> Iterator[bytes]:
            for number, chunk in enumerate(chunks):
                if number == 4 * BATCH and cache.folder.name == "one":
                    raise MachineError("disk gone")
                yield chunk

        add(cache, sha256, some())

    monkeypatch.setattr(Cache, "add", fails)
    with pytest.raises(MachineError, match="disk gone"):
        sending.launch(_job(tmp_path, bytes(CHUNK * BATCH * 9)), tmp_path)
    assert {path.name for path in (tmp_path / "one").iterdir()} == {".name", ".lock"}


@pytest.mark.parametrize("new", [b"shorter", bytes(CHUNK * BATCH * 5 + 1), b"x" * CHUNK * BATCH * 5])
def test_a_file_that_changes_while_it_is_sent_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: bytes) -> None:
    sending, job, lacks = Sending(tmp_path, monkeypatch), _job(tmp_path, bytes(CHUNK * BATCH * 5)), Cache.lacks

    def changes(cache: Cache, bundle: Bundle) -> list[str]:
        (tmp_path / "psg.parquet").write_bytes(new)
        return lacks(cache, bundle)

    monkeypatch.setattr(Cache, "lacks", changes)
    with pytest.raises(UserError, match=r"psg.parquet: has changed while it was sent; give the same command again"):
        sending.launch(job, tmp_path)


def test_a_cache_that_was_copied_with_its_machine_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines would count as one, of which one rank receives for all."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir(mode=0o700)
        (tmp_path / name / ".name").write_text("0" * 32)
    sending = Sending(tmp_path, monkeypatch)
    with pytest.raises(MachineError, match="other: has the name of the one of rank 1, as copied with its machine; remove it"):
        sending.launch(_job(tmp_path, b"content"), tmp_path)


def test_a_name_that_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    """As on a disk that was full."""
    cache = Cache(tmp_path / "cache")
    (cache.folder / ".name").write_text("")
    assert len(Cache(cache.folder).name) == 32
