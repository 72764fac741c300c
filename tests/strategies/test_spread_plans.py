"""Plans on streams whose memory is spread over ranks: the rows of an epoch, who waits for whom, and what a replay makes of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spread_strategies import SPREAD, shared
from stream_case import choice, hyper
from stream_plans import COSTS, POLARIS, data, plan, work

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.errors import UserError
from chronoscale.simulator import memory, presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.cluster import CPU_STREAMS
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.streams.rows.phase import VALIDATE
from chronoscale.strategies.streams.spread.phase import BACK, COMMON, IDS, ROWS, SYNCHRONISED_ROWS
from chronoscale.strategies.streams.spread.sharing import Sharing
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Workload

FREE = replace(POLARIS, device=replace(POLARIS.device, launch_s=0.0))  # batches are so small that launches would be all of an epoch
IN_TURN = tuple(name for name, one in SPREAD.items() if not one.sharing.pipelined)
BESIDE = ((Lane.HOST,), (Lane.COMM,), (Lane.H2D, Lane.D2H, Lane.COMPUTE, Lane.COMPUTE2))
FUSED = (tuple((lane,) for lane in Lane), CPU_STREAMS, BESIDE, (tuple(Lane),))


NAMES = {
    (Op.ALLTOALL, IDS): "ask", (Op.ALLTOALL, ROWS): "fetch", (Op.ALLTOALL, BACK): "return", (Op.ALLGATHER, -1): "tell",
    (Op.ALLTOALL, SYNCHRONISED_ROWS): "tell", (Op.H2D, 0): "state", (Op.MEMORY_WRITE, COMMON): "hear",
}  # fmt: skip


def label(schedule: Schedule, task: int) -> str:
    op = Op(schedule.op[task])
    return NAMES.get((op, int(schedule.layer[task])), op.name.lower().removeprefix("memory_")) + str(schedule.unit[task])


def rows_text(schedule: Schedule, rank: int) -> str:
    """Rows of one rank: `operation unit@lane <- operation unit`."""
    lines = []
    for task in np.flatnonzero(schedule.rank == rank).tolist():
        deps = [label(schedule, dep) for dep in schedule.dependencies(task).tolist()]
        lines.append(f"{label(schedule, task)}@{Lane(schedule.lane[task]).name}" + (f" <- {' '.join(deps)}" if deps else ""))
    return "\n".join(lines)


def chain(unit: int, trains: bool = True) -> list[str]:
    """A batch of tgl-dist, one row after another."""
    trained = [f"{op}{unit}" for op in ("backward@COMPUTE", "allreduce@COMM", "optimize@COMPUTE")] if trains else []
    ops = ["sample@HOST", "gather@HOST", "h2d@H2D", "ask@COMM", "fetch@COMM", "read@HOST", "state@H2D", "update@COMPUTE"]
    rows = [*ops, "aggregate@COMPUTE", "forward@COMPUTE", *(row.removesuffix(str(unit)) for row in trained)]
    return [*rows, "d2h@D2H", "return@COMM", "write@HOST"]


def in_turn() -> str:
    lines, last = [], ""
    for unit in range(3):
        for row in chain(unit, unit < 2):
            op, lane = row.split("@")
            follows_lane = op in ("aggregate", "forward", "backward")  # behind the one before in its lane
            lines.append(f"{op}{unit}@{lane}" + ("" if follows_lane or not last else f" <- {last}"))
            last = f"{op}{unit}"
    return "\n".join([*lines, f"allreduce3@COMM <- {last}"])


LAYERS = "aggregate{0}@COMPUTE\nforward{0}@COMPUTE\nbackward{0}@COMPUTE"
LEARNT = "allreduce{0}@COMM <- backward{0}\noptimize{0}@COMPUTE <- allreduce{0}"
SAMPLED = "sample{0}@HOST\ngather{0}@HOST <- sample{0}\nh2d{0}@H2D <- gather{0}"
ASKED = SAMPLED + "\nask{0}@COMM <- sample{0}"
OPENED = "read{0}@HOST{1}\nstate{0}@H2D <- read{0}"
UPDATED = "update{0}@COMPUTE <- h2d{0} fetch{0} state{0}"
RETURNED = "d2h{0}@D2H <- update{0}\nreturn{0}@COMM <- d2h{0}\nwrite{0}@HOST <- return{0}"
SHARED = "tell{0}@COMM <- write{0}\nhear{0}@HOST <- tell{0}"
VALIDATED, LAST = "aggregate2@COMPUTE\nforward2@COMPUTE", "allreduce3@COMM <- forward2"
MEMSHARE = [
    ASKED.format(0), "fetch0@COMM <- h2d0 ask0", OPENED.format(0, ""), ASKED.format(1),
    UPDATED.format(0), LAYERS.format(0), RETURNED.format(0), "fetch1@COMM <- h2d1 ask1 write0", SHARED.format(0),
    OPENED.format(1, " <- write0"), ASKED.format(2), LEARNT.format(0),
    UPDATED.format(1), LAYERS.format(1), RETURNED.format(1), "fetch2@COMM <- h2d2 ask2 write1", SHARED.format(1),
    OPENED.format(2, " <- write1"), LEARNT.format(1),
    UPDATED.format(2), VALIDATED, RETURNED.format(2), SHARED.format(2), LAST,
]  # fmt: skip
# The first rank has none of the events that validate.
WITHOUT_EVENTS = [
    *MEMSHARE[:10], "ask2@COMM", LEARNT.format(0), UPDATED.format(1), LAYERS.format(1), RETURNED.format(1), "fetch2@COMM <- ask2 write1",
    SHARED.format(1), LEARNT.format(1), "return2@COMM\nwrite2@HOST <- return2", SHARED.format(2), "allreduce3@COMM <- hear2",
]  # fmt: skip
MSPIPE = [
    ASKED.format(0), "fetch0@COMM <- h2d0 ask0", OPENED.format(0, ""), ASKED.format(1), "fetch1@COMM <- h2d1 ask1", OPENED.format(1, ""),
    UPDATED.format(0), LAYERS.format(0), RETURNED.format(0) + " fetch1 read1", ASKED.format(2), LEARNT.format(0),
    UPDATED.format(1), "fetch2@COMM <- h2d2 ask2 write0", OPENED.format(2, " <- write0"), LAYERS.format(1),
    RETURNED.format(1) + " fetch2 read2", LEARNT.format(1), UPDATED.format(2), VALIDATED, RETURNED.format(2), LAST,
]  # fmt: skip
ALONE = "d2h{0}@D2H <- update{0}\nwrite{0}@HOST <- d2h{0}"
DISTTGL = [
    SAMPLED.format(0), OPENED.format(0, ""), SAMPLED.format(1), "update0@COMPUTE <- h2d0 state0", LAYERS.format(0), ALONE.format(0),
    OPENED.format(1, " <- write0"), SAMPLED.format(2), LEARNT.format(0), "update1@COMPUTE <- h2d1 state1", LAYERS.format(1),
    ALONE.format(1), OPENED.format(2, " <- write1"), LEARNT.format(1), "update2@COMPUTE <- h2d2 state2", VALIDATED, ALONE.format(2), LAST,
]  # fmt: skip
NOT_VALIDATING = [*DISTTGL[:7], *DISTTGL[8:12], DISTTGL[13], "allreduce3@COMM <- optimize1"]


def test_rows() -> None:
    """15 events train and 2 validate, 4 a batch."""
    workload = work("tgn", hyper("tgn", 4, events=shared()), data(20))
    made = {name: plan(name, workload, 2) for name in SPREAD}
    assert rows_text(made["tgl-dist"], 0) == rows_text(made["tgl-dist"], 1) == in_turn()
    assert rows_text(made["memshare"], 0) == "\n".join(WITHOUT_EVENTS) and rows_text(made["memshare"], 1) == "\n".join(MEMSHARE)
    assert rows_text(made["mspipe"], 0) == rows_text(made["mspipe"], 1) == "\n".join(MSPIPE)
    assert rows_text(made["disttgl"], 0) == "\n".join(NOT_VALIDATING) and rows_text(made["disttgl"], 1) == "\n".join(DISTTGL)
    for name, schedule in made.items():
        assert (schedule.kind, schedule.iterations) == ("spread", 2)
        np.testing.assert_array_equal(schedule.step, schedule.unit >= 2)
        np.testing.assert_array_equal(schedule.iteration, np.minimum(schedule.unit, 1))
        speaks = SPREAD[name].sharing.shared and SPREAD[name].sharing.synchronised != "never"
        speaks &= name != "memshare-replicas"  # which are groups of one rank here
        assert (schedule.op == Op.ALLGATHER).any() == (schedule.layer[schedule.op == Op.MEMORY_WRITE] == COMMON).any() == speaks
    assert rows_text(made["memshare-replicas"], 0) == "\n".join(NOT_VALIDATING)
    assert rows_text(made["memshare-replicas"], 1) == "\n".join(DISTTGL)
    one_rank = plan("memshare", work("tgn", hyper("tgn", 4, validate=False, events=shared()), data(20)))
    assert (one_rank.step == 0).all() and not (one_rank.lane == Lane.COMM).any()


def test_rows_of_groups() -> None:
    """Of 37 events that train two groups of two ranks have half each, two iterations of ten; the last group alone validates. Rows are
    memshare's, but for changes of shared nodes, which go to the ranks of a group alone."""
    given, changes = hyper("tgn", 5, events=shared(sent=1.0)), 0
    workload = work("tgn", given, data(50))
    schedule, stats = plan("memshare-replicas", workload, 4), workload.events
    assert schedule.iterations == 2 and not (schedule.op == Op.ALLGATHER).any()
    texts = [rows_text(schedule, rank) for rank in range(4)]
    assert texts[0] == texts[1] == "\n".join(WITHOUT_EVENTS) and texts[2] == texts[3] == "\n".join(MEMSHARE)
    sharing = SPREAD["memshare-replicas"].sharing
    sampling = sharing.sampling(given, shape_for(choice("tgn"), stats, given), stats)
    assert stats.spreading is not None
    for validates in (False, True):
        counts = stats.spreading(sharing.spread(given), 4, given.variant).work(validates, 5, sampling, 0, 1, True)
        own = counts.shared.reshape(-1, 2, 2)
        exchanged = (schedule.op == Op.ALLTOALL) & (schedule.layer == SYNCHRONISED_ROWS) & (schedule.step == validates)
        for rank in range(4):
            at = exchanged & (schedule.rank == rank)
            larger = own[:, rank // 2].max(1)  # what goes to the other one, or comes of it
            assert schedule.rows[at].tolist() == schedule.nodes[at].tolist() == larger.tolist()
            written = (schedule.op == Op.MEMORY_WRITE) & (schedule.layer == COMMON) & (schedule.rank == rank) & (schedule.step == validates)
            assert schedule.rows[written].tolist() == own[:, rank // 2].sum(1).tolist()
        changes += int(own.sum())
    assert changes > 0


def test_ranks_that_make_no_groups_are_refused() -> None:
    for ranks in (3, 5):
        workload = work("tgn", hyper("tgn", events=shared()))
        for count in (plan, lambda name, of, ranks: strategy(name).rows(of, ranks)):
            with pytest.raises(UserError) as error:
                count("memshare-replicas", workload, ranks)
            assert str(error.value) == f"training.replicas: {ranks} ranks do not make 2 groups; expected a multiple of 2 ranks"
    with pytest.raises(UserError, match=r"^training\.replicas: expected at least 1 group of ranks, got 0$"):
        shared(replicas=0)
    for wrong in ({"replicated": True}, {"cached": True}):
        with pytest.raises(UserError, match=r"^groups of ranks have memory in parts, and cache no rows of other ranks$"):
            Sharing(grouped=True, **wrong)


cases = st.tuples(
    st.sampled_from(["tgn", "jodie", "apan"]),
    st.integers(1, 9),
    st.integers(0, 4),
    st.integers(1, 3),
    st.booleans(),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.3]),
)


def workload_of(case: tuple[str, int, int, int, bool, int, float], ranks: int) -> Workload:
    """With two groups of ranks where they make two, else one for each."""
    model, size, limit, every, checks, staleness, share = case
    events = replace(shared(staleness=staleness, shared=share, replicas=ranks if ranks % 2 else 2), every=every)
    return work(model, hyper(model, size, batches=limit, validate=checks, events=events))


def together(schedule: Schedule, rank: int) -> list[int]:
    return schedule.collective[(schedule.rank == rank) & (schedule.collective >= 0)].tolist()


def peak(schedule: Schedule, trace: Trace, rank: int) -> int:
    """Bytes a rank holds at its fullest, instant by instant."""
    own = np.flatnonzero(schedule.rank == rank)
    start, end = trace.start_ns[own], trace.end_ns[own]
    allocated = [schedule.alloc[own][start <= at].sum() - schedule.free[own][(end <= at) & (start < at)].sum() for at in np.unique(start)]
    return int(schedule.resident + max(allocated, default=0))


@pytest.mark.slow
@given(cases, st.sampled_from([1, 2, 3, 4, 5]), st.sampled_from(sorted(SPREAD)), st.sampled_from(FUSED))
def test_every_plan_keeps_its_order(
    case: tuple[str, int, int, int, bool, int, float], ranks: int, name: str, streams: tuple[tuple[Lane, ...], ...]
) -> None:
    """However lanes are fused, since ranks meet in the same order; what is taken is given back."""
    workload = workload_of(case, ranks)
    schedule, sharing = plan(name, workload, ranks), SPREAD[name].sharing
    assert len({tuple(together(schedule, rank)) for rank in range(ranks)}) == 1
    owner = np.repeat(np.arange(len(schedule)), np.diff(schedule.dep_ptr))
    np.testing.assert_array_equal(schedule.rank[owner], schedule.rank[schedule.dep])
    for one, other in zip(*(np.bincount(schedule.rank, column, ranks) for column in (schedule.alloc, schedule.free)), strict=True):
        assert one == other
    cluster = replace(POLARIS, device=replace(POLARIS.device, streams=streams))
    trace = replay(schedule, cluster, COSTS)
    memory.check(schedule, trace, cluster)
    assert memory.peaks(schedule, trace).tolist() == [peak(schedule, trace, rank) for rank in range(ranks)]
    training, behind = schedule.iterations, case[5] * sharing.stale
    for rank in range(ranks):
        own = np.flatnonzero(schedule.rank == rank)
        span = {label(schedule, task): (int(trace.start_ns[task]), int(trace.end_ns[task])) for task in own}
        units = sorted(set(schedule.unit[own].tolist()))
        assert [unit for unit in units if f"optimize{unit}" in span] == list(range(training))
        for unit in units:
            assert (f"sample{unit}" in span) == (f"forward{unit}" in span) == (f"d2h{unit}" in span)
            assert (f"backward{unit}" in span) == (unit < training and f"sample{unit}" in span)
            for read in ("read", "fetch"):
                if f"{read}{unit}" not in span:
                    continue
                if (before := f"write{unit - 1 - behind}") in span:
                    assert span[f"{read}{unit}"][0] >= span[before][1]
                if behind and (after := f"write{unit - behind}") in span:
                    assert span[f"{read}{unit}"][1] <= span[after][0]
        if not sharing.pipelined:
            ordered = sorted((int(trace.start_ns[t]), int(trace.end_ns[t])) for t in own)
            assert all(end <= begin for (_, end), (begin, _) in pairwise(ordered))


@given(cases, st.sampled_from([1, 2, 3, 4, 5]), st.sampled_from(sorted(SPREAD)))
def test_rows_are_known_ahead(case: tuple[str, int, int, int, bool, int, float], ranks: int, name: str) -> None:
    """As many where every rank has events, fewer where some have none; of replicas one alone validates, of groups those of one."""
    workload = workload_of(case, ranks)
    schedule, expected = plan(name, workload, ranks), strategy(name).rows(workload, ranks)
    members = {"disttgl": 1, "memshare-replicas": ranks // 2 if ranks % 2 == 0 else 1}.get(name, ranks)
    count = np.bincount(schedule.op, minlength=len(Op))
    units = len(np.unique(schedule.unit[schedule.op == Op.OPTIMIZE])), len(np.unique(schedule.unit[schedule.step == VALIDATE]))
    validating = (units[1] - (units[1] > 0 and ranks > 1)) * members  # without the scores
    each = 8 + workload.model.layers + (members == 1)  # that a rank without events has not
    idle = units[0] * ranks - count[Op.BACKWARD], validating - count[Op.FORWARD] + count[Op.BACKWARD]
    assert expected - len(schedule) == idle[0] * (each + 1) + idle[1] * each


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", sorted(SPREAD))
@pytest.mark.parametrize("ranks", [1, 4, 64])
def test_a_replay_on_presets(name: str, ranks: int) -> None:
    """More nodes than ranks; most of these have no events in many an iteration."""
    workload = work("tgn", hyper("tgn", 2, events=shared(), batches=5), data(1500, 100))
    schedule = plan(name, workload, ranks)
    assert 0 < len(schedule) <= strategy(name).rows(workload, ranks) and schedule.ranks == ranks
    for preset in ("polaris", "h200", "a40-10g"):
        cluster = presets.scaled(presets.cluster(preset), ranks)
        trace = replay(schedule, cluster, DatasheetCosts(cluster.device))
        memory.check(schedule, trace, cluster)
        assert trace.span_ns > 0


@pytest.mark.parametrize("name", sorted(SPREAD))
def test_what_overlaps(name: str) -> None:
    """Of strategies in turn, a rank's epoch is the sum of its rows and of the waits for others; of pipelined ones it is shorter."""
    workload = work("tgn", hyper("tgn", 40, events=shared()), data(1500, 60), hidden=64)
    schedule = plan(name, workload, 2)
    trace = replay(schedule, FREE, DatasheetCosts(FREE.device))
    for rank in range(2):
        own = np.flatnonzero(schedule.rank == rank)
        busy = int((trace.end_ns[own] - trace.start_ns[own]).sum())
        span = int(trace.end_ns[own].max() - trace.start_ns[own].min())
        waits = sum(max(0, begin - end) for (_, end), (begin, _) in pairwise(zip(trace.start_ns[own], trace.end_ns[own], strict=True)))
        assert busy + waits == span if name in IN_TURN else busy > 1.1 * span


def test_a_pipeline_is_sooner_over() -> None:
    """The same rows but for their order."""
    workload = work("tgn", hyper("tgn", 40, events=shared()), data(1500, 60), hidden=64)

    def span(sharing: Sharing) -> int:
        schedule = replace(SPREAD["memshare"], sharing=sharing).plan(workload, 4, COSTS)
        return replay(schedule, FREE, DatasheetCosts(FREE.device)).span_ns

    for sharing in (SPREAD["memshare"].sharing, Sharing()):
        beside = span(replace(sharing, pipelined=True))
        assert span(replace(sharing, pipelined=True, stale=True)) < beside < span(replace(sharing, pipelined=False))


def test_shared_rows_are_not_requested() -> None:
    """Bytes: fewer rows of others, and what is told of shared nodes."""
    workload = work("tgn", hyper("tgn", 20, events=shared(shared=0.4)), data(600, 40))
    plain, hot, aware = (plan(name, workload, 4) for name in ("tgl-dist", "memshare-shared", "memshare"))

    def moved(schedule: Schedule, layer: int) -> int:
        return int(schedule.bytes[(schedule.op == Op.ALLTOALL) & (schedule.layer == layer)].sum())

    assert moved(aware, ROWS) < moved(hot, ROWS) < moved(plain, ROWS) and moved(hot, BACK) < moved(plain, BACK)
    everything, significant = (int(s.bytes[s.op == Op.ALLGATHER].sum()) for s in (hot, aware))
    assert 0 < significant < everything
    # Shared nodes are held by all, and what was said of them last; replicas hold everything.
    assert plain.host < hot.host < aware.host and hot.host < plan("disttgl", workload, 4).host


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["tgl-dist", "memshare"])
def test_cached_rows_are_allocated_and_not_fetched(name: str) -> None:
    """What a rank reads of its own part, and holds of others until the batch is over, is the same; less is asked for and sent."""
    given = hyper("tgn", 3, events=shared())
    plain, cached = (plan(f"{name}{way}", work("tgn", given, data(300, 30)), 3) for way in ("", "-cached"))
    for op, column in ((Op.GATHER, "rows"), (Op.MEMORY_READ, "rows"), (Op.H2D, "bytes"), (Op.BACKWARD, "free")):
        of_op = [getattr(each, column)[each.op == op] for each in (plain, cached)]
        assert np.array_equal(*of_op) and of_op[0].any(), op
    for layer in (IDS, ROWS):
        plain_rows, cached_rows = ((each.op == Op.ALLTOALL) & (each.layer == layer) for each in (plain, cached))
        fetched, every = cached.bytes[cached_rows], plain.bytes[plain_rows]
        assert (fetched <= every).all() and fetched.sum() < every.sum()
        assert np.array_equal(cached.alloc[cached_rows], plain.alloc[plain_rows])
    features = 4 * shape_for(choice("tgn"), stream_statistics(data(300, 30)), given).edge
    assert cached.resident - plain.resident > 300 * features > 0  # of all events, and all nodes


def test_rows_that_are_stale_are_not_fetched_again() -> None:
    """Coins are those of `memshare-cached`, and a node's neighbours that are cached are enough: fewer rows are fetched, and more read."""
    given = hyper("tgn", 3, events=shared())
    cached, stale = (plan(name, work("tgn", given, data(300, 30)), 3) for name in ("memshare-cached", "memshare-stale"))
    fetched = [int(one.rows[(one.op == Op.ALLTOALL) & (one.layer == ROWS)].sum()) for one in (cached, stale)]
    sampled = [int(one.edges[one.op == Op.SAMPLE].sum()) for one in (cached, stale)]
    assert fetched[1] <= fetched[0] and sampled[1] > sampled[0]
    given = hyper("tgn", 3, events=shared(theta=1.0))  # nothing is left out, and nothing may be stale
    cached, stale = (plan(name, work("tgn", given, data(300, 30)), 3) for name in ("memshare-cached", "memshare-stale"))
    assert np.array_equal(cached.rows, stale.rows) and np.array_equal(cached.bytes, stale.bytes)


def test_what_cannot_be_planned_is_one_line() -> None:
    workload = work("tgn", hyper("tgn", events=shared()))
    assert {"tgl-dist", "memshare", "mspipe", "disttgl"} <= set(SPREAD)
    for name in SPREAD:
        with pytest.raises(UserError, match="a schedule needs at least one rank, got 0"):
            plan(name, workload, 0)
        with pytest.raises(UserError, match="model 'tgat' has no node memory that ranks could share; models that have: tgn, jodie, apan"):
            plan(name, work("tgat", hyper("tgat")))
        with pytest.raises(UserError, match=f"strategy '{name}' cuts the stream into parts, and its events are not at hand"):
            plan(name, replace(workload, stats=replace(workload.events, spreading=None)))
    with pytest.raises(UserError, match="8 parts of 'small': only 7 of its 9 nodes are not shared; expected at most as many parts"):
        plan("memshare", workload, 8)
    with pytest.raises(UserError, match=r"training\.sampling: boundary decay is of the most recent neighbours, got 'uniform'"):
        plan("memshare", work("tgn", hyper("tgn", events=replace(shared(), policy="uniform"))), 2)
    assert len(plan("tgl-dist", work("tgn", hyper("tgn", events=replace(shared(), policy="uniform"))), 2))
    for wrong, message in (
        ({"shared": 1.0}, "training.shared: a share of the nodes, at least 0 and below 1, got 1"),
        ({"theta": 2.0}, "training.theta: expected 0 to 1, got 2"),
        ({"alpha": 2.5}, "training.alpha: expected 0 to 2, got 2.5"),
        ({"sent": -0.1}, "training.sent: expected 0 to 1, got -0.1"),
        ({"staleness": 0}, "training.staleness: expected at least 1 iteration, got 0"),
    ):
        with pytest.raises(UserError) as error:
            shared(**wrong)
        assert str(error.value) == message
