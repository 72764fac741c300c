"""What training with spread memory is made of: packed rows, what is expected of shared nodes, what is told of them, what is kept."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from spread_ranks import sharing, spread_program
from stream_case import choice, hyper, planned, prepared, stream

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.execution.task import Task, tasks_of
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.models.base import Smoothing
from chronoscale.real_exec.streams.spread.memory_group import MemoryGroup
from chronoscale.real_exec.streams.spread.memory_part import MemoryPart
from chronoscale.real_exec.streams.spread.packing import Column, pack, unpack
from chronoscale.real_exec.streams.spread.program import SpreadProgram
from chronoscale.real_exec.streams.spread.shared_history import NEWER, SharedHistory
from chronoscale.real_exec.streams.spread.shared_nodes import SharedNodes, gather_rows
from chronoscale.real_exec.streams.spread.tuning import Tuning, next_alpha, next_theta
from chronoscale.strategies.schedule import Lane, Op
from chronoscale.strategies.streams.rows.phase import pending_bytes, state_bytes
from chronoscale.strategies.streams.spread.phase import BACK, IDS, ROWS, SYNCHRONISED_ROWS

TYPES = (torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool)
columns = st.lists(st.builds(Column, st.sampled_from(TYPES), st.lists(st.integers(0, 3), max_size=2).map(tuple)), min_size=1, max_size=5)


@settings(deadline=None, max_examples=150)
@given(columns, st.integers(0, 5), st.integers(0, 99), st.booleans())
def test_what_is_packed_is_unpacked(of: list[Column], rows: int, seed: int, turned: bool) -> None:
    """Of any types and shapes, aligned or not, none at all, and every bit."""
    rng = np.random.default_rng(seed)
    values = [torch.from_numpy(rng.integers(0, 256, (rows, max(each.bytes, 1)), np.uint8)) for each in of]
    given_to = []
    for each, raw in zip(of, values, strict=True):
        if each.dtype is torch.bool:
            raw = raw & 1
        built = raw[:, : each.bytes].clone().flatten().view(each.dtype).view(rows, *each.shape)
        given_to.append(built.flip(0).contiguous().flip(0) if turned else built)
    result = pack(given_to)
    assert result.dtype is torch.uint8 and result.shape == (rows, sum(each.bytes for each in of))
    for before, after in zip(given_to, unpack(result, of), strict=True):
        assert after.dtype is before.dtype and after.shape == before.shape
        assert after.contiguous().numpy().tobytes() == before.contiguous().numpy().tobytes()
    again = unpack(result.t().contiguous().t(), of)  # of other strides
    assert all(each.numpy().tobytes() == other.contiguous().numpy().tobytes() for each, other in zip(again, given_to, strict=True))


class SlowHistory:
    """Node by node, in double precision."""

    def __init__(self, nodes: int, width: int, begun: float) -> None:
        self.memory, self.increment = np.zeros((2, nodes, width))
        self.time, self.gap, self.seen = [begun] * nodes, [0.0] * nodes, [False] * nodes

    def expected(self, node: int, time: float) -> np.ndarray:
        passed = (time - self.time[node]) / self.gap[node] if self.gap[node] else 0.0
        result: np.ndarray = self.memory[node] + self.increment[node] * min(max(passed, 0.0), 1.0)
        return result

    def observe(self, node: int, memory: np.ndarray, time: float) -> None:
        if time < self.time[node]:
            return
        weight = NEWER if self.gap[node] else 1.0
        added, passed = memory - self.memory[node], time - self.time[node]
        if self.seen[node]:
            self.increment[node] = (1 - weight) * self.increment[node] + weight * added
            self.gap[node] = (1 - weight) * self.gap[node] + weight * passed
        self.memory[node], self.time[node], self.seen[node] = memory, time, True


numbers = st.integers(-8, 8).map(lambda whole: whole / 4)
heard = st.lists(st.tuples(st.integers(0, 2), st.tuples(numbers, numbers), st.integers(0, 20)), max_size=12)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(heard, st.integers(-5, 5), st.floats(0, 2))
def test_history(heard: list[tuple[int, tuple[float, float], int]], begun: int, alpha: float) -> None:
    """Observed one after another and reset; what is expected at any time, and what has turned."""
    fast, slow = SharedHistory(3, 2, begun), SlowHistory(3, 2, begun)
    fast.observe(torch.arange(3), torch.ones(3, 2), torch.full((3,), 9.0, dtype=torch.float64))
    fast.reset()
    for node, memory, time in heard:
        fast.observe(torch.tensor([node]), torch.tensor([memory]), torch.tensor([time + begun], dtype=torch.float64))
        slow.observe(node, np.array(memory), time + begun)
        at = begun + 25.0 - time
        result = fast.expected(torch.tensor([node, 1]), torch.tensor([at, begun], dtype=torch.float64))
        np.testing.assert_allclose(result, [slow.expected(node, at), slow.expected(1, begun)], atol=1e-4)
    tables = fast.tables()
    np.testing.assert_allclose(tables["synchronised"], slow.memory, atol=1e-6)
    np.testing.assert_allclose(tables["increment"], slow.increment, atol=1e-4)
    assert tables["synchronised_at"].tolist() == slow.time
    np.testing.assert_allclose(tables["gap"], slow.gap, rtol=1e-6)
    own = torch.tensor([[1.0, 0.5], [0.0, 0.0], [-2.0, 1.0]])
    lengths = np.linalg.norm(own, axis=1) * np.linalg.norm(slow.memory, axis=1)
    products = (own.numpy() * slow.memory).sum(1)
    turned = 1 - np.where(lengths > 0, products / np.maximum(lengths, 1e-8), 0.0)
    near, aged = (np.abs(turned - alpha) < 1e-5) & slow.seen, np.where(slow.seen, turned > alpha, own.numpy().any(1))
    assert tables["seen"].tolist() == slow.seen
    assert ((fast.has_changed(torch.arange(3), own, alpha).numpy() == aged) | near).all()


PARTS = EventPartition(np.array([0, 1, SHARED, 0, SHARED, SHARED, 1, 1, 0], np.int32), np.zeros(60, np.int32), 2)
NODES = np.array([2, 4, 5])


def memory_part(folder: Path, rank: int, model: str = "tgn", features: int = 0) -> MemoryPart:
    path = folder if (folder / "events.json").exists() else prepared(folder / f"{model}{rank}", stream(features=features))
    context = Context()
    return MemoryPart(StreamMaterial.on(PreparedStream.load(path), choice(model), hyper(model), context), PARTS, rank)


def drawn(one: MemoryPart, seed: int) -> MemoryPart:
    """With anything in its tables."""
    some = torch.Generator().manual_seed(seed)
    for table in one.state.tables().values():
        table.copy_(
            torch.rand(table.shape, generator=some) > 0.5 if table.dtype is torch.bool else torch.randn(table.shape, generator=some)
        )
    return one


@pytest.mark.parametrize("model", ["tgn", "jodie", "apan"])
@pytest.mark.parametrize("features", [0, 2])
def test_rows_that_others_ask_for(tmp_path, model, features) -> None:
    """Nodes of a part and shared ones, as they would be read there; as many bytes as a plan counts."""
    first = drawn(memory_part(tmp_path, 0, model, features), 1)
    assert first.place.tolist() == [0, -1, 1, 2, 3, 4, -1, -1, 5] and first.common.tolist() == [-1, -1, 0, -1, 1, 2, -1, -1, -1]
    assert first.shared.tolist() == NODES.tolist()
    for nodes in (np.array([8, 2, 0, 5]), np.array([], np.int64)):
        rows = first.pack_rows(nodes)
        assert rows.shape == (len(nodes), first.row)
        pending, received, given_to = first.unpack_rows(rows)
        expected, time = first.read(nodes)
        assert all(torch.equal(a, b) for a, b in zip(pending, expected, strict=True)) and torch.equal(received, time)
        assert (given_to is None) == (features == 0 or first._features is None)
        if given_to is not None:
            np.testing.assert_array_equal(given_to, first._features[nodes])
    shape = first.state.memory.shape[1]
    material_shape = StreamMaterial.on(
        PreparedStream.load(tmp_path / f"{model}0" / "prepared"), choice(model), hyper(model), Context()
    ).shape
    assert material_shape.memory == shape and first.row == state_bytes(material_shape) + 4 * material_shape.features
    pending, received, _ = first.unpack_rows(first.pack_rows(NODES))
    assert sum(part.nbytes for part in (*pending, received)) == 3 * pending_bytes(material_shape)


def changed_nodes(one: MemoryPart, history: SharedHistory, alpha: float, nodes: list[int]) -> list[int]:
    """Of shared nodes those that have turned, by hand."""
    results = []
    for node in nodes:
        if not history.seen[one.common[node]]:  # anything is news
            results.append(node)
            continue
        a, b = one.state.memory[one.place[node]].double(), history.memory[one.common[node]].double()
        if 1 - float(a @ b) / max(float(a.norm() * b.norm()), 1e-8) > alpha:
            results.append(node)
    return results


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 999), st.floats(0, 1.5), st.booleans(), st.sampled_from([[2, 4, 5], [4], []]), st.sampled_from([[2, 4], [5]]))
def test_the_newest_of_what_ranks_say_wins(tmp_path_factory, seed, alpha, reaches, first, second) -> None:
    """On both of them alike; whose own is as new keeps it; of times that are equal the last rank's counts. As published, copies alone."""
    folder = tmp_path_factory.mktemp("held")
    sides = [drawn(memory_part(folder, rank), seed + rank) for rank in (0, 1)]
    rng, width = np.random.default_rng(seed), sides[0].state.memory.shape[1]
    for each in sides:  # few different times
        for table in (each.state.updated, each.state.mailed):
            table.copy_(torch.from_numpy(rng.integers(0, 3, table.shape).astype(np.float64)))
    histories = [SharedHistory(3, width, 0.0) for _ in sides]
    for history in histories:
        history.observe(torch.tensor([0, 2]), torch.ones(2, width), torch.tensor([-1.0, -1.0], dtype=torch.float64))
    common = [SharedNodes(each, history, alpha, reaches) for each, history in zip(sides, histories, strict=True)]
    spoken = [changed_nodes(each, history, alpha, nodes) for each, history, nodes in zip(sides, histories, (first, second), strict=True)]
    words = [each.changed_rows(np.array(nodes, np.int64)) for each, nodes in zip(common, (first, second), strict=True)]
    assert [each.changes for each in common] == [len(first), len(second)] and [each.sent_changes for each in common] == [*map(len, spoken)]
    before = [{name: table.clone() for name, table in each.state.tables().items()} for each in sides]
    for each in common:
        each.apply(torch.cat(words))
    for node in range(9):
        tellers = [rank for rank in (0, 1) if node in spoken[rank]]
        place = [int(each.place[node]) for each in sides]
        for rank, each in enumerate(sides):
            if place[rank] < 0:
                continue
            source = rank
            if tellers:
                newest = [float(max(before[q]["updated"][place[q]], before[q]["mailed"][place[q], -1])) for q in (0, 1)]
                source = max(tellers, key=lambda q: (newest[q], q))
                number = int(each.common[node])
                assert torch.equal(histories[rank].memory[number], before[source]["memory"][place[source]])
                assert histories[rank].time[number] == newest[source]
                source = source if newest[source] > newest[rank] and reaches else rank
            for name, table in each.state.tables().items():
                assert torch.equal(table[place[rank]], before[source][name][place[source]]), (node, rank, name)


def test_nothing_is_told(tmp_path) -> None:
    """By one rank, or all: nothing to hear changes nothing."""
    first = drawn(memory_part(tmp_path, 0), 3)
    common = SharedNodes(first, SharedHistory(3, first.state.memory.shape[1], 0.0), 2.0, True)
    first.state.memory.zero_()  # empty memory is no news
    before = {name: table.clone() for name, table in first.state.tables().items()}
    words = gather_rows(MemoryGroup(Context(), 1), common.changed_rows(NODES), None)
    assert len(words) == 0 and common.sent_changes == 0 and common.changes == 3
    common.apply(words)
    assert all(torch.equal(table, before[name]) for name, table in first.state.tables().items())


def test_smoothing_is_learnt() -> None:
    """gamma, nine tenths at first, has the gradient of eq. 21."""
    built = Smoothing()
    own, expected = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3)
    mixed = built(own, expected)
    torch.testing.assert_close(mixed, 0.9 * own + 0.1 * expected)
    weight = torch.randn(4, 3)
    (mixed * weight).sum().backward()
    (slope,) = built.weight.grad
    torch.testing.assert_close(slope, 0.09 * (weight * (own - expected)).sum().detach())
    torch.testing.assert_close(own.grad, 0.9 * weight)


@pytest.mark.parametrize(("name", "learns"), [("memshare", True), ("tgl-dist", False), ("memshare-all", False)])
def test_an_epoch_on_one_rank(tmp_path, name: str, learns: bool) -> None:
    """Which hears of nothing, so that nothing is expected of shared nodes, and gamma stays where it begins."""
    folder, chosen, hyper_ = prepared(tmp_path, stream()), choice("tgn"), hyper("tgn", events=sharing())
    schedule = planned(folder, chosen, hyper_, name)
    built = spread_program(folder, schedule, chosen, hyper_, Context())
    execute(schedule, built, CpuLanes(False), "cpu")
    assert (built.learner.model.smoothing is not None) == learns and built.steps.history is None
    assert not learns or torch.equal(built.learner.model.smoothing.weight, Smoothing().weight)
    assert built.finish().counts == {"fetched_bytes": 0, "returned_bytes": 0, "shared_changes": 0, "shared_spoken": 0}


@pytest.mark.parametrize("synchronises", [(Op.ALLGATHER, -1), (Op.ALLTOALL, SYNCHRONISED_ROWS)])
def test_tuning(synchronises: tuple[Op, int]) -> None:
    """By hand: eq. 22 and eq. 23, within their bounds."""
    assert next_theta(0.1, 3.0, 2.0) == pytest.approx(0.15) and next_theta(0.4, 3.0, 1.0) == 0.8 and next_theta(0.1, 1.0, 90.0) == 0.01
    assert next_alpha(0.3, 2.0, 3.0) == pytest.approx(0.3 - math.log(2) + math.log(3))
    assert next_alpha(0.3, 9.0, 1.0) == 0 and next_alpha(0.3, 1.0, 9.0) == 1
    built = Tuning()
    assert (built.theta(0.3), built.alpha(0.4)) == (0.3, 0.4)
    rows = {
        (Op.AGGREGATE, 0): 1.0, (Op.FORWARD, -1): 0.5, (Op.ALLTOALL, ROWS): 3.0, (Op.ALLTOALL, IDS): 50.0, (Op.ALLTOALL, BACK): 50.0,
        (Op.MEMORY_UPDATE, -1): 2.0, synchronises: 3.0, (Op.ALLREDUCE, -1): 50.0, (Op.SAMPLE, -1): 50.0,
    }  # fmt: skip
    for (op, layer), seconds in rows.items():
        for _ in range(2):
            built.add(Task(0, op, Lane.COMPUTE, 0, 0, 0, layer, 0, ()), seconds)
    assert built.theta(0.5) == pytest.approx(0.25) and built.alpha(0.5) == pytest.approx(0.5 + math.log(1.5))


def took(made: Tuning, embedding: float, fetching: float) -> None:
    """A batch."""
    for op, layer, seconds in ((Op.AGGREGATE, 0, embedding), (Op.ALLTOALL, ROWS, fetching)):
        made.add(Task(0, op, Lane.COMPUTE, 0, 0, 0, layer, 0, ()), seconds)
    made.decay()


def test_tuning_follows_a_change_and_not_one_batch() -> None:
    """Of a hundred batches alike, one that fetches twice as fast moves theta by a tenth or so; thirty of them bring it to twice as much."""
    built = Tuning()
    for _ in range(100):
        took(built, 1.0, 1.0)
    assert built.theta(0.1) == pytest.approx(0.1)
    took(built, 2.0, 1.0)
    assert 0.105 < built.theta(0.1) < 0.115
    for _ in range(29):
        took(built, 2.0, 1.0)
    assert built.theta(0.1) == pytest.approx(0.2, rel=0.05)


def test_what_is_tuned_in_two_epochs_stays(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every batch of the first two epochs (docs/memshare.md), and never again, also where a run goes on from the third."""
    folder, chosen, hyper_ = prepared(tmp_path, stream()), choice("tgn"), replace(hyper("tgn"), events=sharing(adaptive=True))
    schedule = planned(folder, chosen, hyper_, "memshare")
    tuned: list[tuple[int, float]] = []
    built = spread_program(folder, schedule, chosen, hyper_, Context())

    def theta(self: Tuning, theta: float) -> float:
        tuned.append((built.epoch, theta))
        return 0.9 * theta

    monkeypatch.setattr(Tuning, "theta", theta)
    first = built.theta
    for _ in range(4):
        execute(schedule, built, CpuLanes(False), "cpu")
    steps = schedule.iterations
    assert [epoch for epoch, _ in tuned] == [0] * steps + [1] * steps
    assert built.theta == pytest.approx(first * 0.9 ** (2 * steps))
    tuned.clear()
    built = spread_program(folder, schedule, chosen, hyper_, Context())
    built.epoch = 2
    execute(schedule, built, CpuLanes(False), "cpu")
    assert not tuned


def replica(folder: Path, rank: int, name: str = "disttgl") -> SpreadProgram:
    """One of two ranks, which asks the other for nothing before its epoch ends."""
    chosen, hyper_ = choice("tgn"), hyper("tgn", events=sharing())
    return spread_program(folder, planned(folder, chosen, hyper_, name, ranks=2), chosen, hyper_, Context(rank=rank))


def test_replicas_take_turns(tmp_path) -> None:
    """In epoch e, rank r has span r + e of time with the memory of the spans before; with the first span it begins anew."""
    folder = prepared(tmp_path, stream())
    for rank in (0, 1):
        built = replica(folder, rank)
        for built.epoch in range(4):
            built.memory_part.state.memory.fill_(3)
            built.begin()
            turn = (rank + built.epoch) % 2
            assert built.turn == turn and built.tasks == tasks_of(built._schedule, turn)
            assert bool(built.memory_part.state.memory.any()) == (turn == 1)
            row_frequencies = [built.allotments[0].rank_events(i, built.turn) for i in range(built.allotments[0].iterations)]
            half = built.data.training_events // 2
            assert np.concatenate(row_frequencies).tolist() == list((range(half), range(half, built.data.training_events))[turn])
        plain = replica(folder, rank, "tgl-dist")
        plain.epoch = 1
        plain.memory_part.state.memory.fill_(3)
        plain.begin()
        assert plain.turn == rank and not plain.memory_part.state.memory.any()


def test_negatives_count_for_what_they_weigh(tmp_path) -> None:
    """In the loss; destinations for one."""
    built = replica(prepared(tmp_path, stream()), 0)
    built.begin()
    built.run(next(task for task in built.tasks if task.op is Op.SAMPLE))
    batch, logits = built.batch(0), torch.randn(7, 2)
    plain = torch.nn.functional.softplus(torch.stack([-logits[:, 0], logits[:, 1]], 1))
    torch.testing.assert_close(built._loss(batch, logits), plain.sum())
    batch.weight = torch.rand(7, 1)
    torch.testing.assert_close(built._loss(batch, logits), (plain[:, 0] + batch.weight[:, 0] * plain[:, 1]).sum())
