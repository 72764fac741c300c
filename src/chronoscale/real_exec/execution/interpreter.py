"""Interpreter: executes the rows of a schedule on real devices and returns what happened as a trace."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch

from chronoscale.datasets.scores import scores_present
from chronoscale.errors import NotFiniteError
from chronoscale.real_exec.execution.lanes import Lanes
from chronoscale.real_exec.execution.nonfinite import HELP, NonFiniteValue
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.ranks import positions
from chronoscale.real_exec.ranks.clock import own_clock, uncertainty_ns
from chronoscale.real_exec.ranks.positions import Phase
from chronoscale.strategies.row_name import row_name
from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.trace import Source, Trace


def execute(schedule: Schedule, program: Program, lanes: Lanes, device: str, during: str = "") -> Pass:
    """Run one pass over a schedule for real, on this rank's device; every rank of the process group calls it.

    program: runs this rank's rows; lanes: the streams or threads that they run on. device: its name, recorded in the trace. during: which
    pass or epoch it is, for error messages. The pass that is returned holds the times of all ranks' rows by rank 0's clock, on every rank;
    none where lanes are not timed. Ranks start together.

    Raises NotFiniteError on all ranks, with the same message, where training produces a number that is not finite: at the optimiser's step
    on a CPU, else at the end of the pass.
    """
    page = positions.own_page()
    program.begin()
    page.enter(Phase.MEETING)
    clock = own_clock()
    before = clock.measure()
    program.collective.barrier()
    page.enter_pass(schedule.name)
    try:
        start, end = lanes.run(program.tasks, in_profiler_ranges(page.record_rows(program.run)))
        program.check()
    except NonFiniteValue as error:
        raise NotFiniteError(_blame(error, schedule, program, program.finish().losses, during)) from None
    page.enter(Phase.TESTING)
    losses, result = np.zeros(schedule.iterations), program.finish()
    page.enter(Phase.MEETING)
    for iteration, share in result.losses.items():
        losses[iteration] = share
    if lanes.timed:
        after = clock.measure()
        start, end = (clock.to_common(times, before, after) for times in (start, end))
        trace = replace(_gather_times(schedule, program, start, end, device), clock_ns=uncertainty_ns(before, after))
    else:
        trace = Trace.untimed(schedule, device)
    losses = program.collective.sum_array(losses)
    if not np.isfinite(losses).all():  # of finite gradients: a square that overflows
        raise NotFiniteError(
            _blame(NonFiniteValue(int(np.argmin(np.isfinite(losses))), "the loss"), schedule, program, result.losses, during)
        )
    for score in scores_present([result.scores]):
        if not score.may_be_undefined and not math.isfinite(result.scores[score.key]):
            raise NotFiniteError(_blame(NonFiniteValue(None, f"the validation {score.title}"), schedule, program, {}, during))
    page.enter(Phase.PREPARING)
    return Pass(trace, losses, result.scores, result.counts, program.launched)


def _gather_times(schedule: Schedule, program: Program, start: Ints, end: Ints, device: str) -> Trace:
    """Return the trace of a pass from when this rank's rows started and ended, ns int64 [tasks]; called on every rank, which all get it."""
    rows = np.array([task.task for task in program.tasks], np.int64)
    times = np.zeros((3, len(schedule)), np.int64)
    times[0, rows], times[1, rows] = start, end
    for row, standing in program.stands.items():
        times[2, row] = standing + 1
    times = program.collective.sum_array(times)
    stands, times = times[2] - 1, times[:2]
    eager = stands < 0
    times[0, eager] = rendezvous(schedule, times[0], times[1])[eager]
    times[:, ~eager] = times[:, stands[~eager]]
    times -= times[0].min() if len(schedule) else 0
    return Trace.of(schedule, times[0], times[1], np.full(len(schedule), Source.MEASURED, np.uint8), device).fold(stands)


def _blame(error: NonFiniteValue, schedule: Schedule, program: Program, losses: Mapping[int, float], during: str) -> str:
    """Say in one line what was not finite first (an input, a loss, a gradient) and on which rank. Called on every rank."""
    iteration = -1 if error.iteration is None else error.iteration
    stages = ("an input", "the loss", error.quantity)
    guilty = (iteration >= 0 and not program.inputs_finite(iteration), not np.isfinite(losses.get(iteration, 0.0)), error.own)
    seen = np.zeros((len(stages), program.collective.ranks), np.int64)
    seen[:, program.collective.rank] = guilty
    seen = program.collective.sum_array(seen)
    if not seen.any():
        culprit, rank = f"{error.quantity}, added up over ranks,", "all ranks"
    else:
        first, at = (int(i[0]) for i in np.nonzero(seen))
        everywhere = error.iteration is None and program.collective.ranks > 1
        culprit, rank = stages[first], "all ranks" if everywhere else f"rank {at}"
    place = [rank, *([f"iteration {iteration}"] if iteration >= 0 else []), *([during] if during else [])]
    return f"strategy '{schedule.name}', {', '.join(place)}: {culprit} is not finite; {HELP}"


def rendezvous(schedule: Schedule, start: Ints, end: Ints) -> Ints:
    """Return measured start times, ns int64 [tasks], in which a collective starts when its last rank arrives, for waiting for others is no
    work.

    start, end: as measured, ns int64 [tasks], rows of all ranks.
    """
    together = np.flatnonzero(schedule.collective >= 0)
    if not len(together):
        return start
    _, group = np.unique(schedule.collective[together], return_inverse=True)
    arrival = np.zeros(group.max() + 1, np.int64)
    np.maximum.at(arrival, group, start[together])
    moved = start.copy()
    moved[together] = np.minimum(arrival[group], end[together])
    return moved


Run = Callable[[Task], None]


def in_profiler_ranges(run: Run) -> Run:
    """Return `run`, which executes a row, with each call inside a `record_function` range named after the row, while torch.profiler
    records; else `run` itself.

    A range takes microseconds. The profiler sees the thread that started it and what that launches; rows on other threads are not recorded.
    """
    if not torch.autograd.profiler._is_profiler_enabled:  # as torch.optim asks; there is no public way
        return run

    def inside(task: Task) -> None:
        with torch.profiler.record_function(row_name(task.task, task.op)):
            run(task)

    return inside
