"""The native CPU library when memory runs out, on any thread: a status, not the end of the process."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from chronoscale.cuda_ext.native.loader import cpu_library

DRIVER = Path(__file__).parent / "native" / "memory.cpp"


@pytest.mark.slow
def test_every_allocation_may_fail(tmp_path: Path) -> None:
    library, compiler = cpu_library(), os.environ.get("CXX") or shutil.which("c++")
    if library is None or compiler is None:
        pytest.skip("no native library, or no C++ compiler for the driver")
    built = Path(library._name)
    program = tmp_path / "memory"
    options = ["-std=c++17", "-O1", f"-I{built.parent / 'csrc' / 'common'}", f"-I{_headers()}", f"-Wl,-rpath,{built.parent}", "-pthread"]
    subprocess.run([compiler, *options, str(DRIVER), "-o", str(program), str(built)], check=True, timeout=120)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    starved = {line.split(":")[0] for line in done.stdout.splitlines() if not line.endswith(" 0 times out of memory")}
    assert {
        "aggregate",
        "aggregate in bfloat16",
        "increment",
        "greedy",
        "band_matching",
        "exchange",
        "distinct, marked",
        "distinct, sorted",
        "caches",
    } <= starved


def _headers() -> Path:
    return Path(__file__).parents[2] / "src" / "chronoscale" / "cuda_ext" / "csrc" / "common"
