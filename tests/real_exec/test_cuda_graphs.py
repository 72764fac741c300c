"""`launch: graph` on a pretended GPU: what eager launches compute, no finding, and in words what is not captured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import family_jobs
import numpy as np
import pytest
import torch
from emulation import compiler, library
from lane_programs import groups
from pairwise import fast
from pretended import CUDA, pretended
from torch import Tensor

from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.binding import bind_program, run_preparation
from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.execution.cuda_graphs import GraphedProgram, with_cuda_graphs
from chronoscale.real_exec.execution.graph_blocks import GraphBlocks, merge_rows
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import make_lanes
from chronoscale.real_exec.execution.launch_summary import LaunchSummary
from chronoscale.real_exec.execution.losses import Losses, LossShare
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.execution.program import EpochResult, Program
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.measurement.kernels import AbsentPeers
from chronoscale.strategies.schedule import Lane, Op, Schedule

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="the kernels are emulated, which needs a C++ compiler"),
    pytest.mark.filterwarnings("ignore:attention to slots has no kernel for CUDA"),
]
CLOSE = 1e-6  # of the largest
EPOCHS = 3
FEW = {("pgt-dcrnn", "gpu-index"), ("wd-gcn", "psg"), ("wd-gcn", "all map"), ("gat-lstm", "all delta"), ("evolvegcn-h", "psg")}
CAPTURED = fast(
    [
        *(("pgt-dcrnn", name) for name in ("index", "gpu-index", "gen-dist-index")),
        *(("wd-gcn", name) for name in ("psg", "all rows", "all map")),
        *(("gat-lstm", "all delta"), ("evolvegcn-h", "psg"), ("t-gcn", "blad")),
    ],
    lambda _, case: case in FEW,
)
ROW_BY_ROW = {
    ("t-gcn", "flaredtdg"): "every epoch draws its own windows or samples, and shapes change with them",
    ("t-gcn", "dynagraph"): "every epoch draws its own windows or samples, and shapes change with them",
    ("t-gcn", "esdg"): "groups that are spread over ranks are not captured yet",
    ("tgn", "fast"): "batches differ in the rows that are sampled, and the host works between rows of the device",
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    return {job.model.name: job for job in family_jobs.jobs(tmp_path_factory.mktemp("cases"), family_jobs.REHEARSED)}


def trained(job: Job, name: str, launch: str, epochs: int = EPOCHS) -> tuple[list[Pass], list[dict[str, Tensor]]]:
    """Passes of one strategy, and the model's parameters after each."""
    (item,) = (item for item in job.items if item.label == name)
    with pretended(library()) as findings:
        context = Context(Settings(seed=family_jobs.SEED, launch=launch), CUDA)
        schedule = Schedule.load(Path(item.schedule))
        run_preparation(item, job.model, context)
        inner = bind_program(item, schedule, job.model, context)
        lanes = context.lanes(schedule)
        program, done, weights = with_cuda_graphs(inner, lanes, context), [], []
        for _ in range(epochs):
            done.append(execute(schedule, program, lanes, "cuda"))
            weights.append({key: value.detach().cpu().clone() for key, value in inner.learner.model.state_dict().items()})  # type: ignore[attr-defined]
    assert not findings, str(findings)
    return done, weights


def same(one: float | np.ndarray | Tensor, other: float | np.ndarray | Tensor) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    return bool(np.abs(one - other).max() <= CLOSE * max(np.abs(one).max(), 1e-3))


@pytest.mark.sample(2)
@pytest.mark.parametrize(("model", "name"), CAPTURED)
def test_graphs_compute_what_rows_do(jobs: dict[str, Job], model: str, name: str) -> None:
    """Losses, scores and parameters of every epoch; each epoch changes the parameters. A batch's graph is replayed in the epoch that
    captures it, an iteration's only in the next."""
    epochs = EPOCHS - (model == "pgt-dcrnn" and name != "gpu-index")
    (eager, weights), (done, result) = (trained(jobs[model], name, launch, epochs) for launch in ("eager", "graph"))
    for here, there in zip(eager, done, strict=True):
        assert same(here.losses, there.losses)
        assert here.scores.keys() == there.scores.keys() and all(same(here.scores[key], there.scores[key]) for key in here.scores)
    for ours, theirs in zip(weights, result, strict=True):
        assert all(same(ours[key], theirs[key]) for key in ours)
    assert all(any(not torch.equal(each[key], after[key]) for key in each) for each, after in pairwise(result))
    first, second, *rest = [each.launched for each in done]
    assert first is not None and first.why and not first.graphs
    assert second is not None and second.captured > 0
    assert all(each == LaunchSummary(second.graphs) for each in rest)
    assert [len(each.trace) for each in done][:2] == [len(eager[0].trace), len(done[-1].trace)]


def test_one_graph_serves_all_batches_of_a_size(jobs: dict[str, Job]) -> None:
    """Four steps in batches of 8, two of validation, the last of which is smaller."""
    done, _ = trained(jobs["pgt-dcrnn"], "gpu-index", "graph", 2)
    assert done[1].launched == LaunchSummary(6, 3)


@pytest.mark.slow
def test_a_trace_has_a_row_for_each_graph_and_what_is_outside(jobs: dict[str, Job]) -> None:
    done, _ = trained(jobs["pgt-dcrnn"], "index", "graph", 3)
    trace, whole = done[-1].trace, done[0].trace
    counted = {op.name: int((trace.op == op).sum()) for op in (Op.GATHER, Op.H2D, Op.GRAPH, Op.OPTIMIZE)}
    assert counted == {"GATHER": 6, "H2D": 6, "GRAPH": 6, "OPTIMIZE": 4} and len(trace) == 22
    assert set(trace.task) < set(whole.task) and (trace.lane[trace.op == Op.GRAPH] == Lane.COMPUTE).all()
    assert (np.diff(trace.start_ns[trace.op == Op.GRAPH]) >= 0).all() and (trace.duration_ns > 0).all()
    last = whole.task[
        (whole.op == Op.BACKWARD) | ((whole.op == Op.FORWARD) & ~np.isin(whole.task + 1, whole.task[whole.op == Op.BACKWARD]))
    ]
    assert set(trace.task[trace.op == Op.GRAPH]) == set(last)


@pytest.mark.parametrize(("model", "name"), ROW_BY_ROW)
def test_what_is_not_captured_says_why(jobs: dict[str, Job], model: str, name: str) -> None:
    (item,) = (item for item in jobs[model].items if item.label == name)
    with pretended(library()):
        context = Context(Settings(seed=family_jobs.SEED, launch="graph"), CUDA)
        schedule = Schedule.load(Path(item.schedule))
        program = with_cuda_graphs(bind_program(item, schedule, jobs[model].model, context), context.lanes(schedule), context)
        done = [execute(schedule, program, context.lanes(schedule), "cuda") for _ in range(2)]
    assert [each.launched for each in done] == 2 * [LaunchSummary(why=ROW_BY_ROW[model, name])]
    assert str(done[0].launched) == f"launched row by row, not as CUDA graphs: {ROW_BY_ROW[model, name]}"
    assert all(len(each.trace) == len(schedule) for each in done)


def test_one_of_several_ranks(jobs: dict[str, Job]) -> None:
    """The others say nothing; what ranks do together is not captured."""
    with pretended(library()) as findings:
        program = groups("wd-gcn", "every", ranks=3, device=CUDA)
        whole = GraphedProgram(program, lanes := make_lanes(CUDA))
        for _ in range(3):
            whole.begin()
            lanes.run(whole.tasks, whole.run)
            whole.check()
            whole.finish()
    assert not findings, str(findings)
    assert whole.launched.graphs > 0 and Op.ALLREDUCE in {task.op for task in whole.tasks}


def test_timed_rows_and_probes_are_launched_one_by_one(jobs: dict[str, Job]) -> None:
    (item,) = (item for item in jobs["wd-gcn"].items if item.label == "psg")
    with pretended(library()):
        context = Context(Settings(seed=family_jobs.SEED, launch="graph"), CUDA)
        schedule = Schedule.load(Path(item.schedule))
        probing = context.for_item(replace(item, probes=True))
        program = bind_program(item, schedule, jobs["wd-gcn"].model, probing)
        assert with_cuda_graphs(program, context.lanes(schedule), probing) is program
        timed = with_cuda_graphs(program, context.lanes(schedule), context, timed=True)
        timed.begin()
    assert timed.launched is not None and timed.launched.why == "its rows are timed, for the plan that follows"


def test_a_cpu_refuses_graphs() -> None:
    with pytest.raises(UserError, match="launch: graph is of a GPU"), open_context(Settings(device="cpu", launch="graph")):
        pass


class Numbered(GraphBlocks):
    """Blocks by the iteration; rows of the host by themselves."""

    shares: list[LossShare] = []  # noqa: RUF012 (none)

    def of(self, task: Task) -> int | None:
        return None if task.lane is Lane.HOST else task.iteration

    def shape(self, rows: Sequence[Task]) -> int:
        return rows[0].iteration


def rows(*given: tuple[Lane, int, tuple[int, ...]]) -> list[Task]:
    return [Task(number, Op.FORWARD, lane, iteration, 0, 0, 0, 0, deps) for number, (lane, iteration, deps) in enumerate(given)]


def test_a_block_waits_for_what_its_rows_wait_for() -> None:
    host, h2d, compute = Lane.HOST, Lane.H2D, Lane.COMPUTE
    result = merge_rows(rows((host, 0, ()), (h2d, 0, (0,)), (compute, 0, (1,)), (host, 1, (2,)), (h2d, 1, (3, 2))), Numbered())
    assert [(task.task, task.lane, task.deps) for task in result.tasks] == [
        *((0, host, ()), (2, compute, (0,)), (3, host, (2,)), (4, compute, (2, 3)))
    ]
    assert [task.op for task in result.tasks] == [Op.FORWARD, Op.GRAPH, Op.FORWARD, Op.GRAPH]
    assert {last: [task.task for task in own] for last, own in result.rows.items()} == {2: [1, 2], 4: [4]}
    assert result.stands == {1: 2, 2: 2, 4: 4}


def test_a_row_within_a_block_that_waits_for_it_is_refused() -> None:
    with pytest.raises(ValueError, match="row 1 waits for a CUDA graph that has not ended before it"):
        merge_rows(rows((Lane.COMPUTE, 0, ()), (Lane.HOST, 0, (0,)), (Lane.COMPUTE, 0, (1,))), Numbered())


def test_the_hosts_work_is_in_no_graph() -> None:
    (row,) = rows((Lane.COMPUTE, 0, ()))
    with pytest.raises(ValueError, match="row 0 is the host's work"):
        merge_rows([row._replace(hosted=True)], Numbered())


def test_a_capture_that_fails_ends_the_run_with_what_to_do() -> None:
    class Failing(Program):
        tasks, collective = rows((Lane.COMPUTE, 0, ())), AbsentPeers(1)
        graph_blocks = Numbered()  # type: ignore[assignment]
        passes = 0

        def begin(self) -> None:
            self.passes += 1

        def run(self, task: Task) -> None:
            if self.passes > 1:
                raise RuntimeError("operation not permitted when stream is capturing")

        def finish(self) -> EpochResult:
            return EpochResult()

    with pretended(library()):
        program = GraphedProgram(Failing(), lanes := make_lanes(CUDA))
        for _ in range(2):
            program.begin()
            if program.launched.why:
                lanes.run(program.tasks, program.run)
        with pytest.raises(MachineError, match=r"iteration 0 could not be captured as a CUDA graph: operation not .*; launch: eager runs"):
            lanes.run(program.tasks, program.run)


class Counting(Program):
    """Counts to the number of its iterations on two lanes, neither of which waits for the other, and notes each number."""

    collective = AbsentPeers(1)

    def __init__(self) -> None:
        self.tasks = rows(*((lane, iteration, ()) for iteration in range(3) for lane in (Lane.H2D, Lane.COMPUTE)))
        self.count, self.beside, self.losses = torch.zeros(1, device=CUDA), torch.zeros(1, device=CUDA), Losses()

    @property
    def graph_blocks(self) -> GraphBlocks:
        alike = Numbered()
        alike.shape = lambda rows: 0  # type: ignore[method-assign]
        alike.shares = self.losses.shares
        return alike

    def begin(self) -> None:
        self.count.zero_()
        self.beside.zero_()

    def run(self, task: Task) -> None:
        count = self.beside if task.lane is Lane.H2D else self.count
        self.losses.add(task.iteration, count.add_(1).sum())

    def finish(self) -> EpochResult:
        return EpochResult(self.losses.finish())


def test_lanes_that_nobody_waits_for_and_numbers_of_blocks_that_share_a_graph() -> None:
    with pretended(library()) as findings:
        lanes, result = make_lanes(CUDA), list[dict[int, float]]()
        program = GraphedProgram(Counting(), lanes)
        for _ in range(3):
            program.begin()
            lanes.run(program.tasks, program.run)
            result.append(dict(program.finish().losses))
        assert program.launched == LaunchSummary(3)
    assert not findings, str(findings)
    assert result == 3 * [{0: 2.0, 1: 4.0, 2: 6.0}]
