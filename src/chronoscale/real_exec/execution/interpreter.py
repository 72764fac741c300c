"""Interpreter: walks the rows of a schedule on real devices and returns what happened as a Trace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist

from chronoscale.datasets.scores import scores_present
from chronoscale.errors import NotFiniteError
from chronoscale.real_exec.execution.blocks import Launched
from chronoscale.real_exec.execution.lanes import Lanes
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.execution.ranges import ranged
from chronoscale.real_exec.ranks import positions
from chronoscale.real_exec.ranks.positions import Phase
from chronoscale.real_exec.training.soundness import HELP, Unsound
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints, Schedule
from chronoscale.strategies.trace import Source, Trace

Numbers = TypeVar("Numbers", Ints, Floats)


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One pass over a schedule: its trace and the loss of every iteration, float64 [iterations].

    scores: of what validated at its end, by key; none where nothing did. counts: as of `EpochResult`. launched: how, where CUDA graphs were
    asked for; the trace has one row a graph.
    """

    trace: Trace
    losses: Floats
    scores: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    launched: Launched | None = None


def execute(schedule: Schedule, program: Program, lanes: Lanes, device: str, during: str = "") -> Pass:
    """Run the program's rank; every rank of the process group must call it. The result holds all ranks' tasks, on every rank.

    Ranks start together. Clocks are one clock: ranks of several machines would need theirs aligned first.

    during: which pass it is, for people. Raises NotFiniteError on all ranks, with the same line, where training comes to a number that is
    not finite: at the optimiser's step on a CPU, else at the end of the pass.
    """
    here = positions.own()
    program.begin()
    here.enter(Phase.MEETING)
    program.collective.barrier()
    here.enter_pass(schedule.name)
    try:
        start, end = lanes.run(program.tasks, ranged(here.marked(program.run)))
        program.check()
    except Unsound as found:
        raise NotFiniteError(_blame(found, schedule, program, program.finish().losses, during)) from None
    here.enter(Phase.TESTING)
    losses, result = np.zeros(schedule.iterations), program.finish()
    here.enter(Phase.MEETING)
    for iteration, share in result.losses.items():
        losses[iteration] = share
    rows = np.array([task.task for task in program.tasks], np.int64)
    times = np.zeros((3, len(schedule)), np.int64)
    times[0, rows], times[1, rows] = start, end
    for row, stands in program.stands.items():
        times[2, row] = stands + 1
    if program.collective.ranks > 1:
        times, losses = _sum(times), _sum(losses)
    if not np.isfinite(losses).all():  # of finite gradients: a square that overflows
        raise NotFiniteError(_blame(Unsound(int(np.argmin(np.isfinite(losses))), "the loss"), schedule, program, result.losses, during))
    for score in scores_present([result.scores]):
        if not score.may_be_undefined and not math.isfinite(result.scores[score.key]):
            raise NotFiniteError(_blame(Unsound(None, f"the validation {score.title}"), schedule, program, {}, during))
    stands, times = times[2] - 1, times[:2]
    eager = stands < 0
    times[0, eager] = rendezvous(schedule, times[0], times[1])[eager]
    times[:, ~eager] = times[:, stands[~eager]]
    times -= times[0].min() if len(schedule) else 0
    here.enter(Phase.PREPARING)
    source = np.full(len(schedule), Source.MEASURED, np.uint8)
    trace = Trace.of(schedule, times[0], times[1], source, device).fold(stands)
    return Pass(trace, losses, result.scores, result.counts, program.launched)


def _blame(found: Unsound, schedule: Schedule, program: Program, losses: Mapping[int, float], during: str) -> str:
    """What was not finite first, and on which rank: an input, before the loss of it, before a gradient. Called on every rank."""
    own = -1 if found.iteration is None else found.iteration
    stages = ("an input", "the loss", found.what)
    guilty = (own >= 0 and not program.sound(own), not np.isfinite(losses.get(own, 0.0)), found.own)
    seen = np.zeros((len(stages), program.collective.ranks), np.int64)
    seen[:, dist.get_rank() if program.collective.ranks > 1 else 0] = guilty
    if program.collective.ranks > 1:
        seen = _sum(seen)
    if not seen.any():
        what, rank = f"{found.what}, added up over ranks,", "all ranks"
    else:
        first, at = (int(i[0]) for i in np.nonzero(seen))
        everywhere = found.iteration is None and program.collective.ranks > 1
        what, rank = stages[first], "all ranks" if everywhere else f"rank {at}"
    place = [rank, *([f"iteration {own}"] if own >= 0 else []), *([during] if during else [])]
    return f"strategy '{schedule.name}', {', '.join(place)}: {what} is not finite; {HELP}"


def rendezvous(schedule: Schedule, start: Ints, end: Ints) -> Ints:
    """Starts with collectives moved to the arrival of their last rank: waiting is no work. int64 [tasks]."""
    together = np.flatnonzero(schedule.collective >= 0)
    if not len(together):
        return start
    _, group = np.unique(schedule.collective[together], return_inverse=True)
    arrival = np.zeros(group.max() + 1, np.int64)
    np.maximum.at(arrival, group, start[together])
    moved = start.copy()
    moved[together] = np.minimum(arrival[group], end[together])
    return moved


def _sum(values: Numbers) -> Numbers:
    """Over ranks; every entry is non-zero on one rank only, or a share."""
    tensor = torch.from_numpy(values)
    if dist.get_backend() == "nccl":
        tensor = tensor.cuda()
    dist.all_reduce(tensor)
    return cast(Numbers, tensor.cpu().numpy())


def medians(passes: Sequence[Pass]) -> Ints:
    """Median duration of every task over passes, outliers beyond 1.5 interquartile ranges rejected; ns, int64 [tasks]."""
    times = np.stack([p.trace.duration_ns for p in passes]).astype(np.float64)
    low, high = np.quantile(times, [0.25, 0.75], axis=0)
    reach = 1.5 * (high - low)
    kept = np.where((times >= low - reach) & (times <= high + reach), times, np.nan)
    middle: Floats = np.nanmedian(kept, axis=0)
    return np.rint(middle).astype(np.int64)
