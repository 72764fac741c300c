"""The libraries themselves: found or missing, across a fork, and compiled."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from native_case import needs_cpu

import chronoscale
from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.graph import CSR

SOURCES = Path(chronoscale.__file__).parent / "cuda_ext" / "csrc"

WITHOUT_LIBRARY = """
import warnings
import numpy, torch
from chronoscale.cuda_ext.native.backend import backends
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.cuda_ext.scheduling.greedy import pair_groups
from chronoscale.cuda_ext.operators.aggregation import aggregate
graph = CSR(torch.tensor([0, 2]), torch.tensor([0, 1], dtype=torch.int32), None, 2)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(2):
        assert aggregate(graph, torch.tensor([[1.0], [2.0]])).item() == 3.0
        assert pair_groups(numpy.ones(2), numpy.full((2, 1), 0.5), 1, ties="reuse").iteration.tolist() == [0, 0]
assert [w.category.__name__ for w in seen] == ["ChronoscaleWarning"] * 2, seen
print(backends())
"""


@needs_cpu
def test_a_forked_child_has_its_own_threads() -> None:
    nodes = 20_000
    graph = CSR(torch.arange(0, 8 * nodes + 1, 8), torch.arange(8 * nodes, dtype=torch.int32) % nodes, None, nodes)
    x = torch.randn(nodes, 32)
    expected = aggregate(graph, x, "cpu").numpy()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a deadlock ends the child, and the test fails
        # Compared by NumPy: torch's own OpenMP threads did not survive the fork, and it would wait for them.
        os._exit(0 if all(np.array_equal(aggregate(graph, x, "cpu").numpy(), expected) for _ in range(3)) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.slow
def test_a_missing_library_warns_once_and_computes(tmp_path: Path) -> None:
    environment = {**os.environ, "CHRONOSCALE_LIBRARY_DIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    source = Path(chronoscale.__file__).parents[1]
    environment["PYTHONPATH"] = os.pathsep.join([str(source), environment.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", WITHOUT_LIBRARY], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['reference']"


def test_a_broken_library_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "libchronoscale_cpu.so").write_bytes(b"not a library")
    environment = {**os.environ, "CHRONOSCALE_LIBRARY_DIR": str(tmp_path), "PYTHONPATH": str(Path(chronoscale.__file__).parents[1])}
    program = "from chronoscale.cuda_ext.native.loader import cpu_library; cpu_library()"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert "MachineError" in done.stderr and "does not load" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("source", sorted(path.name for path in (SOURCES / "cuda").glob("*.cu")))
def test_the_cuda_kernels_compile(tmp_path: Path, source: str) -> None:
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("nvcc is not installed")
    command = [compiler, "-std=c++17", "-arch=sm_90", "-cubin", "-o", str(tmp_path / "out.cubin"), str(SOURCES / "cuda" / source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
