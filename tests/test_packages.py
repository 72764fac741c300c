"""The archives' inspection finds what it is for, and the source archive leaves out the links to the rooms."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import packages
import pytest

ROOT = Path(__file__).parents[1]
LONG = b"a" * 200
SOURCES = {"LICENSE": b"", "src/chronoscale/__init__.py": LONG, "src/chronoscale/strategies/costing/kernels.yaml": b"a: 1"}
LIBRARY = "chronoscale/cuda_ext/libchronoscale_{}.so"
INFO = "chronoscale-1.dist-info"
TAG = "py3-none-manylinux_2_34_x86_64"
CONTENT = {
    **{name.removeprefix("src/"): content for name, content in SOURCES.items() if name.startswith("src/")},
    LIBRARY.format("cpu"): b"1",
    LIBRARY.format("cuda"): b"2",
    f"{INFO}/licenses/LICENSE": b"",
    f"{INFO}/WHEEL": f"Wheel-Version: 1.0\nTag: {TAG}\n".encode(),
}


def archives(folder: Path, sources: dict[str, bytes], content: list[tuple[str, bytes]], tag: str = TAG) -> tuple[Path, Path]:
    sdist, wheel = folder / "chronoscale-1.tar.gz", folder / f"chronoscale-1-{tag}.whl"
    with tarfile.open(sdist, "w:gz") as archive:
        for name, data in sources.items():
            member = tarfile.TarInfo(f"chronoscale-1/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in content:
            archive.writestr(name, data)
    return sdist, wheel


def test_sound_archives_have_no_faults(tmp_path: Path) -> None:
    given = archives(tmp_path, SOURCES, list(CONTENT.items()))
    assert packages.faults(*given, ["cpu", "cuda"]) == []
    command = [sys.executable, str(ROOT / "tests" / "packages.py"), *map(str, given), "cpu"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "libchronoscale_cuda.so does not belong there" in done.stderr
    assert subprocess.run([*command, "cuda"]).returncode == 0


@pytest.mark.parametrize(
    ("sources", "without", "besides", "tag", "fault"),
    [
        ({"strategies/__init__.py": LONG}, "", [], TAG, "src/chronoscale/__init__.py, strategies/__init__.py are one file"),
        ({"src/chronoscale/more.yaml": b""}, "", [], TAG, "chronoscale/more.yaml is missing"),
        ({}, LIBRARY.format("cuda"), [], TAG, "libchronoscale_cuda.so is missing"),
        ({}, "", [(LIBRARY.format("cpu"), b"1")], TAG, "libchronoscale_cpu.so is there 2 times"),
        ({}, "", [("chronoscale.libs/libgomp-1.so", b"")], TAG, "libgomp-1.so does not belong there"),
        ({}, f"{INFO}/licenses/LICENSE", [], TAG, "no licence"),
        ({}, "", [], "py3-none-linux_x86_64", "expected a manylinux tag"),
        ({}, "", [], "py3-none-manylinux_2_28_x86_64", "the same inside"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_fault_is_found(tmp_path: Path, sources, without: str, besides, tag: str, fault: str) -> None:
    content = [(name, data) for name, data in CONTENT.items() if name != without]
    (problem,) = packages.faults(*archives(tmp_path, SOURCES | sources, content + besides, tag), ["cpu", "cuda"])
    assert fault in problem


def test_the_source_archive_leaves_out_every_link() -> None:
    links = [path.name for path in ROOT.iterdir() if path.is_symlink()]
    excluded = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]["sdist"]["exclude"]
    assert {f"/{name}" for name in links} <= set(excluded)
