"""benchmarks/rivals/processes.py with processes that are forked, not begun anew: for a child of tests/forked.py, which has run nothing."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import bench_pygt
from rivals import processes

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.strategies.snapshots.models import model_shape

WIDTH = 8


class Forking:
    """A context of multiprocessing whose processes are forks that close the end of the pipe that is not theirs."""

    def __init__(self, method: str) -> None:
        self._context = multiprocessing.get_context("fork")

    def Pipe(self) -> tuple[Connection, Connection]:
        self._ours, theirs = self._context.Pipe()
        return self._ours, theirs

    def Process(self, target: Callable[..., None], args: tuple[object, ...], daemon: bool) -> BaseProcess:
        def begin() -> None:
            self._ours.close()
            target(*args)

        return self._context.Process(target=begin, daemon=daemon)


processes.get_context = Forking  # type: ignore[attr-defined]


def time_each() -> None:
    """Print each trainer's seconds an epoch with one thread and with two, and how its process has ended."""
    sequence = bench_pygt.cut(GrowthGraph.rmat(80, 300, 12, 0.2, 1).sequence(), 1, 5)
    for name in ("psg", "flaredtdg", "torch"):
        asked = processes.Asked(name, sequence, model_shape("t-gcn", WIDTH, WIDTH), bench_pygt.HYPER, bench_pygt.RATE, 0)
        with processes.Apart(asked) as trainer:
            print(name, trainer.timed(1), trainer.timed(2), end=" ")
        print(trainer._process.exitcode)


def bench() -> None:
    """Run the benchmark on a drawn graph."""
    bench_pygt.load = lambda name: GrowthGraph.rmat(80, 300, 12, 0.2, 1).sequence()  # type: ignore[attr-defined]
    bench_pygt.main()
