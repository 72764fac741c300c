"""However rows come to the device: a model reads the same bits, and what crosses the bus is what was planned."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from pairwise import fast, pairwise
from stream_case import choice, hyper, planned, prepared, program, stream

from chronoscale.datasets.streams.draws import FIXED_EPOCH, derive_key
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.streams import batch as batches
from chronoscale.real_exec.streams import feature_cache as caches
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.steps import Steps
from chronoscale.strategies.schedule import Lane, Op
from chronoscale.strategies.streams.models import STREAM_MODELS
from chronoscale.strategies.workload import EventHyper

SLOTS = ("tgl", "etc", "taser", "simple", "fast", "fast-compressed", "fast-cached", "fast-even")
MERGED = ("tgl-unique", "fast-merged")
PUBLISHED = "fast-published"  # reads other rows
MODELS = ("tgn", "tgat", "dysat", "jodie", "graphmixer")
RATIOS = (0.0, 0.3, 1.0)


def given(model, ratio=0.3, presample=2, **other):
    windows = {"windows": 3, "duration": 6.0} if model == "dysat" else {}
    return hyper(model, events=EventHyper(cache_ratio=ratio, presample=presample, **windows), **other)


class Watched:
    """An epoch, the bytes of every tensor that is sent, and what the model is given."""

    def __init__(self, monkeypatch, folder, model, name, own, features=True, threaded=False):
        chosen = choice(model, layers=STREAM_MODELS[model].depths[-1])
        self.schedule = planned(folder, chosen, own, name)
        self.made = program(folder, self.schedule, chosen, own)
        self.sent, self.read = [], []
        task_bytes = [0]

        def counting(tensor, device):
            task_bytes[0] += tensor.nbytes
            return tensor.clone()

        run = self.made.run

        def watched(task):
            task_bytes[0] = 0
            run(task)
            if task.lane is Lane.H2D:
                self.sent.append((task.task, task_bytes[0]))
            elif not threaded:  # nothing else sends anything
                assert not task_bytes[0]

        self.made.run = watched
        begin = Steps._begin

        def began(steps, batch):
            if not batch.below:
                hops = [part for tree in batch.trees for hop in tree.hops for part in hop if isinstance(part, torch.Tensor)]
                remaining = [batch.features, batch.memory, batch.times, batch.last_update, *(batch.memory_rows or ()), *hops]
                self.read.append(
                    [part.detach().clone() for part in [*remaining, *(p for tree in batch.trees for p in tree.levels)] if part is not None]
                )
            begin(steps, batch)

        with monkeypatch.context() as patch:
            patch.setattr(batches, "to_device", counting)
            patch.setattr(caches, "to_device", counting)
            patch.setattr(Steps, "_begin", began)
            self.done = execute(self.schedule, self.made, CpuLanes(threaded), "cpu")


def same(one: Watched, other: Watched) -> bool:
    pairs = zip(one.read, other.read, strict=True)
    return all(len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True)) for a, b in pairs)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[int, Path]:
    """Streams with features of nodes, and without."""
    built = {width: tmp_path_factory.mktemp("loading") for width in (0, 3)}
    return {width: prepared(folder, stream(features=width, events=80)) for width, folder in built.items()}


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("width", "names", "model", "ratio"),
    fast(list(product((0, 3), (SLOTS, MERGED), MODELS, RATIOS)), lambda number, case: case[2:] == ("tgn", 0.3) or number % 12 == 4),
)
def test_a_model_reads_the_same_bits_and_loses_the_same(monkeypatch, folders, model, names, ratio, width):
    own = given(model, ratio)
    first, *others = (Watched(monkeypatch, folders[width], model, name, own) for name in names)
    assert len(first.read) == sum(deal.iterations for deal in first.made.deals)
    for other in others:
        assert same(first, other)
        assert (first.done.losses == other.done.losses).all() and first.done.scores == other.done.scores


@pytest.mark.sample(12)
@pytest.mark.parametrize(("width", "name", "model", "ratio"), pairwise(product((0, 3), [*SLOTS, *MERGED, PUBLISHED], MODELS, RATIOS)))
def test_what_crosses_the_bus_is_what_was_planned(monkeypatch, folders, model, name, ratio, width):
    """Byte for byte, batch by batch, in the first epoch of the seed that plans are counted with."""
    seen = Watched(monkeypatch, folders[width], model, name, given(model, ratio))
    rows = seen.schedule.tasks(Op.H2D)
    assert [task for task, _ in seen.sent] == rows.tolist()
    np.testing.assert_array_equal([size for _, size in seen.sent], seen.schedule.bytes[rows])


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["simple", "fast", "fast-merged", "etc"])
def test_hidden_nodes_leave_events_with_numbers_of_their_own(monkeypatch, tmp_path, name):
    """Training has a stream of its own, whose events the cache knows by their numbers in the whole one."""
    folder = prepared(tmp_path, stream(features=3, events=80), hidden=0.2)
    own = given("tgat", 0.4, 100)
    merged = "tgl-unique" if name in MERGED else "tgl"
    first, other = (Watched(monkeypatch, folder, "tgat", each, own) for each in (merged, name))
    assert 0 < first.made.data.training_events < first.made.data.split.train_end
    assert same(first, other) and (first.done.losses == other.done.losses).all()
    np.testing.assert_array_equal([size for _, size in other.sent], other.schedule.bytes[other.schedule.tasks(Op.H2D)])


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["etc", "simple", "fast"])
def test_a_second_thread_for_transfers_changes_no_bit(monkeypatch, folders, name):
    own = given("tgn", 0.3)
    first, other = (Watched(monkeypatch, folders[3], "tgn", name, own, threaded=threaded) for threaded in (False, True))
    assert (first.done.losses == other.done.losses).all() and first.done.scores == other.done.scores


@pytest.mark.slow
def test_caches_are_hit_and_refilled(monkeypatch, folders):
    """What the tests above compare is not that nothing was cached."""
    seen = {name: Watched(monkeypatch, folders[3], "tgat", name, given("tgat", 0.5, 100)) for name in SLOTS}
    sent = {name: each.schedule.rows[each.schedule.tasks(Op.H2D)].sum() for name, each in seen.items()}
    assert sent["fast"] < sent["fast-compressed"] == sent["etc"] < sent["tgl"]
    assert sent["fast"] <= sent["fast-even"] and sent["fast-cached"] < sent["tgl"] > sent["taser"] > sent["fast"]
    changing, still = (seen[name].schedule for name in ("simple", "taser"))
    remaining = [each.rows[(each.op == Op.GATHER) & (each.lane == Lane.COMPUTE)].sum() for each in (changing, still)]
    assert remaining[0] > remaining[1] and sent["simple"] < sent["tgl"]
    assert seen["fast"].schedule.bytes[seen["fast"].schedule.op == Op.GATHER].any()


def test_with_room_for_all_nothing_is_compressed_or_sent(monkeypatch, folders):
    """Of features; only indices are (FAST, section 6.3: SlimCache switches compression off)."""
    seen = Watched(monkeypatch, folders[3], "tgat", "fast", given("tgat", 1.0))
    plain = Watched(monkeypatch, folders[3], "tgat", "fast-compressed", given("tgat", 1.0))
    rows = seen.schedule.tasks(Op.H2D)
    assert not seen.schedule.rows[rows].any() and (seen.schedule.bytes[rows] > 0).all()
    host = (seen.schedule.op == Op.GATHER) & (seen.schedule.lane == Lane.HOST)
    assert not seen.schedule.bytes[host].any() and plain.schedule.rows[plain.schedule.tasks(Op.H2D)].all()


def test_the_cache_has_the_requested_rows_and_no_more(folders):
    """Of as many batches as are sampled, evenly over the epoch: with all of them no other choice of rows has more hits."""
    own = given("tgat", 0.3, 10**6)
    schedule = planned(folders[3], choice("tgat"), own, "fast")
    built = program(folders[3], schedule, choice("tgat"), own)
    cached, data = built.steps.residents.cached, built.data
    asked_nodes, asked_edges = np.zeros(9, int), np.zeros(80, int)
    for validates in (False, True):
        deal, source = built.deals[validates], data.whole if validates else data.training
        for iteration in range(deal.iterations):
            part = deal.rank_events(iteration, 0)
            result = built.steps.find(
                source, part, data.negatives_of(validates, 0, 0)(part), part.start, derive_key(0, FIXED_EPOCH if validates else 0)
            )[1]
            asked_nodes[np.unique(result.nodes)] += 1
            asked_edges[np.unique(result.edges)] += 1
    bytes_of = {"nodes": 12, "edges": 8}
    room = round(0.3 * (9 * 12 + 80 * 8))
    used = cached.nodes.size * bytes_of["nodes"] + cached.edges.size * bytes_of["edges"]
    assert room - 12 < used <= room
    least = min([*asked_nodes[cached.nodes], *asked_edges[cached.edges]])
    left = [*np.delete(asked_nodes, cached.nodes), *np.delete(asked_edges, cached.edges)]
    assert max(left) <= least


@pytest.mark.parametrize("name", ["tgl", "fast", "simple", "tgl-unique"])
def test_features_are_those_of_the_events_that_were_sampled(monkeypatch, tmp_path, name):
    """Of the stream that they were sampled from, which without hidden nodes is another one."""
    folder, own, seen = prepared(tmp_path, stream(features=3, events=80), hidden=0.2), given("tgat", 0.4, 100), []
    begin = Steps._begin

    def began(steps, batch):
        if not batch.below:
            table = torch.from_numpy(np.array(batch.source.stream.features))[batch.neighbourhood.edges]
            for tree, result in zip(batch.trees, batch.neighbourhood.trees, strict=True):
                for hop, sampled in zip(tree.hops, result.hops, strict=True):
                    there = hop.there.numpy()
                    seen.append(there.sum())
                    assert torch.equal(hop.edge[there], table[sampled.edge[there]])
            nodes = torch.from_numpy(np.array(steps.material.data.whole.stream.node_features))
            assert torch.equal(batch.features, nodes[batch.neighbourhood.nodes])
        begin(steps, batch)

    monkeypatch.setattr(Steps, "_begin", began)
    schedule = planned(folder, choice("tgat"), own, name)
    execute(schedule, program(folder, schedule, choice("tgat"), own), CpuLanes(False), "cpu")
    assert sum(seen) > 20


def test_files_of_features_are_read_without_pages_ahead(tmp_path):
    """Rows are read here and there: on a file larger than memory, what the system reads ahead drives out what is needed."""
    folder = prepared(tmp_path, stream(features=3))
    material = StreamMaterial.of(Item("x", "", str(folder), hyper("tgn")), choice("tgn"), Context())
    path, at_random = "", set[str]()
    for line in Path("/proc/self/smaps").read_text().splitlines():
        path = line.split()[-1] if "-" in line.split()[0] else path
        if line.startswith("VmFlags:") and "rr" in line.split():
            at_random.add(path)
    own = {str(tmp_path / "stream" / f"{name}.npy") for name in ("features", "node_features")}
    assert own <= at_random and str(tmp_path / "stream" / "t.npy") not in at_random
    assert material.node_features is material.data.whole.stream.node_features
