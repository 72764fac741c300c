"""Twin: a copy of the repository that its tests import, whatever way the package is installed here, and the warm server that runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import library
from anchor import Unfit
from fault import Fault

from chronoscale import cuda_ext

ROOT = Path(__file__).parents[2]
LEFT = shutil.ignore_patterns(".*", "__pycache__", "mutants")
WRITTEN = {"build", "dist", "runs"}  # at the root alone: what commands write there
LIMIT_S = 240
PROOF = "import chronoscale, chronoscale.cuda_ext as native; print(chronoscale.__file__, *native.__path__, sep='\\n')"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`failed`: tests, in order, and whether the first is slow; `passed` and `skipped`: how many."""

    failed: list[str]
    slow: bool
    passed: int
    skipped: int
    seconds: float
    cpu: float


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Return which entries of a folder the copy does without."""
    return LEFT(folder, names) | (WRITTEN.intersection(names) if Path(folder) == ROOT else set())


class Twin:
    """The copy in `folder`, with an interpreter of its own.

    An editable install finds the package by an import hook that comes before every path, in child processes too. The interpreter here
    is a virtual environment whose one .pth file names the copy, then the site-packages in use: hooks in those do not run.
    """

    def __init__(self, folder: Path, objects: Path) -> None:
        self.root, self.package, self.objects = folder / "repository", folder / "repository" / "src" / "chronoscale", objects
        shutil.copytree(ROOT, self.root, symlinks=True, ignore=_left_out)
        for built in (file for place in cuda_ext.__path__ for file in Path(place).glob("*.so")):
            shutil.copy(built, self.package / "cuda_ext")
        venv.create(folder / "venv", symlinks=True)
        self.python = folder / "venv" / "bin" / "python"
        (site,) = (folder / "venv").glob("lib/python*/site-packages")
        packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
        (site / "twin.pth").write_text("\n".join([str(self.package.parent), *packages]))
        self.environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PYTHONDONTWRITEBYTECODE": "1"}
        self.environment.setdefault("CHRONOSCALE_DATA", str(ROOT.parent / "shared" / "data"))
        self.written = 0
        self.prove()
        self.server = subprocess.Popen(
            [self.python, Path(__file__).with_name("warm.py"), self.package],
            cwd=self.root,
            env=self.environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def prove(self) -> None:
        """Assert that what is imported here is the copy, and nothing but the copy."""
        done = subprocess.run([self.python, "-c", PROOF], cwd=self.root, env=self.environment, capture_output=True, text=True, check=True)
        initial, *native = done.stdout.splitlines()
        assert Path(initial) == self.package / "__init__.py", f"the tests would import {initial}"
        assert [Path(place) for place in native] == [self.package / "cuda_ext"], f"the kernels would come from {native}"

    def close(self) -> None:
        self.server.communicate()

    @contextmanager
    def built(self) -> Iterator[None]:
        """The library of the CPU kernels is the one of this copy's sources. Raises Unfit where they do not compile."""
        out = self.package / "cuda_ext" / "libchronoscale_cpu.so"
        sound = out.with_suffix(".sound")
        out.rename(sound)
        try:
            shutil.copy(sound, out)
            library.build(list((self.package / "cuda_ext" / "csrc" / "cpu").glob("*.cpp")), self.objects, out)
            yield
        finally:
            sound.replace(out)

    @contextmanager
    def compiled(self) -> Iterator[None]:
        """The operators in C++ are those of this copy's sources. Raises Unfit where they do not compile."""
        out = next((self.package / "cuda_ext").glob("libchronoscale_torch-*.so"), None)
        if out is None:
            raise Unfit("the operators in C++ are not compiled here: chronoscale compile")
        sound = out.with_suffix(".sound")
        shutil.copy(out, sound)
        try:
            run = [self.python, "-m", "chronoscale", "compile"]
            done = subprocess.run(run, cwd=self.root, env=self.environment, capture_output=True, text=True)
            if done.returncode:
                raise Unfit(done.stderr.strip())
            yield
        finally:
            sound.replace(out)

    @contextmanager
    def seeded(self, fault: Fault) -> Iterator[None]:
        """The fault is in the copy. Raises Unfit as `Fault.seeded` and `built` do."""
        path = self.package / fault.file
        if not path.is_file():
            raise Unfit(f"{fault.file}: no such file under src/chronoscale")
        text = path.read_text()
        self._write(path, fault.seeded(text))
        try:
            with self.built() if fault.native else self.compiled() if fault.operators else nullcontext():
                yield
        finally:
            self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        """Bytecode is valid for a size and a second: no two writings share one."""
        path.write_text(text)
        self.written += 1
        os.utime(path, (self.written, self.written))

    def test(self, tests: list[str], *, fast: bool = False, full: bool = False, every: bool = False) -> Verdict:
        """Run tests up to the first that fails, or all; `full`: with the second tier's number of drawn examples. Raises Unfit where pytest
        does not run them."""
        assert self.server.stdin is not None and self.server.stdout is not None
        request = {"tests": tests, "fast": fast, "full": full, "all": every, "limit_s": LIMIT_S * (10 if every else 1)}
        print(json.dumps(request), file=self.server.stdin, flush=True)
        line = self.server.stdout.readline()
        if not line:
            raise Unfit("the warm server ended")
        said = json.loads(line)
        verdict = Verdict(said["failed"], full or said["slow"][:1] == [True], said["passed"], said["skipped"], said["seconds"], said["cpu"])
        if said["code"] == "limit":
            return Verdict([f"the time limit of {LIMIT_S} s"], True, 0, 0, verdict.seconds, verdict.cpu)
        if not verdict.failed and said["code"] not in (0, 5):
            raise Unfit(f"pytest ended with {said['code']}")
        return verdict
