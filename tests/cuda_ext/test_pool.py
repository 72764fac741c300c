"""Helper threads: where they may run, seen by the system's own account of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import chronoscale
from chronoscale.cuda_ext.native.backend import backends

pytestmark = pytest.mark.skipif(
    "cpu" not in backends() or not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 3,
    reason="needs the native library, Linux, and three cores",
)
PROGRAM = """
import os, sys, threading
from pathlib import Path
import numpy
from chronoscale.cuda_ext.scheduling.greedy import pair_groups  # needs no torch, which has threads of its own

def masks():
    found = {}
    for status in Path("/proc/self/task").glob("*/status"):
        line = next(line for line in status.read_text().splitlines() if line.startswith("Cpus_allowed_list"))
        parts = [part.split("-") for part in line.split()[1].split(",")]
        found[int(status.parent.name)] = {core for part in parts for core in range(int(part[0]), int(part[-1]) + 1)}
    return found

times, reuse = numpy.arange(400.0), numpy.ones((400, 1))
before = set(masks())
for cores in sys.argv[2:]:
    allowed = {int(core) for core in cores.split(",")}
    os.sched_setaffinity(0, allowed)
    pair_groups(times, reuse, 8, threads=1 + int(sys.argv[1]))
    helpers = [mask for thread, mask in masks().items() if thread not in before]
    print(allowed == masks()[threading.get_native_id()], len(helpers), [sorted(mask) for mask in helpers], flush=True)
"""


def places(helpers: int, *masks: list[int]) -> list[list[list[int]]]:
    """Cores that each helper may use, while the caller may use `masks` one after another."""
    path = os.pathsep.join([str(Path(chronoscale.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", PROGRAM, str(helpers), *(",".join(map(str, mask)) for mask in masks)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    results = []
    for line in done.stdout.splitlines():
        same, count, rest = line.split(" ", 2)
        assert same == "True", "the caller was moved"
        assert int(count) == helpers
        results.append([[int(core) for core in one.split(",")] for one in rest.strip("[]").split("], [")])
    return results


def test_a_helper_runs_where_its_caller_may_but_beside_it() -> None:
    a, b, c = sorted(os.sched_getaffinity(0))[-3:]
    one, two, three = places(1, [a, b], [b, c], [a, b, c])
    assert one in ([[a]], [[b]])  # the caller has the other one
    assert two in ([[b]], [[c]])  # the mask has changed, and it follows
    assert len(three[0]) == 2, "it is not pinned to one core, where another process may be"


def test_more_helpers_than_other_cores_run_everywhere() -> None:
    a, b = sorted(os.sched_getaffinity(0))[:2]
    assert places(2, [a, b], [a]) == [[[a, b], [a, b]], [[a], [a]]]
