"""This package's own models of event streams, asked as its rivals are: structure alone, one rank, strategy tgl-unique."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from math import nan

import numpy as np
import torch

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.streams.evaluation import evaluate
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.strategies.baselines.streams import TGL_UNIQUE
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.streams.rows.phase import VALIDATE
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload
from rivals.protocol import Epoch, Figures, Trained

PARTS = {
    "sample": ("SAMPLE", "GATHER", "H2D"),
    "memory": ("MEMORY_READ", "MEMORY_UPDATE"),
    "layers": ("AGGREGATE", "FORWARD"),
    "update": ("D2H", "MEMORY_WRITE"),
    "backward": ("BACKWARD", "OPTIMIZE"),
}


def run(
    stream: EventStream,
    *,
    choice: ModelChoice,
    batch_size: int,
    epochs: int,
    learning_rate: float,
    seed: int,
    threads: int,
    ranked: int = 20,
    patience: int = 0,
    hidden: float = 0.0,
    told: Callable[[Epoch], None] | None = None,
) -> Trained:
    """As `pyg_tgn.run`."""
    torch.set_num_threads(threads)
    set_threads(threads)
    data = PreparedStream.of(stream, Protocol(hidden=hidden, ranked=max(ranked, 1)))
    hyper = Hyper(batch_size=batch_size, fanout=(10,))
    shape = shape_for(choice, stream_statistics(data), hyper)
    context = Context(settings=Settings(threads=threads, learning_rate=learning_rate, seed=seed))
    material = StreamMaterial.on(data, choice, hyper, context)
    learner = material.learner(choice, context)
    schedule = TGL_UNIQUE.plan(Workload(stream.name, stream_statistics(data), shape, hyper), 1, UNUSED)
    program = EventProgram(schedule, material, learner, hyper, context)
    history: list[Epoch] = []
    best, kept = 0, None
    for number in range(epochs):
        done = execute(schedule, program, CpuLanes(False), "cpu")
        history.append(_epoch(schedule, done.trace, float(done.losses.mean()) / 2, done.scores["ap"]))
        if told is not None:
            told(history[-1])
        if kept is None or history[-1].validation_ap > history[best].validation_ap:
            best, kept = number, copy.deepcopy((learner.model.state_dict(), program.state.tables()))
        elif patience and number - best >= patience:
            break
    assert kept is not None
    learner.model.load_state_dict(kept[0])
    program.state.restore(kept[1])
    begin = time.perf_counter()
    scores = evaluate(program)
    test, new = (Figures(*(scores.get(f"{key}{ending}", nan) for key in ("ap", "auc", "mrr")), 0) for ending in ("", "_new"))
    return Trained(history, best, test, new, time.perf_counter() - begin)


def _epoch(schedule: Schedule, trace: Trace, loss: float, ap: float) -> Epoch:
    """Seconds from its trace; the first batch that validates begins where training ends."""
    trains = schedule.step != VALIDATE
    training = float(trace.end_ns[trains].max() - trace.start_ns.min()) / 1e9
    parts = {name: float(trace.duration_ns[trains & np.isin(trace.op, [Op[op] for op in ops])].sum()) / 1e9 for name, ops in PARTS.items()}
    return Epoch(loss, training, trace.span_ns / 1e9 - training, ap, parts)
