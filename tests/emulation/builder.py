"""Builder of the emulated CUDA library: compiles the CUDA sources as C++ into a libchronoscale_cuda.so with the same interface."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from unittest import mock

import chronoscale
from chronoscale.cuda_ext.native import loader
from emulation.convert import convert

CSRC = Path(chronoscale.__file__).parent / "cuda_ext" / "csrc"
HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "build" / "emulation"  # objects and libraries by content: what is there is not compiled again
NAME = "libchronoscale_cuda.so"
PLAIN = ("-O2",)
SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
CHOSEN = SANITIZED if os.environ.get("EMULATION") == "sanitized" else PLAIN  # as sanitizer.environment says
PORTABLE = (*PLAIN, "-DEMU_UCONTEXT")  # as on machines for which fiber.cpp has no switch of its own
_FLAGS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique")
_CUDA = ("cuda/*.cu", "cuda/*.cuh", "cuda/*.h", "common/*.h")
_RUNTIME = ("*.cpp", "*.h", "include/*.h")
_Texts = dict[Path, str]


def compiler() -> str | None:
    """Return the C++ compiler, or None where there is none."""
    return shutil.which(os.environ.get("CXX", "g++"))


def build(csrc: Path = CSRC, flags: tuple[str, ...] = PLAIN) -> Path:
    """Compile csrc/cuda with `flags`, once for each content, and return the library's folder.

    Raises RuntimeError with what the compiler said.
    """
    command = (str(compiler()), *_FLAGS, *flags)
    texts = {path: f'#line 1 "{path}"\n{convert(text, str(path))}' for path, text in _read(csrc, _CUDA).items()}
    texts |= {Path("runtime") / path: text for path, text in _read(HERE, _RUNTIME).items()}
    units = [path for path in texts if path.suffix in (".cu", ".cpp")]
    common = (_version(command[0]), command, {path: text for path, text in texts.items() if path not in units})
    objects = {path: CACHE / f"{_digest(common, path, texts[path])}.o" for path in units}
    folder = CACHE / _digest(*objects.values())
    if not (folder / NAME).exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with open(CACHE / "lock", "w") as lock, tempfile.TemporaryDirectory(dir=CACHE) as work:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another worker of the suite may be at it
            if not (folder / NAME).exists():
                _compile(Path(work), texts, objects, command)
                subprocess.run([*command, "-shared", *map(str, objects.values()), "-o", f"{work}/{NAME}", "-lpthread"], check=True)
                folder.mkdir(exist_ok=True)
                Path(work, NAME).replace(folder / NAME)
    return folder


@cache
def library(csrc: Path = CSRC, flags: tuple[str, ...] = CHOSEN) -> ctypes.CDLL:
    """The emulated library, as the loader gives it, with emu_seed(n), which draws the order of blocks and threads anew, and
    emu_refuse(error), from which on every launch fails with that error of CUDA's (0: no longer)."""
    with mock.patch.dict(os.environ, {loader.DIRECTORY_VARIABLE: str(build(csrc, flags))}):
        found = loader._load(NAME, loader._CUDA, "cs_cuda_version")
    assert found is not None and found.cs_cuda_available() == 0
    found.emu_seed.argtypes, found.emu_seed.restype = [ctypes.c_uint], None
    found.emu_refuse.argtypes, found.emu_refuse.restype = [ctypes.c_int], None
    return found


def _read(folder: Path, patterns: tuple[str, ...]) -> _Texts:
    return {path.relative_to(folder): path.read_text() for pattern in patterns for path in sorted(folder.glob(pattern))}


@cache
def _version(command: str) -> str:
    return subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def _compile(work: Path, texts: _Texts, objects: dict[Path, Path], command: tuple[str, ...]) -> None:
    for path, text in texts.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text)
    jobs = []
    for number, (path, made) in enumerate(objects.items()):
        if not made.exists():
            line = [*command, "-Iruntime/include", "-Iruntime", "-x", "c++", "-c", str(path), "-o", f"{number}.o"]
            jobs.append((work / f"{number}.o", made, subprocess.Popen(line, cwd=work, stderr=subprocess.PIPE, text=True)))
    said = [errors for _, _, job in jobs for errors in [job.communicate()[1]] if job.returncode]
    if said:
        raise RuntimeError("the emulated kernels do not compile:\n" + "\n".join(said))
    for fresh, made, _ in jobs:
        fresh.replace(made)
