"""CUDA graphs: a program whose blocks of rows are captured once and then replayed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from chronoscale.errors import MachineError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.device_lanes import DeviceLanes, Event, Graph
from chronoscale.real_exec.execution.graph_blocks import GraphBlocks, merge_rows
from chronoscale.real_exec.execution.lanes import Lanes
from chronoscale.real_exec.execution.launch_summary import LaunchSummary
from chronoscale.real_exec.execution.losses import LossShare
from chronoscale.real_exec.execution.program import EpochResult, Program
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.execution.transfers import acquire
from chronoscale.strategies.schedule import Lane

WARMING = "the first pass: what is captured has to have run before"


class _Captured(NamedTuple):
    """A captured graph, and the loss shares of its rows, float32 [n] on the device; None for no share."""

    graph: Graph
    noted: Tensor | None


class GraphedProgram(Program):
    """A rank's program, wrapped so that blocks of its rows are launched as CUDA graphs.

    The first pass runs row by row, while libraries, kernels and the optimiser allocate what they keep. From the second on, a block is
    captured when its shape first occurs, and replayed whenever it occurs. Rows outside blocks are launched by themselves.

    Within a graph, rows keep their lanes and dependencies; graphs follow one another on the lane of computation and share one memory pool.
    Loss shares are copied out after every replay. why: in words, where nothing is to be captured.
    """

    def __init__(self, program: Program, lanes: Lanes, why: str = "") -> None:
        self.tasks, self.collective = program.tasks, program.collective
        self._program = program
        self._rows = program.tasks
        self._passes = 0
        self._why = why
        self._graphs: dict[Hashable, _Captured] = {}
        if not why:
            assert isinstance(lanes, DeviceLanes) and isinstance(program.graph_blocks, GraphBlocks)
            self._lanes, self._blocks = lanes, program.graph_blocks
            self._merged, self._pool = merge_rows(program.tasks, program.graph_blocks), lanes.device.pool()

    @property
    def launched(self) -> LaunchSummary:
        return self._launched

    @property
    def stands(self) -> Mapping[int, int]:
        return {} if self._launched.why else self._merged.stands

    def begin(self) -> None:
        self._passes += 1
        self._launched = LaunchSummary(why=self._why or (WARMING if self._passes == 1 else ""))
        self.tasks = self._rows if self._launched.why else self._merged.tasks
        self._program.begin()

    def run(self, task: Task) -> None:
        """Run a row of the schedule on the GPU, or replay the CUDA graph that the row stands for.

        Raises MachineError where its rows cannot be captured.
        """
        if self._launched.why or task.task not in self._merged.rows:
            self._program.run(task)
            return
        rows = self._merged.rows[task.task]
        self._blocks.load_inputs(rows)
        shape = self._blocks.shape(rows)
        first = shape not in self._graphs
        if first:
            try:
                self._graphs[shape] = self._capture(rows)
            except RuntimeError as error:
                message = f"iteration {task.iteration} could not be captured as a CUDA graph: {error}; launch: eager runs it row by row"
                raise MachineError(message) from error
        self._launched = LaunchSummary(self._launched.graphs + 1, self._launched.captured + first)
        self._replay(self._graphs[shape], task.iteration)

    def check(self) -> None:
        self._program.check()

    def inputs_finite(self, iteration: int) -> bool:
        return self._program.inputs_finite(iteration)

    def finish(self) -> EpochResult:
        return self._program.finish()

    def test_scores(self) -> Mapping[str, float]:
        return self._program.test_scores()

    def _capture(self, rows: Sequence[Task]) -> _Captured:
        """Capture rows as a graph, each on the stream of its lane; none of them runs yet."""
        device = self._lanes.device
        of = self._lanes.lane
        notes = self._blocks.shares
        before, compute = len(notes), of[Lane.COMPUTE]
        joined = [of[lane] for lane in dict.fromkeys(task.lane for task in rows) if lane is not Lane.COMPUTE]
        graph = device.graph(self._pool)
        ends = dict[int, Event]()
        begin = device.event()
        with graph.capture(compute):
            begin.record(compute)
            for stream in joined:
                stream.wait_event(begin)
            for task in rows:
                stream = of[task.lane]
                for need in task.deps:
                    if need in ends:  # others have ended: their graph came before
                        stream.wait_event(ends[need])
                with device.on(stream):
                    self._program.run(task)
                    ends[task.task] = device.event()
                    ends[task.task].record(stream)
            for stream in joined:
                end = device.event()
                end.record(stream)
                compute.wait_event(end)
            with device.on(compute):
                noted = torch.stack([acquire(note.value) for note in notes[before:]]) if notes[before:] else None
        del notes[before:]
        return _Captured(graph, noted)

    def _replay(self, captured: _Captured, iteration: int) -> None:
        captured.graph.replay()
        if captured.noted is not None:
            self._blocks.shares.extend(LossShare(iteration, value) for value in captured.noted.clone())


def with_cuda_graphs(program: Program, lanes: Lanes, context: Context, timed: bool = False) -> Program:
    """Return a rank's program as the job's settings launch it: itself, or wrapped so that blocks of rows are launched as CUDA graphs.

    lanes: those that will run it. timed: rows are timed one by one, which graphs would hide, so that nothing is captured.
    """
    if context.settings.launch != "graph":
        return program
    why = program.graph_blocks if isinstance(program.graph_blocks, str) else ""
    if timed:
        why = "its rows are timed, for the plan that follows"
    return GraphedProgram(program, lanes, why)
