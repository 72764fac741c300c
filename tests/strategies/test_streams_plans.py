"""Plans on events: the rows of an epoch, who waits for whom, what is counted, and what a replay makes of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from stream_case import MODELS, hyper, one_pass, prepared, stream
from stream_plans import COSTS, POLARIS, data, plan, work

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.errors import UserError
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.simulator import memory
from chronoscale.simulator.engine import replay
from chronoscale.strategies.registry import of, strategy
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.streams.feeding import StreamFeeding
from chronoscale.strategies.streams.models import STREAM_MODELS
from chronoscale.strategies.streams.rows.phase import VALIDATE
from chronoscale.strategies.streams.rows.work import score_work
from chronoscale.strategies.streams.strategy import StreamStrategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import EventHyper, Hyper

NAMES = tuple(name for name, one in of("streams").items() if isinstance(one, StreamStrategy))


def rows_text(schedule: Schedule, rank: int) -> str:
    """Rows of one rank: `operation unit@lane <- operation unit`; `state`: sending memory."""

    def label(task: int) -> str:
        name = Op(schedule.op[task]).name.lower().removeprefix("memory_")
        return f"{'state' if name == 'h2d' and schedule.layer[task] == 0 else name}{schedule.unit[task]}"

    lines = []
    for task in np.flatnonzero(schedule.rank == rank).tolist():
        deps = [label(dep) for dep in schedule.dependencies(task).tolist()]
        lines.append(f"{label(task)}@{Lane(schedule.lane[task]).name}" + (f" <- {' '.join(deps)}" if deps else ""))
    return "\n".join(lines)


def fetch(unit: int, after: str = "") -> str:
    return f"sample{unit}@HOST{after and ' <- ' + after}\ngather{unit}@HOST\nh2d{unit}@H2D <- gather{unit}\n"


def state(unit: int, after: str = "") -> str:
    return f"read{unit}@HOST{after and ' <- ' + after}\nstate{unit}@H2D <- read{unit}\n"


def train(unit: int, several: bool = True) -> str:
    rows = f"update{unit}@COMPUTE <- state{unit}\naggregate{unit}@COMPUTE\nforward{unit}@COMPUTE\nbackward{unit}@COMPUTE\n"
    rows += f"allreduce{unit}@COMM <- backward{unit}\n" * several
    return rows + f"optimize{unit}@COMPUTE <- {'allreduce' if several else 'backward'}{unit}\n"


def write(unit: int, after: str, several: bool = True) -> str:
    rows = f"allgather{unit}@COMM <- {after}\n" * several
    return rows + f"d2h{unit}@D2H <- {f'allgather{unit}' if several else after}\nwrite{unit}@HOST <- d2h{unit}\n"


def validate(unit: int) -> str:
    return f"update{unit}@COMPUTE <- state{unit}\naggregate{unit}@COMPUTE\nforward{unit}@COMPUTE\n"


TRAINED = fetch(0) + state(0) + train(0) + fetch(1) + write(0, "optimize0") + state(1) + train(1)
OVERLAPPED = (
    TRAINED + fetch(2, "backward0") + write(1, "optimize1") + state(2) + validate(2) + write(2, "forward2") + "allreduce3@COMM <- forward2"
)
WITHOUT_EVENTS = TRAINED + write(1, "optimize1") + write(2, "write1") + "allreduce3@COMM <- backward1"
ONE_AFTER_ANOTHER = (
    "".join(
        fetch(b, f"write{b - 1}" if b else "") + state(b, f"h2d{b}") + train(b, False) + write(b, f"optimize{b}", False) for b in range(4)
    )
    + (fetch(4, "write3") + state(4, "h2d4") + validate(4) + write(4, "forward4", False)).rstrip()
)


def test_rows() -> None:
    """15 events train and 2 validate, 4 a batch: the second rank has none of the last iteration."""
    few = data(20)
    schedule = plan("tgl", work("tgn", hyper("tgn", 4), few), 2)
    assert rows_text(schedule, 0) == OVERLAPPED and rows_text(schedule, 1) == WITHOUT_EVENTS
    assert (schedule.kind, schedule.feeding, schedule.iterations) == ("events", "slots", 2)
    np.testing.assert_array_equal(schedule.step, schedule.unit >= 2)
    np.testing.assert_array_equal(schedule.iteration, np.minimum(schedule.unit, 1))
    assert rows_text(plan("sequential", work("tgn", hyper("tgn", 4), few)), 0) == ONE_AFTER_ANOTHER
    unique = plan("tgl-unique", work("tgn", hyper("tgn", 4), few), 2)
    assert rows_text(unique, 0) == OVERLAPPED and unique.feeding == "unique"
    bare = rows_text(plan("tgl", work("tgat", hyper("tgat", 4), few), 2), 1).splitlines()  # nothing to read or write
    assert not any(line.startswith(("read", "state", "update", "allgather", "d2h", "write")) for line in bare)
    assert "aggregate0@COMPUTE <- h2d0" in bare and bare[-1] == "allreduce3@COMM <- backward1"
    lone_plan = plan("tgl", work("tgn", hyper("tgn", 4, validate=False), few))
    assert (lone_plan.step == 0).all() and not np.isin(lone_plan.op, [Op.ALLREDUCE, Op.ALLGATHER]).any()


given_hyper = st.builds(
    lambda model, size, limit, every, checks, policy, ratio: (
        model,
        hyper(
            model,
            size,
            batches=limit,
            validate=checks,
            events=EventHyper(
                policy=policy, every=every, windows=2 if model == "dysat" else 1, duration=5.0 * (model == "dysat"), cache_ratio=ratio
            ),
        ),
    ),
    st.sampled_from(MODELS),
    st.integers(1, 9),
    st.integers(0, 4),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(["recent", "uniform"]),
    st.sampled_from([0.0, 0.2, 1.0]),
)
counts = st.sampled_from([1, 2, 3, 4, 8, 40])


def runs(schedule: Schedule, trace: Trace, rank: int) -> dict[tuple[Op, int], tuple[int, int]]:
    """Start and end of a rank's rows by operation and unit; of the two H2D the one of features; not what is sampled before a part."""
    own = np.flatnonzero((schedule.rank == rank) & ~(np.isin(schedule.op, [Op.H2D, Op.SAMPLE]) & (schedule.layer == 0)))
    return {(Op(schedule.op[t]), int(schedule.unit[t])): (int(trace.start_ns[t]), int(trace.end_ns[t])) for t in own}


@given(given_hyper, counts, st.sampled_from(NAMES), st.integers(1, 2))
@example(("tgn", hyper("tgn", 9, validate=True)), 2, "sequential", 1)  # the scores wait for memory
def test_every_plan_keeps_its_order(model_and_hyper: tuple[str, Hyper], ranks: int, name: str, layers: int) -> None:
    model, given = model_and_hyper
    workload = work(model, given, layers=min(layers, STREAM_MODELS[model].depths[-1]))
    schedule = plan(name, workload, ranks)
    assert strategy(name).rows(workload, ranks) == len(schedule)
    for columns in zip(*(np.bincount(schedule.rank, column, ranks) for column in (schedule.alloc, schedule.free)), strict=True):
        assert columns[0] == columns[1]
    trace = replay(schedule, POLARIS, COSTS)
    memory.check(schedule, trace, POLARIS)
    deals = [data().assignment(validates, ranks, given.batch_size, given.batches, given.events.every) for validates in (False, True)]
    units = [(deal, i) for deal in deals[: 1 + given.validate] for i in range(deal.iterations)]
    for rank in range(min(ranks, 9)):
        span = runs(schedule, trace, rank)
        if name == "sequential":
            ordered = sorted((int(trace.start_ns[t]), int(trace.end_ns[t])) for t in np.flatnonzero(schedule.rank == rank))
            assert all(end <= begin for (_, end), (begin, _) in pairwise(ordered))
        allocated = []
        for unit, (deal, i) in enumerate(units):
            trains = unit < deals[0].iterations
            assert ((Op.OPTIMIZE, unit) in span) == trains and ((Op.MEMORY_WRITE, unit) in span) == bool(workload.model.memory)
            assert ((Op.SAMPLE, unit) in span) == ((Op.FORWARD, unit) in span) == bool(deal.rank_events(i, rank))
            assert ((Op.BACKWARD, unit) in span) == (trains and bool(deal.rank_events(i, rank)))
            if (Op.SAMPLE, unit) in span:
                allocated.append((span[Op.SAMPLE, unit][0], span[Op.BACKWARD if trains else Op.FORWARD, unit][1]))
                if workload.model.memory and unit:
                    assert span[Op.MEMORY_READ, unit][0] >= span[Op.MEMORY_WRITE, unit - 1][1]
            elif unit:  # without events: what is exchanged waits for what the last iteration did, whose buffers it shares
                earlier = max(end for (_, other), (_, end) in span.items() if other == unit - 1)
                assert all(start >= earlier for (_, other), (start, _) in span.items() if other == unit)
        most = 1 + strategy(name).ahead
        assert all(sum(first <= begin < last for first, last in allocated) <= most for begin, _ in allocated)


@pytest.mark.parametrize("name", ["tgl", "etc", "simple", "fast", "fast-sc-te-ta"])
@pytest.mark.parametrize("model", ["tgn", "tgat"])
def test_a_thousand_ranks(model: str, name: str) -> None:
    """Most of which have no events at all."""
    for size, other in ((2, {}), (1, {"batches": 1, "validate": False})):
        workload = work(model, hyper(model, size, **other))
        schedule = plan(name, workload, 1024)
        assert strategy(name).rows(workload, 1024) == len(schedule) and schedule.ranks == 1024
        assert np.count_nonzero(schedule.op == Op.BACKWARD) == -(-data().training_events // size)
        assert np.count_nonzero(schedule.op == Op.OPTIMIZE) == 1024
        memory.check(schedule, replay(schedule, POLARIS, COSTS), POLARIS)


@pytest.mark.parametrize("model", MODELS)
def test_sampling_goes_on_while_a_batch_trains(model: str) -> None:
    """On a GPU; the sample of the next batch waits for no memory."""
    schedule = plan("tgl", work(model, hyper(model, 5)), 2)
    span = runs(schedule, replay(schedule, POLARIS, COSTS), 0)
    units = range(1, max(unit for op, unit in span if op is Op.BACKWARD) + 1)
    assert len(units) >= 3
    for unit in units:
        begin, end = span[Op.SAMPLE, unit]
        before = unit - 2 if unit > 1 else 0
        assert begin >= span[Op.BACKWARD, before][1] if unit > 1 else begin < span[Op.FORWARD, 0][0]
        assert end <= span[Op.BACKWARD, unit - 1][1]
        if (Op.MEMORY_WRITE, unit - 1) in span:
            assert end <= span[Op.MEMORY_WRITE, unit - 1][0]


@pytest.mark.sample(22)
@pytest.mark.parametrize("name", ["tgl", "tgl-unique"])
@pytest.mark.parametrize("features", [0, 3])
@pytest.mark.parametrize(("model", "task"), [*((model, "link") for model in MODELS), ("tgn", "node"), ("tgat", "node"), ("dysat", "node")])
def test_bytes_are_those_of_what_is_moved(
    tmp_path, monkeypatch: pytest.MonkeyPatch, model: str, task: str, features: int, name: str
) -> None:
    """Entry by entry, of the tensors that an epoch gathers, sends and reads."""
    seen: dict[Op, list[int]] = defaultdict(list)
    send, name_nodes, pending = Batch.send, Batch.send_names, Batch.send_memory

    def size(*tensors) -> int:  # type: ignore[no-untyped-def]
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)

    def sent(self, device) -> None:  # type: ignore[no-untyped-def]
        seen[Op.GATHER].append(size(self.features, self.edges))
        indices = [
            *(level for tree in self.neighbourhood.trees for level in tree.levels),
            *(p for tree in self.neighbourhood.trees for hop in tree.hops for p in hop),
        ]
        seen[Op.SAMPLE].append(size(self.times, *indices))
        seen[Op.H2D].append(seen[Op.GATHER][-1] + seen[Op.SAMPLE][-1])
        send(self, device)

    def named(self, device) -> None:  # type: ignore[no-untyped-def]
        name_nodes(self, device)
        seen[Op.H2D][-1] += size(*(names for tree in self.trees for names in tree.names))

    def read(self, device) -> None:  # type: ignore[no-untyped-def]
        seen[Op.MEMORY_READ].append(size(*self.memory_rows, self.last_update))
        pending(self, device)

    monkeypatch.setattr(Batch, "send", sent)
    monkeypatch.setattr(Batch, "send_names", named)
    monkeypatch.setattr(Batch, "send_memory", read)
    folder = prepared(tmp_path, stream(features=features, labels=True), task=task)
    made, _ = one_pass(folder, model, name)
    schedule = plan(name, work(model, hyper(model), PreparedStream.load(folder)))
    for op in (Op.SAMPLE, Op.GATHER, Op.MEMORY_READ):
        rows = schedule.bytes[schedule.op == op].tolist()
        assert rows == (seen[op] if any(seen[op]) else []), op
    of_state = schedule.layer == 0
    assert schedule.bytes[(schedule.op == Op.H2D) & ~of_state].tolist() == seen[Op.H2D]
    assert schedule.bytes[(schedule.op == Op.H2D) & of_state].tolist() == seen[Op.MEMORY_READ]
    assert schedule.host == size(*made.state.tables().values()) * bool(made.material.shape.memory)


@pytest.mark.parametrize("task", ["link", "node"])
def test_what_ranks_exchange(task: str) -> None:
    """Gradients; rows of memory, each of one rank; logits of the events that validate."""
    some = data(60, task=task)
    workload = work("tgn", hyper("tgn", 3), some)
    schedule, shape = plan("tgl", workload, 4), workload.model
    reduced = schedule.tasks(Op.ALLREDUCE)
    trains = reduced[schedule.step[reduced] != VALIDATE]
    assert (schedule.bytes[trains] == 4 * shape.parameters).all()
    assert (schedule.bytes[np.setdiff1d(reduced, trains)] == 4 * 2 * len(some.split.validation)).all()  # two logits, or two classes
    for unit in np.unique(schedule.unit[schedule.op == Op.ALLGATHER]):
        own = schedule.rows[(schedule.op == Op.ALLGATHER) & (schedule.unit == unit)]
        assert set(schedule.rows[(schedule.op == Op.D2H) & (schedule.unit == unit)]) == {own.sum()}
        assert (schedule.bytes[(schedule.op == Op.ALLGATHER) & (schedule.unit == unit)] == 4 * shape.memory * own).all()


def test_fewer_rows_where_each_stands_once() -> None:
    for model in ("tgn", "tgat"):
        slots, unique = (plan(name, work(model, hyper(model), layers=2)) for name in ("tgl", "tgl-unique"))
        for op in (Op.GATHER, Op.H2D):
            assert unique.bytes[unique.op == op].sum() < slots.bytes[slots.op == op].sum()


@pytest.mark.parametrize("name", NAMES)
def test_an_epoch_takes_less_time_on_more_ranks(name: str) -> None:
    workload = work("tgn", hyper("tgn", 250), data(8000, 400), hidden=128)
    ends = [int(replay(plan(name, workload, ranks), POLARIS, COSTS).end_ns.max()) for ranks in (1, 2, 4, 8)]
    assert ends == sorted(ends, reverse=True) and ends[-1] < ends[0] / 2, ends


def test_what_overlaps_is_sooner_over() -> None:
    workload = work("tgn", hyper("tgn", 10), data(1500, 60))
    one, other = (int(replay(plan(name, workload, 2), POLARIS, COSTS).end_ns.max()) for name in ("tgl", "sequential"))
    assert one < other


def test_what_cannot_be_planned_is_one_line() -> None:
    workload = work("tgn", hyper("tgn"))
    assert {"sequential", "tgl", "tgl-unique", "etc", "taser", "simple", "fast", "fast-merged"} <= set(NAMES)
    with pytest.raises(UserError, match="a schedule needs at least one rank, got 0"):
        plan("tgl", workload, 0)
    with pytest.raises(UserError, match="model 'tgn' samples neighbours, and needs a number of them"):
        plan("tgl", work("tgn", Hyper(batch_size=4)))
    with pytest.raises(UserError, match=r"model 'tgn' has no windows; leave training\.windows and training\.duration out"):
        work("tgn", Hyper(batch_size=4, fanout=(2,), events=EventHyper(windows=2, duration=3.0)))
    with pytest.raises(UserError, match=r"'dysat' attends over windows of time: training\.windows says how many"):
        work("dysat", Hyper(batch_size=4, fanout=(2,)))


@pytest.mark.parametrize("model", ["tgn", "tgat"])
def test_a_gpus_one_thread_launches_a_batch_before_it_waits_for_the_next_ones_fetch(model: str) -> None:
    """`DeviceLanes` issues device rows in row order: none of a batch may stand behind the transfer of the next one."""
    schedule = plan("tgl", work(model, hyper(model, 4)))
    sent = {int(schedule.unit[t]): t for t in schedule.tasks(Op.H2D) if schedule.layer[t] < 0}
    last = {int(schedule.unit[t]): int(t) for t in schedule.tasks(Op.FORWARD)} | {
        int(schedule.unit[t]): int(t) for t in schedule.tasks(Op.BACKWARD)
    }
    assert len(sent) > 3 and all(last[unit - 1] < task for unit, task in sent.items() if unit)


def test_what_pairs_keep_lies_on_the_device_until_their_gradients() -> None:
    """Of a transformer over pairs; what other models keep of their scores is next to nothing, and not counted."""
    for model in ("dygformer", "tgat"):
        workload = work(model, hyper(model, 9, validate=True))
        schedule, shape = plan("tgl-unique", workload), workload.model
        scored = (schedule.op == Op.FORWARD) & (schedule.step != VALIDATE)
        events = schedule.nodes[scored] // 3  # a source, a destination and a negative each
        saved = score_work(shape, 2 * events, events)[1] // 2 if model == "dygformer" else 0 * events  # type: ignore[arg-type]
        assert schedule.alloc[scored].tolist() == saved.tolist()


def test_a_cache_lies_on_the_device_and_says_so_where_it_does_not_fit() -> None:
    hyper_ = hyper("tgat", events=EventHyper(cache_ratio=0.5))
    workload = work("tgat", hyper_, data(60))
    plain, cached = (plan(name, workload) for name in ("tgl", "fast"))
    features = 4 * (workload.model.features * 9 + workload.model.edge * 60)
    assert cached.resident == plain.resident + features // 2 == 16 * workload.model.parameters + features // 2
    assert (plain.cached, cached.cached) == (0, features // 2)
    small = replace(POLARIS, device=replace(POLARIS.device, memory=cached.resident - 1.0))
    tiny = replace(POLARIS, device=replace(POLARIS.device, memory=1.0))
    with pytest.raises(UserError, match="out of memory") as error:
        memory.check(cached, replay(cached, POLARIS, COSTS), tiny)
    assert "cache_ratio" not in str(error.value)  # it would not fit without a cache either
    with pytest.raises(
        UserError, match=r"out of memory: rank 0 needs .* for resident data, .*B of it for features \(training\.cache_ratio\)"
    ):
        bare = replace(cached, alloc=0 * cached.alloc, free=0 * cached.free)
        memory.check(bare, replay(bare, POLARIS, COSTS), small)


def test_what_it_is_fed_by_is_read_back() -> None:
    for name in NAMES:
        made = strategy(name)
        assert isinstance(made, StreamStrategy)
        schedule = plan(name, work("tgat", hyper("tgat")))
        assert schedule.feeding == str(made.feeding) and StreamFeeding.of(schedule) == made.feeding
    with pytest.raises(UserError, match="feeding 'slots greedy compressed' is unknown; valid: slots or unique, then, or not, compressed, "):
        StreamFeeding.of(replace(schedule, feeding="slots greedy compressed"))
    with pytest.raises(UserError, match=r"cache_ratio expected in \[0, 1\], presample at least 1 batch, got 1.5 and 1"):
        EventHyper(cache_ratio=1.5, presample=1)


def test_what_simple_knows_ahead_lies_on_the_host() -> None:
    """Ids and next uses of the fullest part, 8 bytes each, and 12 bytes a row of the tables."""
    workload = work("tgat", hyper("tgat", 7, events=EventHyper(cache_ratio=0.5)))
    planned = {name: plan(name, workload, 2) for name in ("tgl", "simple", "fast")}
    assert planned["tgl"].host == planned["fast"].host == 0
    feeding, most = StreamFeeding(placement="retained"), 0
    sampling = feeding.sampling(workload.hyper, workload.model)
    for validates in (False, True):
        one = workload.events.work(validates, 2, 7, sampling, 0, 1, feeding.loading(workload.hyper, workload.model))
        most = max(most, *(one.unique_nodes + one.unique_edges).reshape(-1, 2).sum(0).tolist())
    assert planned["simple"].host == 8 * most + 12 * (9 + 60)


@pytest.mark.parametrize("name", ["taser", "simple", "fast-cached"])
def test_a_cache_without_room_is_none(name: str) -> None:
    """Rows for rows, and bytes for bytes, what `tgl` plans."""
    workload = work("tgat", hyper("tgat", 7, events=EventHyper(cache_ratio=0.0)))
    plain, cached = plan("tgl", workload), plan(name, workload)
    assert rows_text(plain, 0) == rows_text(cached, 0) and cached.resident == plain.resident and cached.host == plain.host
    np.testing.assert_array_equal(plain.bytes, cached.bytes)
