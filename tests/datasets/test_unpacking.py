"""Packed files that come to more than memory holds: refused by their sizes, and where these are wrong, no more of them is read."""

import gzip
import io
import resource
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from chronoscale.datasets import unpacking
from chronoscale.datasets.archive import read_archive, read_shapes
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.formats.tables.lines import read_bytes, text_lines
from chronoscale.errors import UserError
from chronoscale.strategies.formats import kineto

BLOCK = 1 << 24


def header(count: int) -> bytes:
    """Of a .npy of so many bytes."""
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({count},), }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def bomb(path: Path, blocks: int, promised: int | None = None, in_directory: int | None = None) -> Path:
    """An archive with an array of zeros, `blocks` of 16 MiB that are compressed once; what its header and its directory promise."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    count = blocks * BLOCK
    first = pack.compress(header(count if promised is None else promised)) + pack.flush(zlib.Z_FULL_FLUSH)
    block = pack.compress(bytes(BLOCK)) + pack.flush(zlib.Z_FULL_FLUSH)
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("src.npy")
        archive.writestr(info, first + block * blocks + pack.flush())
        info.compress_type = zipfile.ZIP_DEFLATED
        info.file_size = len(header(count)) + count if in_directory is None else in_directory
    return path


@pytest.fixture
def little(monkeypatch):
    """A machine with a megabyte of memory."""
    monkeypatch.setattr(unpacking, "free_memory", lambda: 1_000_000)


def test_an_archive_is_refused_by_its_sizes(tmp_path, little):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, src=np.zeros(100_000), dst=np.zeros(100_000))
    with pytest.raises(UserError, match=r"a.npz: [\d.]+ kB that unpack to 1.6 MB, and 1 MB of memory are free; it was not read"):
        read_archive(path)
    assert read_shapes(path) == {"src": (100_000,), "dst": (100_000,)}
    np.savez_compressed(path, src=np.zeros(100_000))
    assert read_archive(path)["src"].size == 100_000


def test_sizes_that_differ_are_refused(tmp_path):
    """A header that promises more than the directory would be allocated; of a member that holds more than both, the rest is not read."""
    with pytest.raises(UserError, match="a header promises 8,000,000,128 bytes, the directory 16,777,344"):
        read_archive(bomb(tmp_path / "header.npz", 1, promised=8_000_000_000))
    with pytest.raises(UserError, match=r"truncated or not a .npz archive"):
        read_archive(bomb(tmp_path / "directory.npz", 4, promised=BLOCK, in_directory=BLOCK + 128))


def test_nine_gigabytes_are_refused_where_memory_holds_them(tmp_path, monkeypatch):
    """8.7 MB that deflate has packed as much as it can; and a file as large whose content is more than one byte is not suspected."""
    monkeypatch.setattr(unpacking, "free_memory", lambda: 1 << 40)
    with pytest.raises(UserError, match=r"8.\d\d MB that unpack to 8.99 GB; it was not read. If that is meant, save it unpacked"):
        read_archive(bomb(tmp_path / "bomb.npz", 536))
    (tmp_path / "large").write_bytes(bytes(9_000_000))
    unpacking.require_memory(tmp_path / "large", 4_000_000_000)


def test_what_is_packed_absurdly_is_not_unpacked_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "SMALL", 1 << 20)
    packed = gzip.compress(b"1 2 3\n" * 1_000_000)
    (path := tmp_path / "events.txt.gz").write_bytes(packed)
    with pytest.raises(UserError, match=r"events.txt.gz: [\d.]+ kB that unpack to more than [\d.]+ MB. If that is meant, save it unpacked"):
        monkeypatch.setattr(unpacking, "MAX_RATIO", 100)
        unpacking.gunzip(path, packed)
    with pytest.raises(UserError, match=r"events.txt.gz: more than 100 times as much as the file is long"):
        for _ in io.BufferedReader(unpacking.UnpackingReader(path, gzip.GzipFile(path))):
            pass
    monkeypatch.setattr(unpacking, "MAX_RATIO", 1000)
    assert len(unpacking.gunzip(path, packed)) == 6_000_000


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("0::/own", {"memory.max": "5000000\n", "memory.current": "4000000\n", "memory.stat": "anon 3000000\nfile 1000000\n"}),
        (
            "4:memory:/own",
            {"memory.limit_in_bytes": "5000000\n", "memory.usage_in_bytes": "4000000\n", "memory.stat": "cache 1000000\nrss 3000000\n"},
        ),
    ],
)
def test_a_containers_memory_is_the_room(tmp_path, monkeypatch, line, files):
    kinds = line.split(":")[1]
    (tmp_path / "own").mkdir()
    for name, text in files.items():
        (tmp_path / "own" / name).write_text(text)
    (tmp_path / "cgroup").write_text(f"9:name=systemd:/\n{line}\n")
    monkeypatch.setattr(unpacking, "OWN_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(unpacking, "_GROUPS", {kinds: (tmp_path, *unpacking._GROUPS[kinds][1:])})
    assert unpacking.free_memory() == 2_000_000
    (tmp_path / "own" / next(iter(files))).write_text("max\n" if not kinds else f"{1 << 62}\n")
    assert unpacking.free_memory() > 2_000_000


@pytest.mark.slow
def test_nine_gigabytes_in_nine_megabytes(tmp_path):
    """In a process that may take two: what reads them ends with MemoryError."""
    path = bomb(tmp_path / "b.npz", 537)
    assert path.stat().st_size < 9e6
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000,) * 2)  # noqa: E731
    code = "import sys; from chronoscale.__main__ import main; sys.argv = ['chronoscale', 'data', 'info', sys.argv[1]]; main()"
    run = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, preexec_fn=limit)
    assert run.returncode == 2 and run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"error: {path}: 8.") and "MB that unpack to 9.01 GB, and 1." in line


def test_gzip_is_read_as_far_as_memory_holds_it(tmp_path, little):
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b" " * 499_999))
    assert len(read_bytes(path)) == 499_999
    path.write_bytes(gzip.compress(b" " * 600_000))
    for read in (read_bytes, kineto.read):
        with pytest.raises(UserError, match=r"a.json.gz: [0-9.]+ bytes that unpack to more than 500 kB, half of the memory that is free"):
            read(path)


def test_lines_of_any_number_are_read_and_none_of_any_length(tmp_path, little):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"1,2,3\n" * 300_000))
    assert sum(1 for _ in text_lines(path)) == 300_000
    path.write_bytes(gzip.compress(b"1,2,3\n" + b"1" * 4_000_000))
    with pytest.raises(UserError, match=r"a.csv.gz: a line of more than 250 kB, a quarter of the memory that is free"):
        open_dataset(path, "plain")
