"""Plans of sliding windows, row by row: counts, what waits for what, memory that comes back, bytes, and one order for all ranks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.snapshots.survival import EpochDraws, level_of
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.flaredtdg.retention import WindowRetention
from chronoscale.strategies.flaredtdg.strategy import FLAREDTDG, FULL_HISTORY, IN_ORDER, RECENT_ONLY, REMAPPED, ROUND_ROBIN, WindowStrategy
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Recency, Workload

COSTS = DatasheetCosts(presets.cluster("h200").device)
GRAPHS = GrowthGraph.rmat(200, 600, 14, 0.1, 1).sequence().without_self_edges()
DECAY = Decay(2, 3, 0.25)
CHUNKS = 64
ALL = (FLAREDTDG, ROUND_ROBIN, IN_ORDER, REMAPPED, FULL_HISTORY, RECENT_ONLY)
MODELS = ("t-gcn", "mpnn-lstm", "evolvegcn-o", "evolvegcn-h")
HIDDEN, INPUTS = 4, 2


@cache
def counted(chunks: int = CHUNKS) -> ExactChunking:
    return ExactChunking(GRAPHS, Chunks((np.arange(200) * chunks // 200).astype(np.int32), chunks))


def workload(model: str = "t-gcn", layers: int = 2, decay: Decay = DECAY, chunks: int = CHUNKS, **hyper) -> Workload:
    hyper_ = Hyper(task="degrees", recency=Recency(decay, chunks), **hyper)
    return Workload("growth", statistics_of(GRAPHS), model_shape(model, INPUTS, HIDDEN, layers, 2), hyper_, chunking=counted(chunks))


@cache
def planned(strategy: WindowStrategy, model: str = "t-gcn", layers: int = 2, ranks: int = 2, decay: Decay = DECAY) -> Schedule:
    return strategy.plan(workload(model, layers, decay), ranks, COSTS)


def rows(schedule: Schedule, **at: int) -> list[int]:
    """Rows with these values in their columns."""
    mask = np.ones(len(schedule), bool)
    for name, value in at.items():
        mask &= getattr(schedule, name) == value
    return np.flatnonzero(mask).tolist()


def described(schedule: Schedule) -> Iterator[tuple[int, ...]]:
    """Every row but for its order."""
    names = ("op", "rank", "lane", "iteration", "step", "layer", "rows", "edges", "bytes", "flops", "alloc", "free")
    yield from zip(*(getattr(schedule, name).tolist() for name in names), strict=True)


def ancestors(schedule: Schedule) -> list[set[int]]:
    """Rows that each waits for, through dependencies and the order of lanes."""
    before: list[set[int]] = []
    last: dict[tuple[int, int], int] = {}
    for task in range(len(schedule)):
        lane = int(schedule.rank[task]), int(schedule.lane[task])
        direct = {*schedule.dependencies(task).tolist(), *([last[lane]] if lane in last else [])}
        before.append(direct.union(*(before[one] for one in direct)))
        last[lane] = task
    return before


def segments(decay: Decay = DECAY) -> list[range]:
    return EpochDraws(0, 0).steps(len(GRAPHS) - 1, decay.window)


@pytest.mark.parametrize(("model", "layers", "ranks"), [*product(MODELS, (1, 2), (1, 3))])
def test_rows_of_a_window(model: str, layers: int, ranks: int) -> None:
    schedule, spread, length = planned(FLAREDTDG, model, layers, ranks), ranks > 1, DECAY.window
    shape = model_shape(model, INPUTS, HIDDEN, layers, 2)
    windows = sum(len(one) for one in segments())
    each = {Op.AGGREGATE: layers, Op.TRANSFORM: layers, Op.BACKWARD: layers, Op.TEMPORAL: sum(map(shape.recurs, range(layers)))}
    if spread:
        each[Op.ALLTOALL] = (2 + shape.summarises) * (layers - 1)  # there and back; candidates' gradients go back as well
        each[Op.ALLGATHER] = layers * shape.summarises
    for op, count in each.items():
        assert len(rows(schedule, op=op)) == count * length * windows * ranks, op.name
    brought = len(segments()) * (length - 1) + windows
    for op in (Op.H2D, Op.REMAP):
        assert len(rows(schedule, op=op)) == brought * ranks
    assert len(rows(schedule, op=Op.OPTIMIZE)) == windows * ranks and len(rows(schedule, op=Op.ALLREDUCE)) == windows * ranks * spread
    assert set(schedule.op.tolist()) <= {*each, Op.H2D, Op.REMAP, Op.OPTIMIZE, Op.ALLREDUCE}
    assert len(schedule) == FLAREDTDG.rows(workload(model, layers), ranks)
    assert schedule.kind == "blocks" and (schedule.unit == schedule.iteration).all() and schedule.iterations == windows


@pytest.mark.parametrize("strategy", ALL, ids=lambda one: one.name)
def test_what_waits_for_what(strategy: WindowStrategy) -> None:
    """Followed through dependencies and the order of lanes: a row sees all that it reads."""
    schedule = planned(strategy)
    length = strategy.keeps(workload().hyper.recency).window
    before = ancestors(schedule)

    def sees(later: list[int], earlier: list[int]) -> None:
        assert len(later) == 1 and len(earlier) == 1 and earlier[0] in before[later[0]]

    for iteration, rank, step in product((0, 1, schedule.iterations - 1), range(2), range(length)):
        here = {"iteration": iteration, "rank": rank, "step": step}
        (first,) = rows(schedule, op=Op.AGGREGATE, layer=0, **here)
        newest = [one for one in rows(schedule, op=Op.H2D, rank=rank) if schedule.iteration[one] <= iteration]
        assert any(one in before[first] for one in newest)
        for arrived in rows(schedule, op=Op.H2D, **here):
            assert arrived in before[first]
        there, back = (
            [
                one
                for one in rows(schedule, op=Op.ALLTOALL, layer=1, **here)
                if (one < rows(schedule, op=Op.BACKWARD, layer=1, **here)[0]) == way
            ]
            for way in (True, False)
        )
        sees(there, rows(schedule, op=Op.TEMPORAL, layer=0, **here))
        sees(rows(schedule, op=Op.AGGREGATE, layer=1, **here), there)
        sees(back, rows(schedule, op=Op.BACKWARD, layer=1, **here))
        sees(rows(schedule, op=Op.BACKWARD, layer=0, **here), back)
        for layer in range(2) if step else ():
            older = {**here, "step": step - 1, "layer": layer}
            sees(rows(schedule, op=Op.TEMPORAL, layer=layer, **here), rows(schedule, op=Op.TEMPORAL, **older))
            sees(rows(schedule, op=Op.BACKWARD, **older), rows(schedule, op=Op.BACKWARD, layer=layer, **here))
        (reduced,), (stepped,) = (rows(schedule, op=op, iteration=iteration, rank=rank) for op in (Op.ALLREDUCE, Op.OPTIMIZE))
        assert rows(schedule, op=Op.BACKWARD, layer=0, **here)[0] in before[reduced] and reduced in before[stepped]
        if iteration:
            assert (
                rows(schedule, op=Op.OPTIMIZE, iteration=iteration - 1, rank=rank)[0] in before[rows(schedule, op=Op.TEMPORAL, **here)[0]]
            )


def test_snapshots_come_no_more_than_one_window_ahead() -> None:
    schedule = planned(FLAREDTDG)
    for task in rows(schedule, op=Op.H2D):
        iteration, rank = int(schedule.iteration[task]), int(schedule.rank[task])
        if iteration >= 2:
            assert rows(schedule, op=Op.OPTIMIZE, iteration=iteration - 2, rank=rank)[0] in [
                *schedule.dependencies(task).tolist(),
                *(one for before in schedule.dependencies(task).tolist() for one in schedule.dependencies(before).tolist()),
            ]


@pytest.mark.sample(21)
@pytest.mark.parametrize("strategy", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize(("model", "layers", "ranks"), [*product(MODELS, (1, 2), (1, 2))])
def test_memory_comes_back(strategy: WindowStrategy, model: str, layers: int, ranks: int) -> None:
    """All that an epoch takes; and on the way never more is given back than was taken."""
    schedule = planned(strategy, model, layers, ranks)
    for rank in range(ranks):
        mine = schedule.rank == rank
        assert schedule.alloc[mine].sum() == schedule.free[mine].sum()
        assert (np.cumsum(schedule.alloc[mine] - schedule.free[mine]) >= 0).all()


@pytest.mark.parametrize("strategy", [FLAREDTDG, REMAPPED], ids=lambda one: one.name)
@pytest.mark.parametrize("lags", [(3,), (2,), (1, 3)])
def test_memory_comes_back_with_lags(strategy: WindowStrategy, lags: tuple[int, ...]) -> None:
    schedule = planned(strategy, decay=Decay(1, 3, 0.125, lags))
    for iteration in range(schedule.iterations):
        left = [(schedule.alloc - schedule.free)[(schedule.iteration <= iteration) & (schedule.rank == rank)].sum() for rank in range(2)]
        there = [
            (schedule.alloc)[(schedule.iteration <= iteration) & (schedule.rank == rank) & (schedule.op == Op.H2D)].sum()
            for rank in range(2)
        ]
        assert all(0 <= one < other for one, other in zip(left, there, strict=True))
    assert left == [0, 0]


def test_bytes_are_the_formulas() -> None:
    schedule, epoch = planned(FLAREDTDG, "evolvegcn-h", 2, 3), EpochDraws(0, 0)
    blocks = counted().count_blocks(epoch, DECAY, 3)
    level = level_of(DECAY, CHUNKS)[::-1]
    newest = [t for one in segments() for t in one]
    for task in range(len(schedule)):
        op, rank, step, layer = Op(schedule.op[task]), schedule.rank[task], schedule.step[task], schedule.layer[task]
        if step < 0:
            continue
        t, at = newest[schedule.iteration[task]] - (DECAY.window - 1 - step), level[step]
        own, edges, halo = blocks.rows[at, rank], blocks.edges[t, at, rank], blocks.halo[t, at, rank]
        width, summary = HIDDEN if layer else INPUTS, np.minimum(blocks.rows[at], HIDDEN)
        if op is Op.H2D:
            matrix = 8 * (own + 1) + (4 + 4) * (edges + own) + 4 * own
            assert schedule.bytes[task] == matrix + 4 * INPUTS * (own + halo)
        elif op is Op.ALLGATHER and schedule.rows[task] == summary[rank]:
            assert schedule.bytes[task] == summary[rank] * width * 4
        elif op is Op.ALLTOALL:
            assert schedule.bytes[task] in (halo * HIDDEN * 4, (summary.sum() - summary[rank]) * HIDDEN * 4)
        elif op is Op.AGGREGATE:
            assert schedule.edges[task] == edges + own and schedule.rows[task] == own and schedule.nodes[task] == own + halo
        elif op is Op.REMAP:
            assert schedule.lane[task] == Lane.HOST
    parameters = model_shape("evolvegcn-h", INPUTS, HIDDEN, 2, 2).parameters
    assert (schedule.bytes[schedule.op == Op.ALLREDUCE] == 4 * parameters).all()


@pytest.mark.parametrize("strategy", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize("model", ["t-gcn", "evolvegcn-h"])
def test_all_ranks_go_in_one_order(strategy: WindowStrategy, model: str) -> None:
    schedule = planned(strategy, model, 2, 3)
    names = ("op", "lane", "iteration", "step", "layer", "collective")
    lists = [list(zip(*(getattr(schedule, name)[schedule.rank == rank].tolist() for name in names), strict=True)) for rank in range(3)]
    assert lists[0] == lists[1] == lists[2]
    ids = schedule.collective[schedule.collective >= 0]
    assert set(Counter(ids.tolist()).values()) == {3}


def test_policies_differ_only_in_order() -> None:
    expected = Counter(described(planned(FLAREDTDG)))
    orders = set()
    for strategy in (FLAREDTDG, ROUND_ROBIN, IN_ORDER):
        assert Counter(described(planned(strategy))) == expected
        mine = planned(strategy).rank == 0
        orders.add(tuple(zip(planned(strategy).op[mine].tolist(), planned(strategy).step[mine].tolist(), strict=True)))
    assert len(orders) == 3


def test_nothing_overlaps_where_all_is_in_order() -> None:
    """Of an exchange and a computation of one window one waits for the other; elsewhere many may run at once."""
    beside = {}
    for strategy in (IN_ORDER, FLAREDTDG):
        schedule = planned(strategy)
        before = ancestors(schedule)
        here = [one for one in rows(schedule, iteration=1, rank=0) if schedule.step[one] >= 0]
        exchanges, computed = ([one for one in here if schedule.lane[one] == lane] for lane in (Lane.COMM, Lane.COMPUTE))
        beside[strategy] = sum(a not in before[b] and b not in before[a] for a, b in product(exchanges, computed))
    assert beside[IN_ORDER] == 0 and beside[FLAREDTDG] > 20


def test_a_segment_begins_with_all_of_a_window() -> None:
    for strategy in (FLAREDTDG, REMAPPED):
        schedule, starts = planned(strategy), np.cumsum([0, *(len(one) for one in segments())])[:-1]
        for iteration in range(schedule.iterations):
            steps = schedule.step[rows(schedule, op=Op.H2D, iteration=iteration, rank=1)].tolist()
            expected = list(range(DECAY.window)) if iteration in starts else [DECAY.window - 1]
            assert sorted(steps) == expected


def test_a_lag_comes_again() -> None:
    """Of a snapshot that a lag keeps whole the part that was cut off a step before has to be sent again; without shrinking it is there."""
    decay = Decay(1, 3, 0.125, (3,))
    for strategy, expected in ((FLAREDTDG, [0, 3]), (REMAPPED, [3])):
        schedule = planned(strategy, decay=decay)
        starts = np.cumsum([0, *(len(one) for one in segments(decay))])[:-1]
        later = [iteration for iteration in range(schedule.iterations) if iteration not in starts]
        assert later
        for iteration in later:
            assert sorted(schedule.step[rows(schedule, op=Op.H2D, iteration=iteration, rank=0)].tolist()) == expected


def test_built_anew_in_every_step() -> None:
    """On the device, where less than the whole is kept; snapshots come whole."""
    schedule, whole = planned(REMAPPED), planned(FULL_HISTORY)
    remaps = rows(schedule, op=Op.REMAP, rank=0, iteration=1)
    assert sorted(schedule.step[remaps].tolist()) == [0, 1, 2] and (schedule.lane[remaps] == Lane.COMPUTE).all()
    assert sorted(schedule.bytes[schedule.op == Op.H2D].tolist()) == sorted(whole.bytes[whole.op == Op.H2D].tolist())


def test_snapshots_without_retained_chunks_are_no_part() -> None:
    decay = Decay(1, 4, 1e-9)  # 64, 0, ...
    schedule = planned(FLAREDTDG, decay=replace(decay, alpha=0.0001))
    counts = [count for count in replace(decay, alpha=0.0001).kept_chunks(CHUNKS).tolist() if count]
    assert 1 < len(counts) < decay.window and schedule.step.max() == len(counts) - 1
    assert schedule.iterations == sum(len(one) for one in segments(decay))


@pytest.mark.parametrize("ranks", [1, 2, 5, 16, 64])
def test_any_number_of_ranks(ranks: int) -> None:
    """What all ranks do together does not depend on how many they are."""
    schedule, one_rank = planned(FLAREDTDG, ranks=ranks), planned(FLAREDTDG, ranks=1)
    for op in (Op.AGGREGATE, Op.TRANSFORM, Op.TEMPORAL):
        for name in ("rows", "edges", "flops"):
            assert getattr(schedule, name)[schedule.op == op].sum() == getattr(one_rank, name)[one_rank.op == op].sum()
    assert schedule.ranks == ranks and len(np.unique(schedule.rank)) == ranks


def test_what_a_schedule_says_of_its_windows() -> None:
    for strategy, decay in ((FLAREDTDG, DECAY), (FULL_HISTORY, Decay(5, 0, 1.0)), (RECENT_ONLY, Decay(2, 0, 1.0))):
        assert WindowRetention.of(planned(strategy)) == WindowRetention(decay, inherits=strategy is not RECENT_ONLY)
    published = FLAREDTDG.plan(workload(variant="as-published", decay=Decay(1, 3, 0.5, (2,))), 2, COSTS)
    assert WindowRetention.of(published) == WindowRetention(Decay(1, 3, 0.5, (2,)), each=True)
    assert WindowRetention.of(published).epoch(3, 4) == EpochDraws(3, 4, each=True)


def test_windows_of_runs_before_the_split_had_a_choice() -> None:
    """Their schedules say nothing of it, and no window crossed it."""
    schedule = planned(FLAREDTDG)
    feeding = json.loads(schedule.feeding)
    del feeding["apart"]
    assert WindowRetention.of(replace(schedule, feeding=json.dumps(feeding))) == replace(WindowRetention.of(schedule), apart=True)


@pytest.mark.parametrize("apart", [False, True])
def test_windows_that_cross_the_split_or_do_not(apart: bool) -> None:
    work = workload()
    work = replace(work, hyper=replace(work.hyper, recency=replace(work.hyper.recency, apart=apart)))
    schedule, snapshots = FLAREDTDG.plan(work, 2, COSTS), len(GRAPHS) - 1
    assert WindowRetention.of(schedule).apart == apart
    assert schedule.iterations == snapshots - (1 + apart) * (DECAY.window - 1)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("strategy", [FLAREDTDG, FULL_HISTORY])
def test_a_snapshot_is_seen_first_once_at_a_level(strategy: WindowStrategy, apart: bool) -> None:
    """Also where windows before the split read what those after it have read."""
    work = workload()
    plan = strategy._plan(replace(work, hyper=replace(work.hyper, recency=replace(work.hyper.recency, apart=apart))), 2)
    seen, window = set[tuple[int, int]](), len(plan.level)
    for iteration, newest in enumerate(plan.newest):
        pairs = [(int(newest) - (window - 1 - step), int(plan.level[step])) for step in range(window)]
        assert [bool(plan.seen_first(step)[iteration]) for step in range(window)] == [pair not in seen for pair in pairs]
        seen.update(pairs)
    assert not plan.seen_first(window - 1).all() or apart  # otherwise nothing was told apart


@pytest.mark.parametrize("feeding", ["", "store", "{}", '{"full": 2}', '{"full": 2, "lags": 3, "each": false}', '["each"]', "3"])
def test_windows_that_are_unknown(feeding: str) -> None:
    with pytest.raises(UserError) as error:
        WindowRetention.of(replace(planned(FLAREDTDG), feeding=feeding))
    assert str(error.value) == f"schedule 'flaredtdg': windows '{feeding}' are unknown to this version"


def test_held_out_snapshots_end_no_window() -> None:
    schedule = FLAREDTDG.plan(workload(held=HeldOut(0.0, 0.25)), 1, COSTS)
    trained = len(HeldOut(0.0, 0.25).split(len(GRAPHS)).training)
    assert schedule.iterations == sum(len(one) for one in EpochDraws().steps(trained - 1, DECAY.window)) and trained < len(GRAPHS)


@pytest.mark.parametrize(
    ("settings", "ranks", "message"),
    [
        (
            {"decay": Decay(6, 8)},
            2,
            "training.full + training.decayed: a window of 6 + 8 snapshots, and 'growth' has 13 to train on",
        ),
        ({"chunks": 3}, 4, "training.chunks: 3 chunks cannot be shared by 4 ranks; ask for 4 or more"),
        (
            {"model": "evolvegcn-h", "decay": Decay(2, 3, 0.015), "chunks": 100},
            2,
            "training.alpha: 0.015 leaves 2 nodes of the oldest snapshot; model 'evolvegcn-h' summarises as many as hidden, 4",
        ),
        ({"model": "gat-lstm"}, 2, "flaredtdg: model 'gat-lstm' attends; windows take graph convolutions"),
    ],
)
def test_what_is_wrong_is_said(settings: dict, ranks: int, message: str) -> None:
    with pytest.raises(UserError) as error:
        FLAREDTDG.plan(workload(**settings), ranks, COSTS)
    assert str(error.value) == message


def test_chunks_are_needed() -> None:
    with pytest.raises(UserError, match=r"^flaredtdg: 'growth' needs chunks, has none$"):
        FLAREDTDG.plan(replace(workload(), chunking=None), 2, COSTS)


def test_more_rows_than_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chronoscale.strategies.flaredtdg.strategy.MOST", 100)
    with pytest.raises(UserError, match=r"^flaredtdg: its windows on 2 ranks take [\d,]+ rows; set `groups: 1` or fewer$"):
        FLAREDTDG.plan(workload(), 2, COSTS)
