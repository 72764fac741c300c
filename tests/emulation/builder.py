"""Compiles the CUDA sources as C++: a libchronoscale_cuda.so with the same interface, for tests alone."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from unittest import mock

import chronoscale
from chronoscale.cuda_ext import loader
from emulation.convert import convert

CSRC = Path(chronoscale.__file__).parent / "cuda_ext" / "csrc"
HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "build" / "emulation"  # by content: what is there need not be compiled again
NAME = "libchronoscale_cuda.so"
PLAIN = ("-O2",)
SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
PORTABLE = (*PLAIN, "-DEMU_UCONTEXT")  # as on machines for which fiber.cpp has no switch of its own
_FLAGS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas")
_TEXTS = ("cuda/*.cu", "cuda/*.cuh", "cuda/*.h", "common/*.h")


def compiler() -> str | None:
    """The C++ compiler, or None."""
    return shutil.which(os.environ.get("CXX", "g++"))


def build(csrc: Path = CSRC, flags: tuple[str, ...] = PLAIN) -> Path:
    """The folder in which the library of csrc/cuda lies, compiled with `flags`. Raises RuntimeError with what the compiler said."""
    sources = {p.relative_to(csrc): p.read_text() for pattern in _TEXTS for p in sorted(csrc.glob(pattern))}
    runtime = {
        p.relative_to(HERE): p.read_text() for pattern in ("*.cpp", "*.h", "include/*.h", "convert.py") for p in sorted(HERE.glob(pattern))
    }
    command = (str(compiler()), *_FLAGS, *flags)
    version = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
    folder = CACHE / _digest(version, command, sources, runtime)
    if not (folder / NAME).exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as work:
            _compile(Path(work), sources, csrc, command)
            folder.mkdir(exist_ok=True)
            (Path(work) / NAME).replace(folder / NAME)
    return folder


@cache
def library(csrc: Path = CSRC, flags: tuple[str, ...] = PLAIN) -> ctypes.CDLL:
    """The emulated library, as the loader gives it; emu_seed(n) chooses the order of its blocks and threads."""
    with mock.patch.dict(os.environ, {loader.DIRECTORY_VARIABLE: str(build(csrc, flags))}):
        found = loader.cuda_library.__wrapped__()
    assert found is not None, "the emulated device is not available"
    found.emu_seed.argtypes, found.emu_seed.restype = [ctypes.c_uint], None
    found.emu_refuse.argtypes, found.emu_refuse.restype = [ctypes.c_int], None
    return found


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def _compile(work: Path, sources: dict[Path, str], csrc: Path, command: tuple[str, ...]) -> None:
    for name, text in sources.items():
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(f'#line 1 "{csrc / name}"\n' + convert(text, str(name)))
    units = [work / name for name in sources if name.suffix == ".cu"] + sorted(HERE.glob("*.cpp"))
    include = ("-I", str(HERE / "include"), "-I", str(HERE))
    jobs = []
    for unit in units:
        line = [*command, *include, "-x", "c++", "-c", str(unit), "-o", str(work / f"{unit.name}.o")]
        jobs.append((line, subprocess.Popen(line, stderr=subprocess.PIPE, text=True)))
    said = [f"{' '.join(line)}\n{errors}" for line, job in jobs for errors in [job.communicate()[1]] if job.returncode]
    if said:
        raise RuntimeError("the emulated kernels do not compile:\n" + "\n".join(said))
    objects = [str(work / f"{unit.name}.o") for unit in units]
    subprocess.run([*command, "-shared", *objects, "-o", str(work / NAME), "-lpthread"], check=True)
