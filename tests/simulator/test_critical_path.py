"""The critical path: what it goes through in closed form, that it tells the epoch, and which rows shorten it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from notation import NsCosts, gpus, write
from random_schedules import ONE_STREAM, schedules

from chronoscale.errors import UserError
from chronoscale.simulator import presets
from chronoscale.simulator.critical_path import HOST, CriticalPath, PathShare, critical_path, path_shares
from chronoscale.simulator.engine import replay, replay_times
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.network.traffic import LinkTraffic
from chronoscale.simulator.timeline import streams_of
from chronoscale.strategies.cluster import CPU_STREAMS, Cluster
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace


def found(schedule: Schedule, cluster: Cluster, launch_ns: int = 0) -> tuple[CriticalPath, Trace]:
    trace = replay(schedule, cluster, NsCosts(launch_ns))
    return critical_path(schedule, trace, cluster.device, Launches.of(schedule, trace.duration_ns, launch_ns)), trace


def steps(path: CriticalPath) -> list[tuple[int, int, int, int]]:
    return list(zip(path.row.tolist(), path.rank.tolist(), path.start_ns.tolist(), path.end_ns.tolist(), strict=True))


def test_it_goes_through_the_last_arriver_of_a_collective():
    written = write(
        """
        b: BACKWARD@COMPUTE ns=10,30,20
        r: ALLREDUCE@COMM all bytes=30 <- b
        o: OPTIMIZE@COMPUTE ns=1 <- r""",
        ranks=3,
    )
    path, trace = found(written.schedule, gpus(3))
    slow, reduced, step = (written.row[label] for label in ("b/1", "r/0", "o/0"))
    assert steps(path) == [(slow, 1, 0, 30), (reduced, 0, 30, 70), (step, 0, 70, 71)]
    assert path_shares(path, written.schedule, trace, gpus(3)) == (
        PathShare("ALLREDUCE", "COMM", "inside a node", 40 / 71),
        PathShare("BACKWARD", "COMPUTE", "", 30 / 71),
        PathShare("OPTIMIZE", "COMPUTE", "", 1 / 71),
    )
    path, trace = found(written.schedule, gpus(3, per_node=2))
    assert path_shares(path, written.schedule, trace, gpus(3, per_node=2))[0].link == "between nodes"


def test_it_changes_lanes_where_one_waits_for_another():
    written = write("""
        h0: H2D@H2D ns=5
        a0: AGGREGATE@COMPUTE ns=20 <- h0
        h1: H2D@H2D ns=40
        a1: AGGREGATE@COMPUTE ns=1 <- h1""")
    path, trace = found(written.schedule, gpus(1))
    assert steps(path) == [(written.row["h0/0"], 0, 0, 5), (written.row["h1/0"], 0, 5, 45), (written.row["a1/0"], 0, 45, 46)]
    assert [(one.op, one.share) for one in path_shares(path, written.schedule, trace, gpus(1))] == [("H2D", 45 / 46), ("AGGREGATE", 1 / 46)]


def test_of_what_ends_at_one_time_the_stream_counts_first():
    written = write("""
        h: H2D@H2D ns=5
        a: AGGREGATE@COMPUTE ns=5
        b: AGGREGATE@COMPUTE ns=1 <- h""")
    path, _ = found(written.schedule, gpus(1))
    assert path.row.tolist() == [written.row["a/0"], written.row["b/0"]]


def test_kernels_that_wait_for_the_host_are_the_hosts():
    """Four rows of one kernel, 3 ns each, launched 10 ns apart: the epoch is the launches, from the first start on, and the last row."""
    written = write("\n".join(f"a{i}: AGGREGATE@COMPUTE ns=3 kernels=1" for i in range(4)))
    path, trace = found(written.schedule, gpus(1), 10)
    assert trace.span_ns == 33 and steps(path) == [(HOST, 0, 10, 40), (written.row["a3/0"], 0, 40, 43)]
    assert path_shares(path, written.schedule, trace, gpus(1)) == (
        PathShare("", "", "", 30 / 33),
        PathShare("AGGREGATE", "COMPUTE", "", 3 / 33),
    )


def test_the_hosts_turn_waits_for_the_step_that_gates_it():
    """Of three iterations the third is launched when the first one's step has ended: two launches, 200, two launches and a step."""
    text = "\n".join(f"a{i}: AGGREGATE@COMPUTE ns=1 kernels=1 iteration={i}\no{i}: OPTIMIZE@COMPUTE ns={ns} kernels=1 iteration={i}"
                     for i, ns in enumerate((200, 1, 1)))  # fmt: skip
    written = write(text)
    path, trace = found(written.schedule, gpus(1), 60)
    row = written.row
    assert steps(path) == [(HOST, 0, 60, 120), (row["o0/0"], 0, 120, 320), (HOST, 0, 320, 440), (row["o2/0"], 0, 440, 441)]
    assert trace.span_ns == 381


def test_an_epoch_of_nothing():
    schedule = Builder("none", 1).finish()
    path, trace = found(schedule, gpus(1))
    assert len(path) == 0 and path_shares(path, schedule, trace, gpus(1)) == ()
    written = write("a: AGGREGATE@COMPUTE ns=0")
    path, trace = found(written.schedule, gpus(1))
    assert len(path) == 1 and path_shares(path, written.schedule, trace, gpus(1)) == ()


def test_a_trace_of_some_rows_is_refused():
    written = write("a: AGGREGATE@COMPUTE\nb: AGGREGATE@COMPUTE")
    trace = replay(written.schedule, gpus(1), NsCosts())
    part = Trace.of(written.schedule.take(np.arange(1)), trace.start_ns[:1], trace.end_ns[:1], trace.source[:1], "x")
    with pytest.raises(ValueError, match="the trace of 'test' has 1 of 2 rows"):
        critical_path(written.schedule, part, gpus(1).device)


def test_a_measured_trace_may_have_gaps():
    written = write("a: AGGREGATE@COMPUTE\nb: AGGREGATE@COMPUTE")
    start = np.array([5, 40])
    trace = Trace.of(written.schedule, start, start + 10, np.zeros(2, np.uint8), "x")
    path = critical_path(written.schedule, trace, gpus(1).device)
    assert steps(path) == [(0, 0, 5, 15), (1, 0, 40, 50)] and path.duration_ns.sum() == 20


STREAMS = st.sampled_from([None, CPU_STREAMS, ONE_STREAM])


@given(schedules(), STREAMS, st.integers(1, 4), st.sampled_from([0, 3]))
def test_the_steps_of_a_replay_follow_one_another_and_add_up_to_the_epoch(schedule, streams, per_node, launch_ns):
    cluster = gpus(4, per_node, streams)
    try:
        path, trace = found(schedule, cluster, launch_ns)
    except UserError:
        assume(False)
    assert path.duration_ns.sum() == trace.span_ns and path.start_ns[0] == trace.start_ns.min()
    assert (path.start_ns[1:] == path.end_ns[:-1]).all() and path.end_ns[-1] == trace.end_ns.max()
    if trace.span_ns:
        assert sum(one.share for one in path_shares(path, schedule, trace, cluster)) == pytest.approx(1, rel=1e-9)


@given(schedules(), STREAMS, st.integers(1, 4))
def test_a_row_shortens_the_epoch_if_it_is_on_every_critical_path_and_only_then(schedule, streams, per_node):
    """By brute force: each task, a whole collective at a time, is made 1 ns shorter and the schedule is replayed."""
    cluster = gpus(4, per_node, streams)
    try:
        trace = replay(schedule, cluster, NsCosts())
    except UserError:
        assume(False)
    path, ns = critical_path(schedule, trace, cluster.device), trace.duration_ns
    some, every = on_paths(schedule, trace, cluster)
    assert set(path.row.tolist()) <= some
    for members in tasks(schedule):
        if ns[members[0]] > 0:
            shorter = ns.copy()
            shorter[members] -= 1
            _, end = replay_times(schedule, cluster.device, shorter, None, None)
            gained = trace.end_ns.max() - end.max()
            assert gained == int(bool(every & set(members))), (members, some, every)


def tasks(schedule: Schedule) -> list[list[int]]:
    """Rows that last alike, those of one collective together."""
    groups: dict[tuple[int, int], list[int]] = {}
    for row, collective in enumerate(schedule.collective.tolist()):
        groups.setdefault((collective, row if collective < 0 else -1), []).append(row)
    return list(groups.values())


def on_paths(schedule: Schedule, trace: Trace, cluster: Cluster) -> tuple[set[int], set[int]]:
    """Rows on some critical path, and those without which there is none, tasks as wholes: by paths counted forwards and backwards over the
    tight edges between tasks."""
    groups = tasks(schedule)
    of = {row: i for i, group in enumerate(groups) for row in group}
    stream = streams_of(schedule, cluster.device)
    edges = set()
    for i in range(len(schedule)):
        earlier = [j for j in range(i) if stream[j] == stream[i]][-1:] + schedule.dependencies(i).tolist()
        edges |= {(of[j], of[i]) for j in earlier if trace.end_ns[j] == trace.start_ns[i]}
    starts = {i: int(trace.start_ns[group[0]]) for i, group in enumerate(groups)}
    ends = {i: int(trace.end_ns[group[0]]) for i, group in enumerate(groups)}
    order = toposorted(len(groups), edges)
    first = {i for i in starts if starts[i] == 0}
    last = {i for i in ends if ends[i] == trace.end_ns.max()}
    forth = {i: int(i in first and not any(b == i and starts[a] == 0 for a, b in edges)) for i in order}
    for i in order:
        forth[i] += sum(forth[a] for a, b in edges if b == i)
    back = dict.fromkeys(order, 0)
    for i in reversed(order):
        back[i] = int(i in last) + sum(back[b] for a, b in edges if a == i)
    total = sum(forth[i] for i in last)
    some = {row for i in order if forth[i] * back[i] for row in groups[i]}
    return some, {row for i in order if forth[i] * back[i] == total for row in groups[i]}


def toposorted(count: int, edges: set[tuple[int, int]]) -> list[int]:
    order: list[int] = []
    while len(order) < count:
        free = [i for i in range(count) if i not in order and all(a in order for a, b in edges if b == i)]
        assert free
        order += free
    return order


def test_a_collective_is_blamed_on_the_link_that_it_takes_longest_on():
    """An all-to-all of two machines on their cards, one inside a machine on NVLink; what nobody models is inside or between machines."""
    h200 = presets.cluster("h200")
    costs = DatasheetCosts(h200.device)
    for ranks, named, alone in ((16, "on NICs", "between nodes"), (8, "on NVLink", "inside a node")):
        cluster = presets.scaled(h200, ranks)
        schedule = write("a: AGGREGATE@COMPUTE\nx: ALLTOALL@COMM all bytes=1000000000 <- a", ranks).schedule
        trace = replay(schedule, cluster, costs)
        path = critical_path(schedule, trace, cluster.device)
        assert path_shares(path, schedule, trace, cluster, LinkTraffic.of(schedule, cluster))[0].link == named
        assert path_shares(path, schedule, trace, cluster)[0].link == alone
