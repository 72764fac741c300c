"""Plans on signals: PGT-I's strategies row by row, against brute force, and on the simulator."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from chronoscale.batching.signals.windows import WindowAssignment, Windows
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.simulator import memory, presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import of, strategy
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.signals.forecasters import forecaster_shape, forward_flops
from chronoscale.strategies.signals.stores import expected_workers
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

POLARIS = presets.cluster("polaris")
COSTS = DatasheetCosts(POLARIS.device, engine=POLARIS.engine)
NAMES = sorted(of("signals"))
PREFETCHED = ("pgt", "index", "gen-dist-index")
PEMS = SignalStatistics(105_120, 11_160, 2, 111_600, 8)


def deals(windows: Windows, hyper: Hyper, ranks: int, name: str) -> tuple[WindowAssignment, WindowAssignment]:
    feeding = strategy(name).feeding
    return feeding.training(windows, hyper, ranks), feeding.validation(windows, hyper, ranks)


def signal(steps: int = 20, sensors: int = 5, itemsize: int = 4, **hyper: object) -> Workload:
    """A signal of `sensors` sensors, 2 channels and 7 edges; without changes 16 windows of which 11 train and 2 validate."""
    settings = Hyper(**{"window": 3, "horizon": 2, "batch_size": 3, **hyper})  # type: ignore[arg-type]
    shape = forecaster_shape(ModelChoice("dcrnn", 4), sensors, 2, settings.window, settings.horizon)
    return Workload("w", SignalStatistics(steps, sensors, 2, 7, itemsize), shape, settings)


def plan(name: str, work: Workload, ranks: int = 1) -> Schedule:
    return strategy(name).plan(work, ranks, COSTS)


def prepare(name: str, work: Workload, ranks: int = 1) -> Schedule:
    planner = strategy(name)
    assert planner.prepares
    return planner.prepare(work, ranks, COSTS)


def told(schedule: Schedule, rank: int) -> str:
    """Rows of one rank: `operation unit@lane <- operation unit`."""

    def label(task: int) -> str:
        return f"{Op(schedule.op[task]).name.lower()}{schedule.unit[task]}"

    lines = []
    for task in np.flatnonzero(schedule.rank == rank).tolist():
        deps = [label(dep) for dep in schedule.dependencies(task).tolist()]
        lines.append(f"{label(task)}@{Lane(schedule.lane[task]).name}" + (f" <- {' '.join(deps)}" if deps else ""))
    return "\n".join(lines)


def end(unit: int, before: str = "") -> str:
    """Rows of a training batch from its forward pass on, for two ranks."""
    after = f" <- {before}{unit}" if before else ""
    update = f"allreduce{unit}@COMM <- backward{unit}\noptimize{unit}@COMPUTE <- allreduce{unit}\n"
    return f"forward{unit}@COMPUTE{after}\nbackward{unit}@COMPUTE\n{update}"


HOST = (
    f"gather0@HOST\nh2d0@H2D <- gather0\n{end(0, 'h2d')}gather1@HOST\nh2d1@H2D <- gather1\n{end(1, 'h2d')}"
    "gather2@HOST <- backward0\nh2d2@H2D <- gather2\nforward2@COMPUTE <- h2d2\nallreduce3@COMM <- forward2"
)
DEVICE = (
    f"gather0@COMPUTE\n{end(0)}gather1@COMPUTE\n{end(1)}"
    "gather2@COMPUTE\nforward2@COMPUTE\nallreduce3@COMM <- forward2"
)  # fmt: skip
ENGINE = (
    f"fetch0@COMM\nh2d0@H2D <- fetch0\n{end(0, 'h2d')}fetch1@COMM <- optimize0\nh2d1@H2D <- fetch1\n{end(1, 'h2d')}"
    "fetch2@COMM <- optimize1\nh2d2@H2D <- fetch2\nforward2@COMPUTE <- h2d2\nallreduce3@COMM <- forward2"
)
BLOCK = (
    f"fetch0@HOST\nh2d0@H2D <- fetch0\ngather0@COMPUTE <- h2d0\n{end(0)}fetch1@HOST\nh2d1@H2D <- fetch1\ngather1@COMPUTE <- h2d1\n{end(1)}"
    "fetch2@HOST <- backward0\nh2d2@H2D <- fetch2\ngather2@COMPUTE <- h2d2\nforward2@COMPUTE\nallreduce3@COMM <- forward2"
)
ROWS = {
    "pgt": HOST, "index": HOST, "gpu-index": DEVICE, "dist-index": DEVICE, "ddp": ENGINE, "ddp-batch": ENGINE, "gen-dist-index": BLOCK,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_rows(name: str) -> None:
    schedule = plan(name, signal(), 2)
    assert told(schedule, 0) == ROWS[name] and schedule.kind == "windows"
    validates = schedule.unit >= 2
    np.testing.assert_array_equal(schedule.step, validates)
    np.testing.assert_array_equal(schedule.iteration, np.minimum(schedule.unit, 1))
    alone = plan(name, signal(validate=False), 1)
    assert not np.isin(alone.op, [Op.ALLREDUCE]).any() and (alone.step == 0).all() and alone.iterations == 4


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("pgt", [("MATERIALISE", "HOST", 16 * 5 * 40)]),
        ("index", [("MATERIALISE", "HOST", 20 * 40)]),
        ("gpu-index", [("H2D", "H2D", 20 * 40), ("MATERIALISE", "COMPUTE", 20 * 40)]),
        ("dist-index", [("H2D", "H2D", 20 * 40), ("MATERIALISE", "COMPUTE", 20 * 40)]),
        ("ddp", [("MATERIALISE", "HOST", 7 * 40), ("ALLREDUCE", "COMM", 96), ("MATERIALISE", "HOST", 8 * 5 * 40)]),
        ("ddp-batch", [("MATERIALISE", "HOST", 7 * 40), ("ALLREDUCE", "COMM", 96), ("MATERIALISE", "HOST", 8 * 5 * 40)]),
        ("gen-dist-index", [("MATERIALISE", "HOST", 7 * 40), ("ALLREDUCE", "COMM", 96)]),  # 13 steps train: 7 and 6
    ],
)
def test_preparation(name: str, rows: list[tuple[str, str, int]]) -> None:
    schedule = prepare(name, signal(), 2)
    own = np.flatnonzero(schedule.rank == 0).tolist()
    assert [(Op(schedule.op[t]).name, Lane(schedule.lane[t]).name, int(schedule.bytes[t])) for t in own] == rows
    assert [schedule.dependencies(t).tolist() for t in own[1:]] == [[t] for t in own[:-1]]  # one after the other
    assert schedule.kind == "preparation" and schedule.host == plan(name, signal(), 2).host
    assert not np.isin(prepare(name, signal(), 1).op, [Op.ALLREDUCE]).any()
    replay(schedule, POLARIS, COSTS)


def test_shares_of_moments_cover_the_period() -> None:
    for standardise, period in (("training", 13), ("windows", 13), ("series", 20)):
        work = signal(standardise=standardise, variant="as-published")
        for ranks in (1, 3, 16):
            schedule = prepare("gen-dist-index", work, ranks)
            assert schedule.bytes[schedule.op == Op.MATERIALISE].sum() == period * 40


signals = st.builds(
    signal,
    steps=st.integers(12, 70),
    window=st.integers(1, 5),
    horizon=st.integers(1, 4),
    batch_size=st.integers(1, 7),
    batches=st.integers(0, 3),
    validate=st.booleans(),
)


@examples(40)
@given(signals, st.integers(1, 7), st.sampled_from(NAMES))
def test_an_epoch_is_what_is_dealt(work: Workload, ranks: int, name: str) -> None:
    """Bytes, windows and requests of every batch and rank, from the windows that the deal really gives."""
    schedule, reach = plan(name, work, ranks), work.windows.reach
    data = np.zeros((work.signal.steps, 5, 2), np.float32)
    training, validation = deals(work.windows, work.hyper, ranks, name)
    dealt = [training.starts(rank, 1) + ([] if validation is None else validation.starts(rank, 1)) for rank in range(ranks)]
    row = {(int(s), int(r), int(u)): i for i, (s, r, u) in enumerate(zip(schedule.op, schedule.rank, schedule.unit, strict=True))}
    for rank, unit in product(range(ranks), range(len(dealt[0]))):
        held = dealt[rank][unit]
        assert ((Op.OPTIMIZE, rank, unit) in row) == (unit < training.iterations)
        if not len(held):
            assert not any((op, rank, unit) in row for op in (Op.FETCH, Op.GATHER, Op.H2D, Op.FORWARD, Op.BACKWARD))
            continue
        forward = row[Op.FORWARD, rank, unit]
        assert schedule.rows[forward] == 5 * len(held)
        assert schedule.flops[forward] == forward_flops(work.model, 5, 7, len(held), work.hyper.window, work.hyper.horizon)
        assert ((Op.BACKWARD, rank, unit) in row) == (unit < training.iterations)
        cut = np.stack([data[s : s + reach] for s in held]).nbytes
        if name == "gen-dist-index":
            block = data[held[0] : held[-1] + reach].nbytes
            assert schedule.bytes[row[Op.FETCH, rank, unit]] == schedule.bytes[row[Op.H2D, rank, unit]] == block
        elif name not in ("gpu-index", "dist-index"):
            assert schedule.bytes[row[Op.H2D, rank, unit]] == cut
        first = row[Op.FETCH if name.startswith("ddp") else Op.GATHER, rank, unit]
        assert schedule.bytes[first] == cut and schedule.rows[first] == len(held) * reach
        if name.startswith("ddp"):
            asked = [schedule.nodes[row[Op.FETCH, other, unit]] for other in range(ranks) if len(dealt[other][unit])]
            assert schedule.edges[first] == sum(asked) and 1 <= schedule.nodes[first] <= min(len(held), ranks)
            assert name == "ddp" or schedule.nodes[first] == 1


@examples(40)
@given(signals, st.integers(1, 9), st.sampled_from(NAMES))
def test_every_plan_replays_and_keeps_two_batches_in_flight(work: Workload, ranks: int, name: str) -> None:
    schedule = plan(name, work, ranks)
    trace = replay(schedule, POLARIS, COSTS)
    np.testing.assert_array_equal(*(np.bincount(schedule.rank, column, ranks) for column in (schedule.alloc, schedule.free)))
    most = 2 if name in PREFETCHED else 1
    for rank in range(ranks):
        spans = []
        for unit in np.unique(schedule.unit[schedule.op == Op.FORWARD]):
            mine = np.flatnonzero((schedule.rank == rank) & (schedule.unit == unit))
            passes = mine[np.isin(schedule.op[mine], [Op.FORWARD, Op.BACKWARD])]
            if len(passes):
                spans.append((int(trace.start_ns[mine[0]]), int(trace.end_ns[passes].max())))
        for begin, _ in spans:
            assert sum(first <= begin < last for first, last in spans) <= most


@pytest.mark.parametrize(("windows", "workers"), [(1, 4), (2, 3), (3, 3), (4, 2), (5, 1)])
def test_requests_are_the_distinct_workers(windows: int, workers: int) -> None:
    mean = np.mean([len(set(held)) for held in product(range(workers), repeat=windows)])
    assert expected_workers(np.array([windows]), workers) == max(round(mean), 1)
    assert expected_workers(np.array([0]), workers) == 0


def test_fetching_takes_the_engine() -> None:
    schedule = plan("ddp", signal(batch_size=2), 4)
    rows = schedule.tasks(Op.FETCH)
    ns, _ = DatasheetCosts(POLARIS.device, engine=Link(1e6, 1e-3)).predict(schedule, rows)
    np.testing.assert_array_equal(ns, schedule.edges[rows] * 1_000_000 + schedule.bytes[rows] * 1_000)
    with pytest.raises(UserError, match=r"'ddp' fetches data .* the cluster has no data engine: its file needs engine: \{bandwidth"):
        DatasheetCosts(POLARIS.device).predict(schedule, rows)
    block = plan("gen-dist-index", signal())
    assert DatasheetCosts(POLARIS.device).predict(block, block.tasks(Op.FETCH))[0].min() > 0  # a read of host memory


@pytest.mark.parametrize(
    ("name", "variant", "size"),
    [
        ("pgt", "exact", 450.39e9),  # 419.46 GiB, Table 1
        ("pgt", "as-published", 1.5 * 450.39e9 + 18.77e9),
        ("index", "exact", 18.77e9),
        ("gpu-index", "exact", 105_097 * 8),
        ("gpu-index", "as-published", 18.77e9),
        ("ddp", "exact", 450.39e9),
    ],
)
def test_host_memory_of_pems(name: str, variant: str, size: float) -> None:
    work = Workload(
        "pems",
        PEMS,
        forecaster_shape(ModelChoice("pgt-dcrnn", 16), 11_160, 2),
        Hyper(window=12, horizon=12, batch_size=32, variant=variant),
    )
    assert plan(name, work).host == pytest.approx(size, rel=1e-3)


def test_pems_does_not_fit_a_node_of_polaris_but_with_index_batching() -> None:
    hyper = Hyper(window=12, horizon=12, batch_size=32, variant="as-published", batches=2)
    work = Workload("pems", PEMS, forecaster_shape(ModelChoice("pgt-dcrnn", 16), 11_160, 2), hyper)
    for name in ("index", "gpu-index", "gen-dist-index"):
        schedule = plan(name, work)
        memory.check(schedule, replay(schedule, POLARIS, COSTS), POLARIS)
    schedule = plan("pgt", work)
    trace = replay(schedule, POLARIS, COSTS)
    with pytest.raises(UserError) as error:
        memory.check(schedule, trace, POLARIS)
    assert str(error.value) == (
        "out of host memory: one rank needs 694.4 GB, 182.4 GB more than the 512.0 GB of a node of polaris"
    )  # fmt: skip
    memory.check(schedule, trace, replace(POLARIS, host_memory=700e9))
    exact = plan("pgt", replace(work, hyper=replace(hyper, variant="exact")), 8)  # 4 of them on a node
    with pytest.raises(UserError, match=r"^out of host memory: 4 ranks of 450\.4 GB each need 1801\.5 GB, 1289\.5 GB more than"):
        memory.check(exact, replay(exact, POLARIS, COSTS), POLARIS)


def test_a_cpu_rank_has_one_memory() -> None:
    schedule = plan("index", signal(steps=2000))
    machine = presets.local_cpu(1, 1e9, Link(1e9, 0))
    trace = replay(schedule, machine, COSTS)
    need = int(memory.peaks(schedule, trace)[0]) + schedule.host
    for size in (need, need - 1):
        tight = replace(machine, device=replace(machine.device, memory=size))
        if size == need:
            memory.check(schedule, trace, tight)
        else:
            with pytest.raises(
                UserError, match=r"out of memory: rank 0 needs .* at task .*, 96\.0 kB of it for data on the host, .* CPU rank"
            ):
                memory.check(schedule, trace, tight)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_signal_is_refused(name: str) -> None:
    snapshots = Workload("g", statistics_of(GrowthGraph.rmat(64, 300, 12, 0.1, 1).sequence()), model_shape("wd-gcn", 8))
    for asked in (plan, prepare):
        with pytest.raises(UserError, match=r"'g' is of the family snapshots, this strategy plans for signals"):
            asked(name, snapshots)
        with pytest.raises(UserError, match="at least"):
            asked(name, signal(), 0)
        with pytest.raises(UserError, match="shorter than window"):
            asked(name, signal(steps=4))


def test_snapshot_strategies_refuse_signals() -> None:
    for name, planner in of("snapshots").items():
        assert not planner.prepares, name
        with pytest.raises(UserError, match="'w' is of the family signals, this strategy plans for snapshots"):
            planner.plan(signal(), 1, COSTS)


def test_host_memory_is_kept_in_files(tmp_path: Path) -> None:
    schedule = plan("index", signal())
    schedule.save(tmp_path / "s.parquet")
    read = Schedule.load(tmp_path / "s.parquet")
    assert (read.kind, read.host) == ("windows", schedule.host) and read.host == 20 * 40 + 16 * 8
