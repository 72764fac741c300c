"""The work of batches as it is counted, against what an executed epoch does, and as it is kept."""

from dataclasses import fields

import numpy as np
import pytest
from stream_case import hyper, one_pass, prepared, stream

from chronoscale.batching.streams.prepared import PreparedStream, replace_absent
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.batching.streams.statistics import BatchStatistics, last_events
from chronoscale.errors import UserError
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.strategies.workload import EventHyper

NAMES = ("events", "roots", "targets", "sampled", "nodes", "edges", "unique_nodes", "unique_edges", "updated", "written", "mailed")


@pytest.mark.sample(15)
@pytest.mark.parametrize("policy", ["recent", "uniform"])
@pytest.mark.parametrize("name", ["tgl", "tgl-unique"])
@pytest.mark.parametrize(
    ("model", "task", "roots"),  # of an event: its ends and a negative, its ends, or, where nothing is remembered, its source
    [
        *((model, "link", 3) for model in ("tgn", "dysat", "apan", "jodie")),
        ("tgn", "node", 2),
        ("tgat", "node", 1),
        ("dysat", "node", 1),
    ],
)
def test_it_is_what_an_epoch_does(tmp_path, monkeypatch, model, task, roots, name, policy):
    """Every batch of the first epoch as the program has it, and the tables before and after it is written."""
    folder, done = prepared(tmp_path, stream(seed=4, labels=True), hidden=0.1, task=task), []
    own = EventHyper(policy=policy, windows=2, duration=5.0) if model == "dysat" else EventHyper(policy=policy)
    given = hyper(model, events=own)

    sampled, write = EventProgram._sample, EventProgram._write

    def sample(self, task):
        sampled(self, task)
        done.append([self._batch[task.unit].neighbourhood])

    monkeypatch.setattr(EventProgram, "_sample", sample)

    def written(self, task):
        before = {key: table.clone() for key, table in self.state.tables().items()}
        fresh = self._memory[task.unit]
        write(self, task)
        posted = (self.state.mailed != before["mailed"]).any(1) | (self.state.mail != before["mail"]).flatten(1).any(1)
        done[task.unit] += [len(fresh), int(posted.sum())]

    monkeypatch.setattr(EventProgram, "_write", written)
    layers = {} if model in ("apan", "jodie") else {"layers": 2}
    made, _ = one_pass(folder, model, name, given=given, **layers)
    data, sampling = PreparedStream.load(folder), made.sampling
    limits = (1, given.batch_size, sampling)
    works = [data.work(False, *limits), data.work(True, *limits)]
    counts = {key: np.concatenate([getattr(one, key) for one in works]) for key in NAMES}
    assert len(counts["events"]) == len(done) == sum(deal.iterations for deal in made.deals)
    for at, (found, *tables) in enumerate(done):
        assert counts["roots"][at] == len(found.trees[0].levels[0]) == roots * counts["events"][at]
        assert counts["targets"][at].tolist() == [
            sum(map(len, levels)) for levels in zip(*(tree.levels for tree in found.trees), strict=True)
        ]
        there = [[int(hop.there.sum()) for hop in tree.hops] for tree in found.trees]
        assert counts["sampled"][at].tolist() == [sum(hops) for hops in zip(*there, strict=True)]
        assert (counts["nodes"][at], counts["edges"][at]) == (len(found.nodes), len(found.edges))
        assert counts["unique_nodes"][at] == len(set(found.nodes.tolist())) and counts["unique_edges"][at] == len(set(found.edges.tolist()))
        if tables:
            assert counts["updated"][at] == counts["written"][at] == tables[0]
            assert counts["mailed"][at] >= tables[1] > 0  # mails of the same content at the same time change nothing


@pytest.mark.parametrize("validates", [False, True])
@pytest.mark.parametrize("ranks", [2, 3, 64])
@pytest.mark.parametrize("unique", [False, True])
def test_ranks_share_an_iteration(tmp_path, ranks, unique, validates):
    """Rank by rank, also those without events, against each rank's own roots; with one rank of larger batches beside."""
    data, size = PreparedStream.load(prepared(tmp_path, stream(seed=6))), 2
    sampling = Sampling((3, 2), unique=unique, delivers=2)
    several, alone = (data.work(validates, *asked, sampling) for asked in ((ranks, size), (1, ranks * size)))
    deal, source = data.assignment(validates, ranks, size), data.whole
    assert len(several) == deal.iterations * ranks
    table = {name: getattr(several, name).reshape(deal.iterations, ranks, -1) for name in NAMES}
    for name in ("events", "roots", "updated"):
        np.testing.assert_array_equal(table[name].sum((1, 2)), getattr(alone, name))
    for name in ("written", "mailed"):  # every rank writes what all have brought
        np.testing.assert_array_equal(table[name][:, :, 0], np.repeat(getattr(alone, name)[:, None], ranks, 1))
    fixed, first = data.negatives("validation").dst, data.split.validation.start
    for i in range(deal.iterations):
        for rank in range(ranks):
            own = deal.rank_events(i, rank)
            if not own:
                assert not any(table[name][i, rank].any() for name in NAMES if name not in ("written", "mailed"))
                continue
            others = replace_absent(fixed[own.start - first : own.stop - first]) if validates else data.negatives_of_training(own, 0, 0)
            roots = source.roots(own, others, deal.all_events(i).start)
            found = neighbourhood.sample(source.tcsr, source.stream.t, roots, sampling, 0)
            assert table["targets"][i, rank].tolist() == [len(level) for level in found.trees[0].levels]
            assert (table["nodes"][i, rank], table["edges"][i, rank]) == (len(found.nodes), len(found.edges))
            last = {node: e for e in deal.all_events(i) for node in (int(source.stream.src[e]), int(source.stream.dst[e]))}
            assert table["updated"][i, rank] == sum(e in own for e in last.values())


def test_the_last_event_of_a_node():
    src, dst = np.array([5, 2, 2, 7], np.int32), np.array([2, 2, 9, 5], np.int32)
    nodes, last = last_events(src, dst)
    assert nodes.tolist() == [2, 5, 7, 9] and last.tolist() == [2, 3, 3, 2]
    assert [part.tolist() for part in last_events(src[:0], dst[:0])] == [[], []]


def test_it_is_counted_once_and_kept(tmp_path, monkeypatch):
    folder = prepared(tmp_path, stream())
    asked = (False, 2, 5, Sampling((3,)))
    first = PreparedStream.load(folder).work(*asked)
    monkeypatch.setattr(neighbourhood, "sample", None)  # not asked again
    again = PreparedStream.load(folder).work(*asked)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
        assert getattr(again, name).dtype == np.int64


def test_other_settings_have_work_of_their_own(tmp_path):
    data = PreparedStream.load(prepared(tmp_path, stream(), hidden=0.1))
    plain = Sampling((3,))
    asked = [
        (False, 1, 5, plain),
        (True, 1, 5, plain),
        (False, 2, 5, plain),
        (False, 1, 6, plain),
        (False, 1, 5, plain, 2),
        (False, 1, 5, plain, 0, 2),
        (False, 1, 5, Sampling((4,))),
        (False, 1, 5, Sampling((3, 3))),
        (False, 1, 5, Sampling((3,), "uniform")),
        (False, 1, 5, Sampling((3,), windows=2, duration=4.0)),
        (False, 1, 5, Sampling((3,), windows=2, duration=4.5)),
        (False, 1, 5, Sampling((3,), unique=False)),
        (False, 1, 5, Sampling((3,), delivers=3)),
        (False, 1, 5, Sampling((3,), sources=True)),
    ]
    counted = [data.work(*one) for one in asked]
    assert len(list((tmp_path / "prepared" / "work").iterdir())) == len(asked)
    again = PreparedStream.of(stream(), data.protocol)  # keeps nothing
    for one, found in zip(asked, counted, strict=True):
        fresh = again.work(*one)
        for name in NAMES:
            np.testing.assert_array_equal(getattr(fresh, name), getattr(found, name), err_msg=f"{one}: {name}")


def damaged(path, change):
    held = dict(np.load(path))
    change(held)
    np.savez(path, **held)


DAMAGE = [
    lambda path: path.write_bytes(path.read_bytes()[:200]),
    lambda path: path.write_bytes(b""),
    lambda path: damaged(path, lambda held: held.pop("nodes")),
    lambda path: damaged(path, lambda held: held.update(more=held["nodes"])),
    lambda path: damaged(path, lambda held: held.update(nodes=held["nodes"][:-1])),
    lambda path: damaged(path, lambda held: held.update(nodes=-1 - held["nodes"])),
    lambda path: damaged(path, lambda held: held.update(nodes=np.float64(3))),
    lambda path: damaged(path, lambda held: held.update(targets=held["nodes"])),
    lambda path: damaged(path, lambda held: held.update({name: value[:-1] for name, value in held.items()})),
]


@pytest.mark.parametrize("number", range(len(DAMAGE)))
def test_a_damaged_file_is_one_line(tmp_path, number):
    folder = prepared(tmp_path, stream())
    asked = (False, 1, 5, Sampling((3,)))
    PreparedStream.load(folder).work(*asked)
    (path,) = (folder / "work").iterdir()
    DAMAGE[number](path)
    with pytest.raises(UserError) as error:
        PreparedStream.load(folder).work(*asked)
    assert str(error.value).startswith(str(path)) and str(error.value).count("\n") == 0
    path.unlink()  # which is the advice
    assert len(PreparedStream.load(folder).work(*asked)) > 0


def test_counts_of_one_shape_and_not_negative():
    names = [field.name for field in fields(BatchStatistics)]
    counts = {name: np.ones((3, 2) if name in ("targets", "sampled") else 3, np.int64) for name in names}
    assert len(BatchStatistics(**counts)) == 3
    for wrong in (np.arange(2), np.arange(3.0), np.array([1, -1, 0]), np.ones((3, 2), np.int64)):
        with pytest.raises(UserError, match=r"^work of batches: nodes is .* of 3 batches$"):
            BatchStatistics(**{**counts, "nodes": wrong})
