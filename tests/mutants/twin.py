"""Twin: a copy of the repository that its tests import, whatever way the package is installed here."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fault import Fault, Unfit

from chronoscale import cuda_ext

ROOT = Path(__file__).parents[2]
LEFT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "runs", "mutants")
LIMIT_S = 600
# One copy of the row kernels, for any machine: a few seconds, where the real build makes three with all optimisations.
COMPILE = "g++ -std=c++17 -O1 -fPIC -shared -fvisibility=hidden -ffp-contract=off -fopenmp-simd -DCS_ISA=baseline -DCS_VECTOR=16 -pthread"
PROOF = "import chronoscale, chronoscale.cuda_ext as native; print(chronoscale.__file__, *native.__path__, sep='\\n')"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`killed`: the test that failed first, '' for none."""

    killed: str
    seconds: float


class Twin:
    """The copy in `folder`, with an interpreter of its own.

    An editable install finds the package by an import hook that comes before every path, in child processes too. The interpreter here
    is a virtual environment whose one .pth file names the copy, then the site-packages in use: hooks in those do not run.
    """

    def __init__(self, folder: Path) -> None:
        self.root, self.package = folder / "repository", folder / "repository" / "src" / "chronoscale"
        shutil.copytree(ROOT, self.root, symlinks=True, ignore=LEFT)
        for built in (library for place in cuda_ext.__path__ for library in Path(place).glob("*.so")):
            shutil.copy(built, self.package / "cuda_ext")
        venv.create(folder / "venv", symlinks=True)
        self.python = folder / "venv" / "bin" / "python"
        (site,) = (folder / "venv").glob("lib/python*/site-packages")
        packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
        (site / "twin.pth").write_text("\n".join([str(self.package.parent), *packages]))
        self.environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PYTHONDONTWRITEBYTECODE": "1"}
        self.environment.setdefault("CHRONOSCALE_DATA", str(ROOT.parent / "shared" / "data"))
        self.prove()

    def prove(self) -> None:
        """Assert that what is imported here is the copy, and nothing but the copy."""
        done = subprocess.run([self.python, "-c", PROOF], cwd=self.root, env=self.environment, capture_output=True, text=True, check=True)
        initial, *native = done.stdout.splitlines()
        assert Path(initial) == self.package / "__init__.py", f"the tests would import {initial}"
        assert [Path(place) for place in native] == [self.package / "cuda_ext"], f"the kernels would come from {native}"

    def build(self) -> None:
        """The library of the CPU kernels from this copy's sources. Raises Unfit where they do not compile."""
        sources = sorted((self.package / "cuda_ext" / "csrc" / "cpu").glob("*.cpp"))
        out = self.package / "cuda_ext" / "libchronoscale_cpu.so"
        done = subprocess.run([*COMPILE.split(), *map(str, sources), "-o", str(out)], capture_output=True, text=True)
        if done.returncode:
            raise Unfit(f"does not compile: {done.stderr.splitlines()[0]}")

    @contextmanager
    def seeded(self, fault: Fault) -> Iterator[None]:
        """The fault is in the copy. Raises Unfit as `Fault.seeded` and `build` do."""
        path = self.package / fault.file
        if not path.is_file():
            raise Unfit(f"{fault.file}: no such file under src/chronoscale")
        text = path.read_text()
        path.write_text(fault.seeded(text))
        try:
            if fault.native:
                self.build()
            yield
        finally:
            path.write_text(text)
            if fault.native:
                self.build()

    def test(self, tests: list[str]) -> Verdict:
        """Run tests up to the first that fails. Raises Unfit where there are none to run."""
        command = [self.python, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests]
        begin = time.monotonic()
        running = subprocess.Popen(
            command, cwd=self.root, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
        )
        try:
            said, _ = running.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            return Verdict(f"the time limit of {LIMIT_S} s", time.monotonic() - begin)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        seconds = time.monotonic() - begin
        if running.returncode == 0:
            if re.search(r"^\d+ skipped", said.splitlines()[-1]):
                raise Unfit("its tests are skipped here")
            return Verdict("", seconds)
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
        if failed is None:
            raise Unfit(f"pytest ended with code {running.returncode}: {said.strip().splitlines()[-1]}")
        return Verdict(failed[1].removeprefix("tests/"), seconds)
