"""Rows in the traces of torch.profiler: executed here and read back, and of a GPU by hand."""

from dataclasses import replace

import numpy as np
import pytest
from kineto_trace import copy, event, kernel, launch, save
from notation import write
from torch.profiler import ProfilerActivity, profile

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute, in_profiler_ranges
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.measurement.fit import fit, tabulate_samples
from chronoscale.real_exec.measurement.profile_samples import copy_samples, fittable_samples, match_rows
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.simulator.presets import local_cpu
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.formats import kineto
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.row_name import row_name
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Workload


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:profile. repeats vary")  # as three passes of a busy machine do
def test_a_profiled_epoch_gives_the_rows_that_the_trace_has(tmp_path):
    """Ranges hold rows, and rows little else: the profile's times are the interpreter's own, and both fit the same kinds of curves."""
    sequence = EvolvingGraph(300, 1500, snapshots=16, churn=0.1, seed=1).sequence().without_self_edges()
    work = Workload("w", statistics_of(sequence), model_shape("wd-gcn", 12, 8, 1), Hyper())
    schedule = strategy("psg").plan(work, 1, UNUSED)
    context = Context()
    program = SnapshotProgram(schedule, SnapshotMaterial(sequence, 12), Learner(SnapshotModel(work.model, 5), context), work.hyper, context)
    execute(schedule, program, CpuLanes(False), "cpu")
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        passes = [execute(schedule, program, CpuLanes(False), "cpu") for _ in range(3)]
    seen.export_chrome_trace(str(tmp_path / "epoch.json"))
    result = match_rows(kineto.read(tmp_path / "epoch.json"), schedule)
    assert result.missed == 0 and len(result.traces) == 3
    for each, other in zip(result.traces, passes, strict=True):
        assert np.array_equal(each.task, other.trace.task) and np.array_equal(each.op, other.trace.op)
        assert (each.duration_ns <= other.trace.duration_ns).all()  # the interpreter times what opens and closes a range, too
        assert np.array_equal(np.argsort(each.start_ns), np.argsort(other.trace.start_ns)) and (each.duration_ns > 0).all()
    table, own = result.samples, tabulate_samples([(schedule, passes)])
    assert table.drop(columns=["ns", "spread"]).equals(own.drop(columns=["ns", "spread"]))
    samples, few = fittable_samples(table)
    costs = fit(samples, "this CPU", {})
    assert not few and {each.op for each in costs.fits} == {Op(code).name for code in np.unique(schedule.op)}
    machine = local_cpu(1, 1e12, Link(1e9, 0.0))
    assert machine.gpus == 1 and all(len(costs.predict(schedule, schedule.tasks(Op(code)))[0]) for code in np.unique(schedule.op))


def test_without_a_profiler_rows_have_no_ranges():
    """A range takes microseconds, as much as a small row."""

    def run(_):
        pass

    assert in_profiler_ranges(run) is run
    with profile(activities=[ProfilerActivity.CPU]):
        assert in_profiler_ranges(run) is not run


WRITTEN = write("h: SAMPLE@HOST\na: H2D@H2D <- h\nb: BACKWARD@COMPUTE <- a\nc: OPTIMIZE@COMPUTE <- b").schedule
ROWS = {Op(op): row for row, op in enumerate(WRITTEN.op)}


def on_gpu(begin: float) -> list[dict[str, object]]:
    """One pass: the host samples, a copy, a backward pass whose kernels autograd's thread launches, and a row that launches nothing."""
    ranges = [(Op.SAMPLE, 0, 40), (Op.H2D, 50, 10), (Op.BACKWARD, 70, 30), (Op.OPTIMIZE, 110, 5)]
    number = int(begin)
    return [
        *(event("user_annotation", row_name(ROWS[op], op), begin + at, long) for op, at, long in ranges),
        launch(begin + 52, number + 1),
        copy("HtoD (Pinned -> Device)", begin + 80, 30, 4096, number + 1),
        launch(begin + 72, number + 2),
        launch(begin + 95, number + 3, tid=2),
        kernel("one", begin + 120, 10, number + 2),
        kernel("two", begin + 140, 25, number + 3),
        launch(begin + 105, number + 4),
        kernel("of no row", begin + 170, 9, number + 4),
    ]


def test_rows_of_a_gpu_last_from_their_first_kernel_to_their_last(tmp_path):
    result = match_rows(kineto.read(save(tmp_path / "gpu.json", *on_gpu(1000), *on_gpu(5000))), WRITTEN)
    assert (
        result.missed == 1 and [trace.task.tolist() for trace in result.traces] == [[ROWS[Op.SAMPLE], ROWS[Op.H2D], ROWS[Op.BACKWARD]]] * 2
    )
    assert [trace.duration_ns.tolist() for trace in result.traces] == [[40_000, 30_000, 45_000]] * 2
    assert result.traces[1].start_ns.tolist() == [4_000_000, 4_080_000, 4_120_000]
    assert result.samples["op"].tolist() == ["SAMPLE", "H2D", "BACKWARD"]
    assert fittable_samples(result.samples)[1] == ["BACKWARD at width 0 (1)", "H2D at width 0 (1)", "SAMPLE at width 0 (1)"]


def test_rows_that_some_repeats_lack_are_left_out(tmp_path):
    events = [*on_gpu(1000), *(each for each in on_gpu(5000) if "SAMPLE" not in str(each["name"]))]
    result = match_rows(kineto.read(save(tmp_path / "gpu.json", *events)), WRITTEN)
    assert result.missed == 2 and len(result.traces) == 2 and result.traces[0].task.tolist() == [ROWS[Op.H2D], ROWS[Op.BACKWARD]]


def test_profiles_of_something_else_are_refused(tmp_path):
    path = save(tmp_path / "x.json", event("cpu_op", "aten::mm", 1, 1))
    with pytest.raises(UserError, match=r"x.json: no range names a row: a profiler has to record"):
        match_rows(kineto.read(path), WRITTEN)
    named = event("user_annotation", "row 1 H2D", 1, 1)
    for events, rank, message in (
        ([event("user_annotation", "row 1 SEND", 1, 1)], 0, "row 1 is SEND of rank 0 there, and not in schedule 'test'"),
        ([event("user_annotation", "row 9 H2D", 1, 1)], 0, "row 9 is H2D of rank 0 there, and not in schedule 'test'"),
        ([named], 1, "row 1 is H2D of rank 1 there, and not in schedule 'test'"),
        ([named, kernel("alone", 5, 1, 3)], 0, "its rows launched nothing on the device"),
    ):
        with pytest.raises(UserError) as result:
            match_rows(kineto.read(save(path, *events, rank=rank, ranks=2)), WRITTEN)
        assert str(result.value) == f"{path}: {message}"


def test_copies_of_any_program_are_samples(tmp_path):
    """2 µs and 25 GB/s to the device; too few of the way back for a curve."""
    sizes = [1 << power for power in range(12, 24)]
    there = [copy("HtoD (Pageable -> Device)", 100.0 * i, 2 + size / 25e3, size) for i, size in enumerate(sizes)]
    back = [copy("DtoH (Device -> Pinned)", 9000 + i, 1, 64) for i in range(3)]
    profiled = kineto.read(save(tmp_path / "x.json", *there, *back, copy("DtoD", 1, 1, 9), copy("HtoD", 1, 1, 0)))
    samples, few = fittable_samples(copy_samples([profiled]))
    assert len(samples) == len(sizes) and few == ["D2H at width 0 (3)"]
    curve = fit(samples, "GPU", {}).fits[0]
    assert (curve.op, curve.form) == ("H2D", "bytes") and curve.coefficients == pytest.approx((1 / 25, 2000), rel=1e-3)
    assert len(copy_samples([replace(profiled, events=profiled.events.head(0))])) == 0
