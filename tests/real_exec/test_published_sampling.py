"""`fast-published` samples as FAST's public code: neighbours by events that a node sends, negatives from all nodes, first half of training.

The oracles know no T-CSR: they go back through the list of all events.
"""

import numpy as np
import pytest
import torch
from stream_case import choice, hyper, planned, prepared, program, stream, unix_stream
from stream_oracle import StreamOracle

from chronoscale.batching.streams.prepared import PreparedStream, row_frequencies_of_half
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets.streams import negatives
from chronoscale.datasets.streams.draws import FIXED_EPOCH
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.streams.evaluation import evaluate
from chronoscale.strategies.workload import EventHyper


class SendersOracle(StreamOracle):
    """In which a node's neighbours are those that it sent an event to."""

    def neighbours(self, node, before, since, fanout):
        sent = [(self.dst[e], e) for e in range(since, before) if self.src[e] == node]
        return sent[-fanout:]


@pytest.mark.parametrize("model", ["tgn", "tgat", "dysat", "apan"])
def test_an_epoch_and_its_test_are_the_oracles(tmp_path, model):
    events = unix_stream(nodes=12, events=90)
    folder, given = prepared(tmp_path, events), hyper(model, duration=2e6)
    chosen = choice(model, layers=1 if model == "apan" else 2)
    schedule = planned(folder, chosen, given, "fast-published")
    made = program(folder, schedule, chosen, given)
    columns = (np.array(column) for column in (events.src, events.dst, events.t))
    oracle = SendersOracle(
        made.learner.model,
        *columns,
        12,
        lambda parameters: torch.optim.SGD(parameters, 0.05),
        [3, 3],
        edge=np.array(events.features),
        features=made.material.node_features,
        duration=given.events.duration,
    )
    done = execute(schedule, made, CpuLanes(False), "cpu")
    data, spans = made.data, [[(whole.start, whole.stop) for whole in map(deal.all_events, range(deal.iterations))] for deal in made.deals]
    drawn = negatives.any_nodes(np.arange(data.training_events), 12, seed=0, epoch=0)[:, 0]
    assert 11 in drawn or (drawn == events.dst[: data.training_events]).any()  # what no other strategy draws
    np.testing.assert_allclose(done.losses, oracle.train(spans[0], drawn), rtol=1e-4)
    fixed = data.negatives("validation").dst
    for first, last in spans[1]:
        at = slice(first - data.split.validation.start, last - data.split.validation.start)
        logits = oracle.logits(first, last, np.maximum(fixed[at], 0)).detach().numpy()
        oracle.write(first, last)
        np.testing.assert_allclose(made._predictions._logits[at].numpy(), logits, atol=1e-4)
    test, others = data.split.test, np.concatenate([data.negatives(use).dst for use in ("test", "ranked")], axis=1)
    ranks = []
    for first in range(test.start, test.stop, given.batch_size):
        last = min(first + given.batch_size, test.stop)
        logits = oracle.logits(first, last, np.maximum(others[first - test.start : last - test.start], 0)).detach().numpy()
        oracle.write(first, last)
        for row, candidates in zip(logits, others[first - test.start : last - test.start], strict=True):
            rivals = row[2:][candidates[1:] >= 0]
            ranks += [1 + (rivals > row[0]).sum() + (rivals == row[0]).sum() / 2] if rivals.size else []
    assert evaluate(made)["mrr"] == pytest.approx((1 / np.array(ranks)).mean(), abs=1e-4)


def read_by(events, first, last, others, before):
    """Nodes of two hops, and the events of each hop, that a batch of TGAT reads: three neighbours, at most, of each."""
    level = [(int(v), before) for v in [*events.src[first:last], *events.dst[first:last], *others]]
    nodes, hops = {v for v, _ in level}, []
    for _ in range(2):
        neighbours = [([e for e in range(end) if events.src[e] == v][-3:]) for v, end in level]
        level = [(int(events.dst[e]), e) for of in neighbours for e in of]
        nodes |= {v for v, _ in level}
        hops.append({e for of in neighbours for e in of})
    return nodes, hops


@pytest.mark.parametrize(("limit", "events_read"), [(0, 28), (6, 21)])
def test_the_cache_has_the_rows_that_the_first_half_of_training_reads_most(tmp_path, limit, events_read):
    """80 events, of which 56 train, in batches of 7; of the first 6 batches, 42 events."""
    events = stream(features=3, events=80)
    folder = prepared(tmp_path, events)
    given = hyper("tgat", events=EventHyper(cache_ratio=0.3, presample=1), batches=limit)
    made = program(folder, planned(folder, choice("tgat", layers=2), given, "fast-published"), choice("tgat", layers=2), given)
    counts = {"nodes": np.zeros(9, int), "edges": np.zeros(80, int)}
    drawn = negatives.any_nodes(np.arange(80), 9, seed=0, epoch=FIXED_EPOCH)[:, 0]
    for first in range(0, events_read, 7):
        last = min(first + 7, events_read)
        nodes, hops = read_by(events, first, last, drawn[first:last], first)
        counts["nodes"][list(nodes)] += 1
        for hop in hops:
            counts["edges"][list(hop)] += 1
    cached, size = made.steps.residents.cached, {"nodes": 12, "edges": 8}
    room = round(0.3 * (9 * 12 + 80 * 8))
    ranked = sorted([(-counts["edges"][e], 0, e) for e in range(80)] + [(-counts["nodes"][v], 1, v) for v in range(9)])
    expected = {"nodes": [], "edges": []}
    for _, table, row in ranked:
        table = ("edges", "nodes")[table]
        if room - size[table] < 0:
            break
        room -= size[table]
        expected[table].append(row)
    assert counts["edges"].max() > 1
    for table, seen in row_frequencies_of_half(made.data, 1, 7, made.sampling, limit)._asdict().items():
        np.testing.assert_array_equal(seen, counts[table])
    for table, rows in expected.items():
        assert sorted(getattr(cached, table).tolist()) == sorted(rows)


def test_negatives_are_any_nodes():
    event = np.arange(20_000)
    drawn = negatives.any_nodes(event, 5, seed=3, epoch=1)
    assert drawn.shape == (20_000, 1) and drawn.dtype == np.int32
    np.testing.assert_allclose(np.bincount(drawn[:, 0], minlength=5) / 20_000, 0.2, atol=0.015)
    np.testing.assert_array_equal(negatives.any_nodes(event[70:90], 5, seed=3, epoch=1), drawn[70:90])  # whatever the batch
    for other in ({"seed": 4, "epoch": 1}, {"seed": 3, "epoch": 2}):
        assert (negatives.any_nodes(event, 5, **other) != drawn).mean() > 0.7


def test_the_index_of_sent_events_is_made_once_and_mapped(tmp_path):
    folder = prepared(tmp_path, stream())
    assert not (folder / "tcsr-outgoing").exists()
    plain, outgoing = Sampling((3,)), Sampling((3,), outgoing=True)
    data = PreparedStream.load(folder)
    assert data.source(True, plain) is data.whole and data.source(False, plain) is data.training
    sent = data.source(False, outgoing).tcsr
    assert data.source(True, outgoing).tcsr is sent and (folder / "tcsr-outgoing").exists()
    for node in range(9):
        row = slice(sent.indptr[node], sent.indptr[node + 1])
        own = np.flatnonzero(data.whole.stream.src == node)
        np.testing.assert_array_equal(sent.event[row], own)
        np.testing.assert_array_equal(sent.neighbor[row], data.whole.stream.dst[own])
    again = PreparedStream.load(folder).source(False, outgoing).tcsr
    np.testing.assert_array_equal(again.event, sent.event)
    assert isinstance(again.event, np.memmap)


def test_hidden_nodes_have_an_index_of_their_own(tmp_path):
    data = PreparedStream.load(prepared(tmp_path, stream(events=80), hidden=0.2))
    outgoing = Sampling((3,), outgoing=True)
    training, whole = (data.source(validates, outgoing) for validates in (False, True))
    assert training.stream is data.training.stream and whole.stream is data.whole.stream
    assert (training.tcsr.neighbor.size, whole.tcsr.neighbor.size) == (len(training.stream), len(whole.stream))


def test_training_that_hides_nodes_is_refused(tmp_path):
    folder = prepared(tmp_path, stream(), hidden=0.2)
    data = PreparedStream.load(folder)
    given = hyper("tgat", events=EventHyper(data.protocol))
    with pytest.raises(UserError, match=r"training\.hidden_nodes: fast-published draws negatives from all nodes"):
        planned(folder, choice("tgat"), given, "fast-published")
