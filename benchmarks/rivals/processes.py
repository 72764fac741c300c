"""Trainers in processes of their own, as their users have them: what one does to its process is not there for another."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Literal, NamedTuple

import torch

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.job import Settings
from chronoscale.strategies.baselines.snapshots.whole_groups import PSG
from chronoscale.strategies.workload import Hyper, ModelShape
from rivals.plain_torch import PlainTorch
from rivals.pygt import Pygt, Taken
from rivals.snapshots import ROWS, Ours
from rivals.windows import Trainer, Windows, timed

Name = Literal["psg", "rows", "pygt", "once", "torch", "ahead"]


class Asked(NamedTuple):
    """What is trained, and how."""

    name: Name
    sequence: SnapshotSequence
    shape: ModelShape
    hyper: Hyper
    rate: float
    seed: int


class Apart:
    """One, asked for an epoch at a time. Ends with its `with`."""

    def __init__(self, request: Asked) -> None:
        spawning = get_context("spawn")
        self._pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_serve, args=(theirs, request), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._pipe.close()
        self._process.join()

    def timed(self, threads: int) -> float:
        """Seconds of an epoch, a window. Raises EOFError where the process has failed; it has said why."""
        self._pipe.send(threads)
        answer: float = self._pipe.recv()
        return answer


def _serve(pipe: Connection, request: Asked) -> None:
    warnings.simplefilter("ignore")  # torch on its sparse matrices
    ours = request.name in ("psg", "rows")
    with open_context(Settings(learning_rate=request.rate, seed=request.seed)) if ours else nullcontext() as context:
        trainer = _trainer(request, context)
        while True:
            try:
                threads = pipe.recv()
            except EOFError:
                return
            torch.set_num_threads(threads)
            set_threads(threads)
            pipe.send(timed(trainer))


def _trainer(request: Asked, context: Context | None) -> Trainer:
    """All begin with the weights of ours."""
    planner = ROWS if request.name == "rows" else PSG
    trainer = Ours(request.sequence, request.shape, request.hyper, request.rate, request.seed, context, planner)
    if request.name in ("psg", "rows"):
        return trainer
    windows = Windows.of(request.sequence, trainer.material, request.hyper, request.shape.predicts_each)
    if request.name in ("torch", "ahead"):
        return PlainTorch(trainer.model, windows, request.rate, ahead=request.name == "ahead")
    return Pygt(trainer.model, windows, request.rate, Taken(once=request.name == "once"))
