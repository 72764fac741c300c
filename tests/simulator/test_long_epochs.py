"""Stretches: an epoch replayed in parts is the epoch."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation import NsCosts, gpus, write
from profiles import examples

from chronoscale.datasets.snapshots.statistics import COLUMNS, SnapshotStatistics
from chronoscale.errors import UserError
from chronoscale.simulator import engine, presets
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.long_epochs.cluster_state import ClusterState, replay_stretch
from chronoscale.simulator.long_epochs.lockstep import Lockstep
from chronoscale.simulator.long_epochs.replay import ReplayResult, replay_stretches
from chronoscale.simulator.memory import check, peaks
from chronoscale.simulator.network import collective_times
from chronoscale.simulator.network.traffic import LinkTraffic, link_utilisation
from chronoscale.simulator.sharing.shares import Shares
from chronoscale.simulator.timeline import streams_of
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel, DatasheetCosts, durations
from chronoscale.strategies.evaluation.metrics import Summary, busy_ns, time_by_op
from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.planning.stretch import Stretch
from chronoscale.strategies.registry import STRATEGIES
from chronoscale.strategies.schedule import WORK, Lane, Op, Schedule
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.workload import Hyper, Partition, Workload

DISTDGL = STRATEGIES["distdgl"]


def work_of(
    ranks: int, snapshots: int = 14, model: str = "wd-gcn", layers: int = 2, each: int = 1, seed: int = 0, most: int = 400
) -> Workload:
    """Any counts will do: parts differ from one another and from snapshot to snapshot."""
    numbers = np.random.default_rng(seed)
    stats = SnapshotStatistics(**{name: numbers.integers(1, 50, snapshots) for name in COLUMNS}, num_nodes=ranks * most)
    rows, edges, halo, sent = (numbers.integers(0, most, (snapshots, ranks)) for _ in range(4))
    rows[:] = rows[0] + 1
    hyper = Hyper(groups_per_rank=each)
    return Workload("drawn", stats, model_shape(model, 8, 16, layers), hyper, Partition(rows, edges, halo, sent))


def pieces(stretches: list[Stretch], cluster: Cluster, costs: CostModel, how: str) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of every row of the epoch, replayed stretch by stretch."""
    ranks = stretches[0].schedule.ranks
    carried, traces = ClusterState.idle(ranks), []
    for stretch in stretches:
        schedule = stretch.schedule
        ns, _ = durations(costs, schedule)
        rows, together = collective_times.times(schedule, cluster)
        ns[rows] = together
        if how == "lockstep":
            shape = Lockstep.of(schedule, cluster.device)
            assert shape is not None
            *times, carried = shape.replay(schedule, ns, costs.launch_ns, carried)
        else:
            launches = Launches.of(schedule, ns, costs.launch_ns)
            *times, carried = replay_stretch(stretch, cluster.device, ns, launches, carried, engine=how)
        traces.append([time[ranks:] for time in times])
    begin, end = (np.concatenate(parts) for parts in zip(*traces, strict=True))
    return begin, end


def assert_told(result: ReplayResult, schedule: Schedule, cluster: Cluster, costs: CostModel) -> None:
    """All that is told is what the whole epoch's trace tells."""
    trace = engine.replay(schedule, cluster, costs)
    assert result.rows == len(schedule) and result.tally.span_ns == trace.span_ns and result.tally.idle == schedule.idle
    assert result.tally.busy_ns.tolist() == busy_ns(trace).tolist()
    assert result.tally.peaks.tolist() == peaks(schedule, trace).tolist()
    assert result.summary == replace(Summary.of([trace]), collective_s=pytest.approx(Summary.of([trace]).collective_s, rel=1e-12))
    assert result.op_seconds.to_dict() == pytest.approx(time_by_op(trace).to_dict(), rel=1e-12)
    crossed = link_utilisation(LinkTraffic.of(schedule, cluster), trace.span_ns).set_index("link").sort_index()
    by_link = result.links.set_index("link").sort_index()
    assert by_link.index.tolist() == crossed.index.tolist()
    np.testing.assert_allclose(by_link, crossed, rtol=1e-12)
    for memory in (peaks(schedule, trace).max() - 1, peaks(schedule, trace).max()):
        small = replace(cluster, device=replace(cluster.device, memory=float(memory)))
        assert error_of(lambda: check(schedule, trace, small)) == error_of(lambda: replace(result, cluster=small).check())  # noqa: B023


def error_of(call) -> str:
    try:
        call()
    except UserError as error:
        return str(error)
    return ""


@examples(40)
@given(
    ranks=st.sampled_from([1, 2, 3, 8, 12]),
    model=st.sampled_from(sorted(MODELS)),
    layers=st.integers(1, 3),
    each=st.sampled_from([1, 2]),
    snapshots=st.integers(5, 14),
    rows=st.sampled_from([1, 300, 1000, 5000]),
    launch=st.sampled_from([0.0, 2e-7, 5e-6, 1e-4]),
    seed=st.integers(0, 9),
)
def test_an_epoch_in_stretches_is_the_epoch(ranks, model, layers, each, snapshots, rows, launch, seed):
    """Start by start and end by end, by SimPy, natively and in lockstep, and all figures; those also where ranks share links."""
    work = work_of(ranks, snapshots, model, layers, each, seed)
    cluster = presets.scaled(presets.cluster("h200"), ranks)
    cluster = replace(cluster, device=replace(cluster.device, launch_s=launch), contention=False)
    costs = DatasheetCosts(cluster.device)
    whole, parts = DISTDGL.plan(work, ranks, costs), list(DISTDGL.stretches(work, ranks, costs, rows))
    trace = engine.replay(whole, cluster, costs)
    for how in ("simpy", "native", "lockstep"):
        begin, end = pieces(parts, cluster, costs, how)
        assert begin.tolist() == trace.start_ns.tolist() and end.tolist() == trace.end_ns.tolist(), how
    for contention in (True, False):
        shared = replace(cluster, contention=contention)
        assert_told(replay_stretches(parts, shared, costs), whole, shared, costs)


@pytest.mark.parametrize("each", [1, 2])
def test_stretches_are_the_rows_of_the_plan(each):
    work, costs = work_of(3, 40, each=each), NsCosts()
    whole, ranks = DISTDGL.plan(work, 3, costs), 3
    parts = list(DISTDGL.stretches(work, ranks, costs, 1500))
    assert len(parts) > 2 and parts[0].schedule.op is parts[1].schedule.op  # one structure
    for name in ("op", "rank", "lane", "unit", "step", "layer", *WORK):
        column = np.concatenate([getattr(part.schedule, name)[ranks:] for part in parts])
        assert np.array_equal(column, getattr(whole, name)), name
    iteration = np.concatenate([part.first + part.schedule.iteration[ranks:] - 1 for part in parts])
    assert np.array_equal(iteration, whole.iteration)
    assert [part.row for part in parts] == [0, *np.cumsum([len(part.schedule) - ranks for part in parts])[:-1]]


@st.composite
def epochs(draw: st.DrawFn) -> tuple[Schedule, list[Stretch], int]:
    """Any rows in any lanes whose iterations do not overlap: the whole, and in stretches; and a launch's ns."""
    ranks, count = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    lanes = [Lane.H2D, Lane.D2H, Lane.COMPUTE, Lane.COMPUTE2, Lane.COMM]
    drawn = []
    for _ in range(count):
        events = []
        for _ in range(draw(st.integers(0, 6))):
            members = draw(st.lists(st.integers(0, ranks - 1), min_size=1, unique=True))
            op = draw(st.sampled_from([Op.ALLREDUCE, Op.H2D, Op.AGGREGATE, Op.D2H]))
            events.append((op, members, draw(st.sampled_from(lanes)), *(draw(st.integers(0, 9)) for _ in range(4))))
        drawn.append((events, draw(st.integers(0, 9)), draw(st.integers(0, 9))))

    def lay(first: int, last: int, opens: bool) -> Schedule:
        builder = Builder("drawn", ranks, resident=7)
        base = {"alloc": 0, "free": 0}
        before: list[list[np.ndarray]] = [[] for _ in range(ranks)]
        if opens:
            steps = builder.add(Op.OPTIMIZE, Lane.COMPUTE, base, {"rank": np.arange(ranks), "order": -1, "kernels": 0})
            before = [[steps[rank : rank + 1]] for rank in range(ranks)]
        for number in range(first, last):
            events, work, kernels = drawn[number]
            done: list[list[np.ndarray]] = [[] for _ in range(ranks)]
            here = {"iteration": number - first + opens, "order": number, "unit": number}
            for i, (op, members, lane, ns, count, taken, freed) in enumerate(events):
                joint = {"collective": number * 10 + i if op is Op.ALLREDUCE else -1}
                for rank in members:
                    row = {"rank": rank, "flops": ns, "bytes": ns, "kernels": count, "alloc": taken, "free": freed}
                    done[rank].append(builder.add(op, lane, here, joint, row, after=before[rank]))
            for rank in range(ranks):
                step = {"rank": rank, "flops": work, "kernels": kernels}
                before[rank] = [builder.add(Op.OPTIMIZE, Lane.COMPUTE, here, base, step, after=[*before[rank], *done[rank]])]
        return builder.finish()

    cuts = sorted({0, count, *draw(st.lists(st.integers(0, count), max_size=2))})
    stretches, row = [], 0
    for first, last in pairwise(cuts):
        schedule = lay(first, last, opens=True)
        stretches.append(Stretch(schedule, first, row))
        row += len(schedule) - ranks
    return lay(0, count, opens=False), stretches, draw(st.sampled_from([0, 1, 4]))


@given(epochs())
def test_any_iterations_that_do_not_overlap_can_be_stretched(drawn):
    whole, parts, launch_ns = drawn
    cluster, costs = gpus(3), NsCosts(launch_ns)
    trace = engine.replay(whole, cluster, costs)
    for how in ("simpy", "native"):
        begin, end = pieces(parts, cluster, costs, how)
        assert begin.tolist() == trace.start_ns.tolist() and end.tolist() == trace.end_ns.tolist(), how
    assert_told(replay_stretches(parts, cluster, costs), whole, cluster, costs)


def copies_share(schedule: Schedule, cluster: Cluster, opening: int) -> Shares | None:
    """Each copy to a device takes 0.7 of what two devices have in common, and all ranks 0.3 of one thing for exchanges' sakes."""
    row = np.setdiff1d(schedule.tasks(Op.H2D), np.arange(opening))
    streams = streams_of(schedule, cluster.device)
    resource = np.concatenate([schedule.rank[row] // 2, np.full(len(row), schedule.ranks)]).astype(np.int32)
    share, delay = np.repeat([0.7, 0.3], len(row)), np.where(schedule.op == Op.H2D, 3000, 0)
    return Shares.of(np.tile(row, 2), resource, share, delay, np.ones(len(schedule)), streams, tuple(map(str, range(schedule.ranks + 1))))


@pytest.mark.parametrize("how", ["simpy", "native"])
@pytest.mark.parametrize("launch", [0.0, 5e-6])
def test_rows_of_a_stretch_share_what_they_share_in_the_epoch(how, launch):
    ranks, work = 8, work_of(8, 12, most=40_000)
    cluster = presets.scaled(presets.cluster("h200"), ranks)
    costs = DatasheetCosts(replace(cluster.device, launch_s=launch))

    def uncontended(schedule: Schedule) -> tuple[np.ndarray, Launches | None]:
        ns, _ = durations(costs, schedule)
        rows, together = collective_times.times(schedule, cluster)
        ns[rows] = together
        return ns, Launches.of(schedule, ns, costs.launch_ns)

    whole, carried, traces = DISTDGL.plan(work, ranks, costs), ClusterState.idle(ranks), []
    for stretch in DISTDGL.stretches(work, ranks, costs, 1000):
        shares = copies_share(stretch.schedule, cluster, ranks)
        begin, end, carried = replay_stretch(stretch, cluster.device, *uncontended(stretch.schedule), carried, shares, how)
        traces.append((begin[ranks:], end[ranks:]))
    expected = engine.replay_times(whole, cluster.device, *uncontended(whole), copies_share(whole, cluster, 0), how)
    for mine, theirs in zip(zip(*traces, strict=True), expected, strict=True):
        assert np.concatenate(mine).tolist() == theirs.tolist()
    undisturbed = engine.replay_times(whole, cluster.device, *uncontended(whole), None, how)
    assert (expected[1] > undisturbed[1]).any()


def test_a_copy_beside_a_collective_slows_it_down_in_a_stretch_too():
    """Where ranks are not in lockstep; one of them copies while all exchange."""
    work = "x: ALLTOALL@COMM all bytes=1000000000 AT\nh: H2D@H2D bytes=2000000000 rank=0 AT\no: OPTIMIZE@COMPUTE IN <- x h?"
    cluster = presets.scaled(presets.cluster("h200"), 16)
    costs = DatasheetCosts(cluster.device)
    whole = write(work.replace("AT", "").replace("IN", ""), 16).schedule
    opened = work.replace("AT", "iteration=1 <- s").replace("IN", "iteration=1")
    part = Stretch(write(f"s: OPTIMIZE@COMPUTE kernels=0\n{opened}", 16).schedule, 0, 0)
    spans = [engine.replay(whole, replace(cluster, contention=one), costs).span_ns for one in (True, False)]
    assert replay_stretches([part], cluster, costs).tally.span_ns == spans[0] > 1.05 * spans[1]


def test_a_collective_takes_sms_in_a_stretch_too():
    reduce, kernel = "r: ALLREDUCE@COMM all bytes=1000000000", "k: AGGREGATE@COMPUTE rows=1000000 width=64 bytes=400000000000"
    work = f"{reduce} WHEN\n{kernel} WHEN\no: OPTIMIZE@COMPUTE IN <- r k"
    cluster = presets.cluster("h200")
    costs = DatasheetCosts(cluster.device)
    whole = write(work.replace("WHEN", "").replace("IN", ""), 8).schedule
    opened = work.replace("WHEN", "iteration=1 <- s").replace("IN", "iteration=1")
    part = Stretch(write(f"s: OPTIMIZE@COMPUTE kernels=0\n{opened}", 8).schedule, 0, 0)
    spans = [engine.replay(whole, replace(cluster, contention=one), costs).span_ns for one in (True, False)]
    assert replay_stretches([part], cluster, costs).tally.span_ns == spans[0] > spans[1]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("how", ["simpy", "native", "lockstep"])
def test_a_host_is_an_iteration_ahead_from_stretch_to_stretch(how, size):
    """A long iteration, a short one, and one of 50 kernels, whose launches begin when the long one is over."""
    rows = [(1, 1), (1000, 1), (1, 1), (60, 50), (1, 1)]  # ns, kernels

    def lay(first: int, last: int, opens: bool) -> Schedule:
        builder, before = Builder("drawn", 1), ()
        if opens:
            before = (builder.add(Op.OPTIMIZE, Lane.COMPUTE, {"rank": [0], "order": -1, "kernels": 0}),)
        for number in range(first, last):
            here = {"rank": [0], "order": number, "iteration": number - first + opens}
            done = builder.add(Op.AGGREGATE, Lane.COMPUTE, here, {"flops": rows[number][0], "kernels": rows[number][1]}, after=before)
            before = (builder.add(Op.OPTIMIZE, Lane.COMPUTE, here, {"flops": 1, "kernels": 1}, after=(done,)),)
        return builder.finish()

    parts = [Stretch(lay(first, min(first + size, 5), True), first, 2 * first) for first in range(0, 5, size)]
    begin, end = pieces(parts, gpus(1), NsCosts(4), how)
    trace = engine.replay(lay(0, 5, False), gpus(1), NsCosts(4))
    assert begin.tolist() == trace.start_ns.tolist() and end.tolist() == trace.end_ns.tolist()
    assert begin[6] > end[3] + 40 * 3  # its last launch is 50 * 4 ns after the long iteration, most of its kernels beside the launches


def test_iterations_that_overlap_are_no_stretches():
    def half(first: bool) -> Stretch:
        builder = Builder("eager", 1)
        step = builder.add(Op.OPTIMIZE, Lane.COMPUTE, {"rank": [0], "order": 0, "kernels": 0, "flops": 9})
        builder.add(Op.H2D, Lane.H2D, {"rank": [0], "order": 1, "iteration": 1, "flops": 1}, after=[step] if first else [])
        builder.add(Op.OPTIMIZE, Lane.COMPUTE, {"rank": [0], "order": 2, "iteration": 1, "flops": 9})
        return Stretch(builder.finish(), 0 if first else 1, 0 if first else 2)

    with pytest.raises(ValueError, match="strategy 'eager': an iteration begins on a rank before the one before is over"):
        replay_stretches([half(True), half(False)], gpus(1), NsCosts())


def test_hosts_that_work_and_launch_are_not_carried_on():
    builder = Builder("busy", 1)
    step = builder.add(Op.OPTIMIZE, Lane.COMPUTE, {"rank": [0], "order": 0, "kernels": 0})
    read = builder.add(Op.SAMPLE, Lane.HOST, {"rank": [0], "order": 1, "iteration": 1}, after=[step])
    builder.add(Op.OPTIMIZE, Lane.COMPUTE, {"rank": [0], "order": 2, "iteration": 1}, after=[read])
    stretch = Stretch(builder.finish(), 0, 0)
    assert replay_stretches([stretch], gpus(1), NsCosts()).rows == 2
    with pytest.raises(ValueError, match="strategy 'busy': what its hosts do themselves"):
        replay_stretches([stretch], gpus(1), NsCosts(1))


def test_a_stretch_opens_with_steps():
    schedule = next(DISTDGL.stretches(work_of(2), 2, NsCosts())).schedule
    for wrong in (schedule.take(np.arange(2, len(schedule))[:0]), replace(schedule, iteration=schedule.iteration + 1)):
        with pytest.raises(ValueError, match="its first 2 rows are not the steps of the iteration before, one a rank"):
            Stretch(wrong, 0, 0)


def test_an_epoch_needs_devices_enough():
    with pytest.raises(UserError, match="has 2 GPUs, 3 asked for"):
        replay_stretches(DISTDGL.stretches(work_of(3), 3, NsCosts()), gpus(2), NsCosts())


def test_ranks_that_differ_are_not_in_lockstep():
    schedule = next(DISTDGL.stretches(work_of(2), 2, NsCosts())).schedule
    device = gpus(2).device
    assert Lockstep.of(schedule, device) is not None
    aside = schedule.lane.copy()
    aside[6:8] = Lane.D2H
    loose = replace(schedule, lane=aside, dep_ptr=np.zeros(len(schedule) + 1, np.int64), dep=schedule.dep[:0])
    swapped = schedule.rank.copy()
    swapped[[6, 7]] = swapped[[7, 6]]
    op = schedule.op.copy()
    op[6] = Op.TEMPORAL
    for other in (loose, replace(schedule, rank=swapped), replace(schedule, op=op)):
        assert Lockstep.of(other, device) is None
