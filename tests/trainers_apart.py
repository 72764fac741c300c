"""benchmarks/rivals/processes.py with processes that are forked, not begun anew: for a child of tests/forked.py, which has run nothing."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from core.case import Setting
from rivals import processes
from subjects import snapshot_rivals

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
    sequence = snapshot_rivals.cut(GrowthGraph.rmat(80, 300, 12, 0.2, 1).sequence(), 1, 5)
    for name in ("psg", "torch"):
        asked = processes.Asked(name, sequence, model_shape("t-gcn", WIDTH, WIDTH), snapshot_rivals.HYPER, snapshot_rivals.RATE, 0)
        with processes.Apart(asked) as trainer:
            print(name, trainer.timed(1), trainer.timed(2), end=" ")
        print(trainer._process.exitcode)


def bench() -> None:
    """Time the subject's contestants on a drawn graph, and print a line of each."""
    passes = snapshot_rivals.times("growth-80", "t-gcn", 2, "torch", 0, 4, Setting(1, 1, Path()))
    for who, (only,) in passes.items():
        print(who, "|", only["seconds"])
