"""Plans of the baselines: rows by hand, memory that comes back, schedules that end, counts that agree with the edges."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.snapshots.partition import VertexPartition, expected_halo, metis_partition
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.datasets.snapshots.statistics import COLUMNS, SnapshotStatistics, statistics_of
from chronoscale.errors import UserError
from chronoscale.simulator import memory, presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.cluster import CPU_STREAMS
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.workload import Hyper, Partition, Workload

CLUSTER = presets.cluster("h200")
COSTS = DatasheetCosts(CLUSTER.device)
GRAPHS = GrowthGraph.rmat(60, 200, 14, 0.1, 1).sequence().without_self_edges()
N = GRAPHS.num_nodes


def work_of(model="wd-gcn", layers=1, ranks=1, graphs=GRAPHS, **hyper):
    cut = VertexPartition(np.random.default_rng(ranks).integers(0, ranks, graphs.num_nodes).astype(np.int32), ranks)
    shape = model_shape(model, 6, 8, layers)
    return Workload("w", statistics_of(graphs), shape, Hyper(**hyper), Partition(*cut.count(graphs)))


def written(schedule: Schedule, rank: int) -> str:
    """The rows of a rank: operation, step.layer."""
    rows = np.flatnonzero(schedule.rank == rank)
    return " ".join(f"{Op(schedule.op[r]).name}{schedule.step[r]}.{schedule.layer[r]}" for r in rows)


def test_esdg_by_hand():
    """Two ranks, groups of three: two snapshots, then one; one iteration a group."""
    schedule = strategy("esdg").plan(work_of(ranks=2, group_size=3, horizon=11), 2, COSTS)
    assert written(schedule, 0).startswith(
        "H2D0.0 AGGREGATE0.0 TRANSFORM0.0 H2D1.0 AGGREGATE1.0 TRANSFORM1.0 TEMPORAL0.0 TEMPORAL1.0 SEND1.0 "
        "FORWARD1.0 RECV1.0 BACKWARD1.0 FORWARD0.0 BACKWARD0.0 ALLREDUCE-1.-1 OPTIMIZE-1.-1"
    )
    assert written(schedule, 1).startswith(
        "H2D2.0 AGGREGATE2.0 TRANSFORM2.0 RECV2.0 TEMPORAL2.0 FORWARD2.0 BACKWARD2.0 SEND2.0 ALLREDUCE-1.-1 OPTIMIZE-1.-1"
    )
    dense, cell = (schedule.flops[schedule.op == op][0] for op in (Op.TRANSFORM, Op.TEMPORAL))
    assert set(schedule.flops[schedule.op == Op.FORWARD]) == {dense + cell}
    assert set(schedule.flops[schedule.op == Op.BACKWARD]) == {dense + 2 * cell}  # features have no gradient
    assert schedule.kind == "snapshots" and set(schedule.bytes[schedule.op == Op.SEND]) == {2 * N * 8 * 4}  # h and c


def test_evolving_weights_travel_not_nodes():
    schedule = strategy("esdg").plan(work_of("evolvegcn-h", 2, ranks=3), 3, COSTS)
    sent = schedule.op == Op.SEND
    assert set(schedule.bytes[sent & (schedule.layer == 0)]) == {8 * 6 * 4} and set(schedule.bytes[sent & (schedule.layer == 1)]) == {
        8 * 8 * 4
    }


def test_distdgl_by_hand():
    work = work_of(layers=2, ranks=3, group_size=1, horizon=13)
    schedule = strategy("distdgl").plan(work, 3, COSTS)
    cell = "ALLTOALL0.{0} AGGREGATE0.{0} TRANSFORM0.{0} TEMPORAL0.{0} "
    expected = "H2D0.0 " + cell.format(0) + cell.format(1) + "BACKWARD0.1 ALLTOALL0.1 BACKWARD0.0 ALLREDUCE-1.-1 OPTIMIZE-1.-1"
    for rank in range(3):
        assert written(schedule, rank) == expected
    halo = work.partition.halo[0]
    assert schedule.bytes[schedule.op == Op.ALLTOALL].tolist() == [*(halo * 6 * 4), *(halo * 8 * 4), *(halo * 8 * 4)]


def test_distdgl_models_exchange_what_they_read():
    def ops(model):
        return written(strategy("distdgl").plan(work_of(model, 2, ranks=2, group_size=1, horizon=13), 2, COSTS), 0)

    assert "TRANSFORM0.0 ALLTOALL0.0 AGGREGATE0.0 TEMPORAL0.0" in ops("gat-lstm")
    assert ops("gat-lstm").count("BACKWARD0.1 ALLTOALL0.1 BACKWARD0.1 BACKWARD0.0 ALLTOALL0.0 BACKWARD0.0") == 1
    assert "ALLTOALL0.1 AGGREGATE0.1 ALLGATHER0.1 TEMPORAL0.1 TRANSFORM0.1 BACKWARD0.1 ALLTOALL0.1 ALLTOALL0.1 BACKWARD0.0" in ops(
        "evolvegcn-h"
    )


@pytest.mark.parametrize(("model", "layers"), [("wd-gcn", 1), ("mpnn-lstm", 1), ("mpnn-lstm", 2)])
def test_esdg_convolves_what_psg_does(model, layers):
    """Layer 1 is not computed twice (REAL §7.2.3 finds equal FLOPs); rows that both have are described alike."""
    work = work_of(model, layers, ranks=4)
    psg, esdg = strategy("psg").plan(work, 1, COSTS), strategy("esdg").plan(work, 4, COSTS)
    for op in (Op.H2D, Op.AGGREGATE, Op.TRANSFORM, Op.TEMPORAL):
        for column in ("nodes", "edges", "rows", "width", "bytes", "flops"):
            one, other = (sorted(getattr(s, column)[s.op == op].tolist()) for s in (psg, esdg))
            fitted = column == "bytes" and op is not Op.H2D  # what rows move was counted of each kind of schedule
            assert one == (pytest.approx(other, rel=0.03) if fitted else other), (op, column)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("layers", [1, 2])
def test_gradients_are_the_same_mathematics(model, layers):
    """A group's backward pass has the flops of its cells'."""
    work = work_of(model, layers, ranks=4)
    psg, esdg = strategy("psg").plan(work, 1, COSTS), strategy("esdg").plan(work, 4, COSTS)
    assert psg.flops[psg.op == Op.BACKWARD].sum() == esdg.flops[esdg.op == Op.BACKWARD].sum()


@pytest.mark.slow
@given(
    st.sampled_from(["esdg", "distdgl"]),
    st.sampled_from(sorted(MODELS)),
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 2),
    st.booleans(),
)
def test_any_shape_ends_and_gives_its_memory_back(name, model, layers, ranks, size, stride, each, inline):
    """No deadlock, whether lanes are FIFOs of their own or one thread; every rank gives back what it took, at no time more."""
    work = work_of(model, layers, ranks, group_size=size, stride=stride, groups_per_rank=each)
    schedule = strategy(name).plan(work, ranks, COSTS)
    streams = (tuple(Lane),) if inline else CPU_STREAMS
    cluster = presets.scaled(CLUSTER, ranks)
    trace = replay(schedule, replace(cluster, device=replace(cluster.device, streams=streams)), COSTS)
    assert len(trace) == len(schedule)
    for rank in range(ranks):
        mine = np.flatnonzero(schedule.rank == rank)
        held = np.cumsum(schedule.alloc[mine] - schedule.free[mine])
        assert held[-1] == 0 and held.min() >= 0
    trained = {
        (u, s, n) for u, s, n in zip(*(c[schedule.op == Op.BACKWARD] for c in (schedule.unit, schedule.step, schedule.layer)), strict=True)
    }
    assert len(trained) == work.groups * size * layers
    assert memory.peaks(schedule, trace).max() < 1e9


@pytest.mark.parametrize("ranks", [1, 2, 16, 256, 1024])
def test_up_to_1024_ranks(ranks):
    graphs = GrowthGraph.rmat(1500, 4000, 11, 0.1, 1).sequence().without_self_edges()
    work = work_of("t-gcn", 2, ranks, graphs)
    for name in ("esdg", "distdgl"):
        schedule = strategy(name).plan(work, ranks, COSTS)
        trace = replay(schedule, presets.scaled(CLUSTER, ranks), COSTS)
        assert trace.span_ns > 0 and len(trace) == len(schedule)
        if name == "distdgl":
            share = np.bincount(schedule.rank[schedule.op == Op.AGGREGATE], schedule.rows[schedule.op == Op.AGGREGATE], ranks)
            assert share.sum() == 1500 * work.groups * 4 * 2  # every row once


def test_a_schedule_too_large_says_how_many_groups_fit():
    stats = statistics_of(GRAPHS)
    columns = {name: np.resize(getattr(stats, name), 3000) for name in COLUMNS}
    one = np.ones((3000, 1024), np.int64)
    work = Workload("long", SnapshotStatistics(**columns, num_nodes=1024), model_shape("t-gcn", 6), Hyper(), Partition(one, one, one, one))
    with pytest.raises(UserError, match=r"2996 groups on 1024 ranks take [\d,]+ rows; set `groups: 9\d\d` or fewer"):
        strategy("distdgl").plan(work, 1024, COSTS)


def test_a_missing_partition():
    work = work_of(ranks=2)
    with pytest.raises(UserError, match="needs a partition into 4 parts, has one into 2"):
        strategy("distdgl").plan(work, 4, COSTS)
    with pytest.raises(UserError, match="needs a partition into 4 parts, has none"):
        strategy("distdgl").plan(replace(work, partition=None), 4, COSTS)
    for name in ("esdg", "distdgl"):
        with pytest.raises(UserError, match="at least one GPU"):
            strategy(name).plan(work, 0, COSTS)


def test_kind_is_kept(tmp_path):
    schedule = strategy("esdg").plan(work_of(ranks=2), 2, COSTS)
    schedule.save(tmp_path / "s.parquet")
    assert Schedule.load(tmp_path / "s.parquet").kind == schedule.head(1).kind == "snapshots"
    psg = lower("psg", work_of(), deal(work_of().groups, 1), Reuse(), COSTS)
    psg.save(tmp_path / "p.parquet")
    assert Schedule.load(tmp_path / "p.parquet").kind == "groups"


@given(st.integers(1, 40), st.integers(0, 150), st.integers(1, 7), st.integers(0, 10**6))
def test_halos_are_those_of_brute_force(nodes, edges, parts, seed):
    random = np.random.default_rng(seed)
    graphs = [Snapshot.from_edges(nodes, *random.integers(0, nodes, (2, edges))) for _ in range(2)]
    cut = VertexPartition(random.integers(0, parts, nodes).astype(np.int32), parts)
    rows, ends, read, sent = cut.count(graphs)
    for t, snapshot in enumerate(graphs):
        owner = cut.assignment
        pairs = {(int(owner[v]), int(u)) for u, v in zip(snapshot.src, snapshot.dst, strict=True) if owner[u] != owner[v]}
        for part in range(parts):
            assert rows[t, part] == (owner == part).sum() and ends[t, part] == (owner[snapshot.dst] == part).sum()
            assert read[t, part] == sum(reader == part for reader, _ in pairs)
            assert sent[t, part] == sum(owner[u] == part for _, u in pairs)


def test_expected_halo_is_the_mean_over_random_partitions():
    random = np.random.default_rng(0)
    snapshot = GRAPHS[10]
    for parts in (1, 2, 5):
        found = [VertexPartition(random.integers(0, parts, N).astype(np.int32), parts).count([snapshot])[2].mean() for _ in range(400)]
        assert expected_halo(snapshot.out_degree(), parts) == pytest.approx(np.mean(found), rel=0.03)


@pytest.mark.slow
def test_metis_balances_and_cuts_less():
    """Two communities with few edges between them: METIS finds them; a random partition reads many more rows."""
    random = np.random.default_rng(0)
    src, dst = random.integers(0, 200, (2, 3000))
    kept = ((src < 100) == (dst < 100)) & (src != dst)
    snapshot = Snapshot.from_edges(200, src[kept], dst[kept])
    from_metis = metis_partition(SnapshotSequence.from_snapshots([snapshot]), 2)
    assert np.bincount(from_metis).tolist() == [100, 100]
    assert VertexPartition(from_metis, 2).count([snapshot])[2].sum() == 0 < expected_halo(snapshot.out_degree(), 2)
