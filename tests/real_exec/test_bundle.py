"""A job and its files on their way to other machines."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest
from attached_cases import job_of

from chronoscale.batching.streams.prepared import META, PreparedMetadata
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.ranks.bundle import Bundle, Cache, hash_file
from chronoscale.records import read_json
from chronoscale.strategies.workload import Hyper, ModelChoice


def test_a_bundle_has_what_ranks_read_and_no_absolute_path(tmp_path: Path) -> None:
    bundle, sources = Bundle.pack(job_of(tmp_path))
    assert str(tmp_path) not in bundle.to_json()
    received, cache = Bundle.from_json(bundle.to_json()), Cache(tmp_path / "cache")
    assert sorted(cache.lacks(received)) == sorted(sources)
    for sha256, source in sources.items():
        cache.add(sha256, iter([source.read_bytes()]))
    assert not cache.lacks(received)
    (folder := tmp_path / "other").mkdir()
    item = Job.load(received.unpack(folder, cache)).items[0]
    assert (folder / item.schedule).read_bytes() == b"schedule" and (folder / item.dataset / "src.npy").read_bytes() == b"src"


@pytest.mark.parametrize("in_place", [False, True])
def test_a_prepared_stream_takes_its_events_along(tmp_path: Path, in_place: bool) -> None:
    """They lie beside it, or where the user has them: other machines read a copy, and find it from the prepared stream's own folder."""
    prepared = PreparedMetadata(str(tmp_path / "stream") if in_place else "../stream", Protocol())
    job = job_of(tmp_path)
    (tmp_path / "stream").mkdir()
    (tmp_path / "stream" / "time.npy").write_bytes(b"time")
    (tmp_path / "data" / META).write_text(json.dumps(asdict(prepared)))
    bundle, sources = Bundle.pack(job)
    assert str(tmp_path) not in bundle.to_json()
    cache = Cache(tmp_path / "cache")
    for sha256, source in sources.items():
        cache.add(sha256, iter([source.read_bytes()]))
    (tmp_path / "stream" / "time.npy").unlink()
    (folder := tmp_path / "other").mkdir()
    data = folder / Job.load(Bundle.from_json(bundle.to_json()).unpack(folder, cache)).items[0].dataset
    received = read_json(data / META, PreparedMetadata, "record")
    assert received.protocol == prepared.protocol and (data / received.stream / "time.npy").read_bytes() == b"time"


def test_a_content_that_several_jobs_bring_at_once_is_whole(tmp_path: Path) -> None:
    (tmp_path / "content").write_bytes(b"0123456789")
    sha256, together = hash_file(tmp_path / "content"), threading.Barrier(4, timeout=20)

    def chunks() -> Iterator[bytes]:
        for digit in b"0123456789":
            together.wait()
            yield bytes([digit])

    def fetch(_: int) -> bytes:
        cache = Cache(tmp_path / "cache")
        cache.add(sha256, chunks())
        return (cache.folder / sha256).read_bytes()

    with ThreadPoolExecutor() as threads:
        assert list(threads.map(fetch, range(4))) == [b"0123456789"] * 4


def test_damaged_content_is_refused_and_dropped(tmp_path: Path) -> None:
    bundle, sources = Bundle.pack(job_of(tmp_path))
    cache, sha256 = Cache(tmp_path / "cache"), hash_file(tmp_path / "psg.parquet")
    with pytest.raises(MachineError, match="damaged on its way"):
        cache.add(sha256, iter([b"something else"]))
    assert sorted(cache.lacks(bundle)) == sorted(sources)
    cache.add(sha256, iter([b"sche", b"dule"]))
    (cache.folder / sha256).write_bytes(b"SCHEDULE")
    assert sha256 in cache.lacks(bundle)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    (tmp_path / "psg.parquet").unlink()
    with pytest.raises(UserError, match=r"psg\.parquet: no such file"):
        Bundle.pack(job)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", ""])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    bundle, _ = Bundle.pack(job_of(tmp_path))
    file, text = json.loads(bundle.to_json()), json.loads(bundle.to_json())
    file["files"][0]["path"], text["texts"][path] = path, "{}"
    for changed in (file, text):
        with pytest.raises(MachineError, match="leaves its folder"):
            Bundle.from_json(json.dumps(changed))


def test_a_cache_that_others_can_open_is_refused(tmp_path: Path) -> None:
    (folder := tmp_path / "cache").mkdir(mode=0o755)
    with pytest.raises(MachineError, match="only you can open"):
        Cache(folder)


def test_every_path_of_a_job_is_changed_and_what_is_not_set_is_not(tmp_path: Path) -> None:
    job, seen = job_of(tmp_path), list[str]()

    def change(path: str) -> str:
        seen.append(path)
        return f"there/{Path(path).name}"

    changed = job.map_paths(change)
    names = ["psg.parquet", "data", "parts.npy", "prepare.parquet", "topology.xml", "mine.py", "out"]
    assert [Path(path).relative_to(tmp_path).as_posix() for path in seen] == names
    item = changed.items[0]
    read = [item.schedule, item.dataset, item.parts, item.prepare, changed.settings.topology, *changed.modules, changed.out]
    assert read == [f"there/{name}" for name in names]
    bare = Job("x", (Item("psg", "", "", Hyper()),), "", ModelChoice("wd-gcn"), 1)
    assert bare.map_paths(change) == bare


def test_a_bundle_names_no_path_of_the_machine_that_packed_it(tmp_path: Path) -> None:
    """A file that is looked for there would be found only where the job was packed."""
    bundle, _ = Bundle.pack(job_of(tmp_path))
    assert str(tmp_path) not in bundle.to_json()
