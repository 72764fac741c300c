"""Contents that a machine keeps of jobs: which go where there are too many, and which stay."""

import hashlib
import os
import resource
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from attached_cases import job_of, meet

from chronoscale.errors import UserError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.bundle import Bundle, Cache, Content
from chronoscale.real_exec.ranks.contents_bound import STAY_S, VARIABLE, lock_contents
from chronoscale.real_exec.ranks.rank_end import AttachedEnd

KB = 1000


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A cache that keeps 3 kB; contents of these tests take 1 kB each."""
    monkeypatch.setenv(VARIABLE, "3e-6")
    return Cache(tmp_path / "cache")


def bundle(*names: str) -> Bundle:
    """A bundle with a content for each name, which it repeats."""
    return Bundle({}, tuple(Content(f"{name}.bin", _sha256(name), KB) for name in names))


def _content(name: str) -> bytes:
    return name.encode() * KB


def _sha256(name: str) -> str:
    return hashlib.sha256(_content(name)).hexdigest()


def receive(cache: Cache, *names: str) -> list[str]:
    """Do what a job of these contents does; return the names of those that it lacked."""
    of = {_sha256(name): name for name in names}
    lacking = cache.lacks(bundle(*names))
    for sha256 in lacking:
        cache.add(sha256, iter([_content(of[sha256])]))
    return [of[sha256] for sha256 in lacking]


def age(cache: Cache, days: float, *names: str) -> None:
    """Let contents have been used some days ago; when they came, too."""
    for name in names:
        then = time.time() - days * STAY_S
        os.utime(cache.folder / _sha256(name), (then, then))


def kept(cache: Cache, *names: str) -> str:
    """Those of some contents that are there, and no others are."""
    there = [name for name in names if (cache.folder / _sha256(name)).exists()]
    assert len([path for path in cache.folder.iterdir() if path.name[0] != "."]) == len(there)
    return "".join(there)


def test_the_least_recently_used_go(cache: Cache) -> None:
    """Not those that came first."""
    for name, days in (("a", 9), ("b", 8), ("c", 7)):
        assert receive(cache, name) == [name]
        age(cache, days, name)
    assert receive(cache, "a") == []
    age(cache, 2, "a")
    assert receive(cache, "d") == ["d"] and kept(cache, *"abcd") == "acd"
    age(cache, 2, "d")
    assert receive(cache, "e", "f", "e") == ["e", "f"] and kept(cache, *"abcdef") == "def"


def test_what_there_is_room_for_stays(cache: Cache) -> None:
    receive(cache, "a", "b")
    age(cache, 99, "a", "b")
    receive(cache, "c")
    assert kept(cache, *"abc") == "abc"


def test_contents_of_the_bundle_stay_beyond_the_bound(cache: Cache) -> None:
    receive(cache, "a", "b")
    age(cache, 9, "a", "b")
    assert receive(cache, *"abcdef") == [*"cdef"] and kept(cache, *"abcdef") == "abcdef"


def test_a_use_does_not_look_like_a_change(cache: Cache) -> None:
    """A content that was hashed once is not read again because it was used, and counts as used even so."""
    receive(cache, "a")
    receive(cache, "a")
    before = (cache.folder / _sha256("a")).stat()
    os.utime(cache.folder / _sha256("a"), ns=(before.st_atime_ns - int(9e9 * STAY_S), before.st_mtime_ns))
    before = (cache.folder / _sha256("a")).stat()
    assert receive(cache, "a") == []
    after = (cache.folder / _sha256("a")).stat()
    assert after.st_mtime_ns == before.st_mtime_ns and after.st_atime > before.st_atime + 8 * STAY_S


@pytest.mark.parametrize("days", [0.9, 1.1])
def test_of_two_jobs_that_begin_neither_loses_its_contents(cache: Cache, days: float) -> None:
    """Each has seen what is there; after a day neither is about to begin any more."""
    receive(cache, "a", "b", "c")
    age(cache, days, "a", "b", "c")
    receive(cache, "a")
    receive(cache, "d", "e")
    assert kept(cache, *"abcde") == ("abcde" if days < 1 else "ade")


def test_jobs_at_once_find_what_they_asked_for(cache: Cache) -> None:
    """Eight, with contents in common, while those of old jobs go."""
    receive(cache, *"uvwxyz")
    age(cache, 9, *"uvwxyz")
    wanted = [f"ab{letter}{letter.upper()}" for letter in "cdefghij"]

    def begin(names: str) -> list[bytes]:
        receive(Cache(cache.folder), *names)
        return [(cache.folder / _sha256(name)).read_bytes() for name in names]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(begin, wanted)) == [[_content(name) for name in names] for names in wanted]
    assert kept(cache, *"uvwxyz", *sorted(set("".join(wanted)))) == "".join(sorted(set("".join(wanted))))


def test_what_a_running_job_holds_stays(cache: Cache, tmp_path: Path) -> None:
    """For however long it runs, in whatever process; and no longer."""
    receive(cache, "a", "b")
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "link").symlink_to(cache.folder / _sha256(name))
    age(cache, 9, "a", "b")
    code = "import sys; from pathlib import Path; from chronoscale.real_exec.ranks.contents_bound import lock_contents\n"
    code += f"with lock_contents(Path({str(tmp_path / 'b')!r})): print('holds', flush=True); sys.stdin.read()"
    with (
        lock_contents(tmp_path / "a"),
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
    ):
        assert other.stdout is not None and other.stdout.readline() == "holds\n"
        receive(cache, *"cdef")
        assert kept(cache, *"abcdef") == "abcdef"
        other.kill()
    receive(cache, "g")
    assert kept(cache, *"abcdefg") == "cdefg"


def test_an_attached_process_holds_what_its_rank_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another job comes whose contents there is no room for."""
    first, second = meet(tmp_path, monkeypatch, machines=2)
    monkeypatch.setenv(VARIABLE, "0")
    left = list[int]()

    def run(entry: str, path: Path, job: Job, store: str, ranks: int, is_stopped: Callable[[str], bool]) -> AttachedEnd:
        for content in (cache := Cache()).folder.iterdir():
            os.utime(content, (0, 0))
        receive(cache, "x")
        left.append(len([path for path in cache.folder.iterdir() if path.name[0] != "."]))
        assert Path(job.items[0].schedule).read_bytes() == b"schedule"
        return AttachedEnd()

    with ThreadPoolExecutor() as threads:
        attending = threads.submit(second.attend, run, pytest.fail)
        try:
            first.launch("", job_of(tmp_path), 2, tmp_path / "job.json", lambda *given: AttachedEnd())
        finally:
            first.close(0)
        attending.result()
    assert left == [7]


def test_without_the_variable_half_of_what_is_free_is_taken(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of what they take already: a full disk is no reason to remove all, nor an empty one to keep all."""
    usage, free = namedtuple("usage", ["total", "used", "free"]), [0]
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10**9, 0, free[0]))
    monkeypatch.delenv(VARIABLE)
    receive(cache, "a", "b")
    age(cache, 9, "a")
    age(cache, 8, "b")
    free[0] = 4 * KB
    receive(cache, "c")
    assert kept(cache, *"abc") == "abc"
    free[0] = 4 * KB - 1
    receive(cache, "d")
    assert kept(cache, *"abcd") == "bcd"


@pytest.mark.parametrize("text", ["many", "-1", "inf", "nan"])
def test_a_bound_that_is_none_is_one_line(cache: Cache, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(UserError, match=rf"^{VARIABLE}: '{text}', expected a number of gigabytes, such as 50$"):
        cache.lacks(bundle("a"))


def test_drafts_that_nobody_writes_any_more_go(cache: Cache) -> None:
    """As of a process that was killed; not those that a process is writing."""
    (cache.folder / ".draft-left").write_bytes(b"some")

    def chunks() -> Iterator[bytes]:
        yield _content("a")
        cache.lacks(bundle("b"))
        assert len(list(cache.folder.glob(".draft-*"))) == 1

    cache.add(_sha256("a"), chunks())
    assert kept(cache, "a") == "a" and not list(cache.folder.glob(".draft-*"))


def test_a_bound_beyond_the_disk_is_the_disk(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contents go where there would be no room for more, whatever the variable allows."""
    monkeypatch.setenv(VARIABLE, "500")
    receive(cache, "a", "b")
    age(cache, 9, "a", "b")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=500))
    receive(cache, "c")
    assert kept(cache, *"abc") in ("ac", "bc")


def test_a_job_of_many_files_holds_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = list[tuple[int, int]]()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    for number in range(600):
        (tmp_path / f"{number}.bin").write_bytes(b"")
        (tmp_path / str(number)).symlink_to(tmp_path / f"{number}.bin")
    with lock_contents(tmp_path):
        assert limits == [(1112, 4096)]
