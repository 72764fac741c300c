"""Prepared streams: what training sees of one, what its evaluation is told from, and folders that are not what they were."""

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from stream_case import prepared, stream

from chronoscale.batching.streams.caching.loading import Loading
from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream, replace_absent
from chronoscale.batching.streams.sampling import presampling
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.datasets import store
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol, PublishedNegatives
from chronoscale.errors import UserError
from chronoscale.strategies.streams.placements import Greedy


def pairs(events):
    return list(zip(events.src.tolist(), events.dst.tolist(), events.t.tolist(), strict=True))


@pytest.mark.parametrize("stored", [True, False])
def test_training_sees_nothing_of_hidden_nodes(tmp_path, stored):
    events, protocol = stream(seed=3, nodes=30, events=300, labels=True, features=2), {"hidden": 0.2, "seed": 5}
    data = (
        PreparedStream.load(prepared(tmp_path, events, **protocol)) if stored else PreparedStream.of(events, Protocol(ranked=3, **protocol))
    )
    seen, early = data.training.stream, data.whole.stream.span(0, data.split.train_end)
    of_training = {*seen.src.tolist(), *seen.dst.tolist()}
    active = {*events.src.tolist(), *events.dst.tolist()}
    assert np.flatnonzero(data.new).tolist() == sorted(active - of_training) and data.new.sum() >= int(0.2 * len(active))
    is_old = ~(data.new[early.src] | data.new[early.dst])
    assert 0 < data.training_events == len(seen) == is_old.sum() < len(early)
    for column in ("src", "dst", "t", "features", "labels"):
        np.testing.assert_array_equal(getattr(seen, column), getattr(early, column)[is_old])
    np.testing.assert_array_equal(seen.node_features, events.node_features)
    assert not data.new[data.training.tcsr.neighbor].any() and data.training.tcsr.event.max() < data.training_events
    assert not data.new[data.among].any() and data.among.tolist() == sorted(set(seen.dst.tolist()))
    assert not data.new[data.negatives_of_training(range(data.training_events), 4, 0)].any()
    tested = events.span(data.split.validation_end, len(events))
    assert (data.new[tested.src] | data.new[tested.dst]).any() and not (data.new[tested.src] | data.new[tested.dst]).all()
    assert len(data.whole.stream) == len(events) and data.whole.tcsr.neighbor.size > data.training.tcsr.neighbor.size
    assert stream_statistics(data).training == data.training_events and stream_statistics(data).validation == len(data.split.validation)


def test_what_is_stored_is_what_is_made_in_memory(tmp_path):
    events = stream(seed=1, nodes=20, events=200, features=3)
    for number, hidden in enumerate((0.0, 0.15)):
        (tmp_path / str(number)).mkdir()
        one, other = (
            PreparedStream.load(prepared(tmp_path / str(number), events, hidden=hidden)),
            PreparedStream.of(events, Protocol(ranked=3, hidden=hidden)),
        )
        assert (one.split, one.training_events, one.protocol) == (other.split, other.training_events, other.protocol)
        assert pairs(one.training.stream.span(0, one.training_events)) == pairs(other.training.stream.span(0, other.training_events))
        for name in ("new", "among"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for what in ("validation", "test", "ranked"):
            np.testing.assert_array_equal(one.negatives(what).dst, other.negatives(what).dst)
        for validates in (False, True):
            work = [data.work(validates, 2, 7, Sampling((3,))) for data in (one, other)]
            assert all(np.array_equal(getattr(work[0], name), getattr(work[1], name)) for name in work[0].__slots__)


def test_without_hidden_nodes_training_is_the_beginning(tmp_path):
    data = PreparedStream.load(prepared(tmp_path, stream()))
    assert data.training is data.whole and data.training_events == data.split.train_end
    assert not (tmp_path / "prepared" / "training").exists()


def test_negatives_never_are_what_happened(tmp_path):
    data = PreparedStream.load(prepared(tmp_path, stream(seed=2, nodes=12, events=400), ranked=5))
    dst = data.whole.stream.dst
    drawn = [data.negatives_of_training(range(data.training_events), epoch, 0) for epoch in range(5)]
    for one in drawn:
        assert (
            one.shape == (data.training_events, 1)
            and not (one[:, 0] == dst[: data.training_events]).any()
            and np.isin(one, data.among).all()
        )
    assert len({one.tobytes() for one in drawn}) == 5  # another epoch, other ones
    np.testing.assert_array_equal(data.negatives_of_training(range(7, 20), 3, 0), drawn[3][7:20])  # whatever the batch
    for what, part, k in (("validation", data.split.validation, 1), ("test", data.split.test, 1), ("ranked", data.split.test, 5)):
        negatives = data.negatives(what)
        assert negatives.part == part and negatives.dst.shape == (len(part), k)
        assert not (negatives.dst == dst[part.start : part.stop, None]).any()
        np.testing.assert_array_equal(negatives.dst, data.negatives(what).dst)
    assert replace_absent(np.array([-1, 4], np.int32)).tolist() == [0, 4]


def test_labels_of_sources(tmp_path):
    data = PreparedStream.load(prepared(tmp_path, stream(labels=True), task="node"))
    assert stream_statistics(data).classes == 2 and data.negatives_of_training(range(4), 0, 0).shape == (4, 0)
    assert sorted(path.name for path in (tmp_path / "prepared").iterdir()) == ["new.npy", "prepared.json", "tcsr", "work"]
    work = data.work(False, 1, 7, Sampling((3,)))
    assert (work.roots == 2 * work.events).all()
    assert stream_statistics(PreparedStream.load(tmp_path / "prepared")).classes == 2


def of(src, t, labels=None):
    src = np.array(src, np.int32)
    return EventStream(9, src, (src + 1) % 9, np.array(t, np.int64), labels=None if labels is None else np.array(labels), name="few")


@pytest.mark.parametrize(
    ("events", "protocol", "message"),
    [
        (of([0, 1], [0, 1]), {}, "a split needs events in every part, got 1 to train, 0 to validate, 1 to test"),
        (of([0, 1, 2, 3] * 5, [0] * 20), {}, "a split needs events in every part, got 20 to train, 0 to validate, 0 to test"),
        (of([], []), {}, "a stream without events cannot be split"),
        (of(range(9), range(9)), {"train": 0.9, "validation": 0.1}, "fractions of a split"),
        (of(range(9), range(9)), {"task": "node"}, "dataset 'few' has no labels of events, which node classification needs"),
        (of(range(9), range(9), range(-1, 8)), {"task": "node"}, "dataset 'few': label -1 of event 0 is below 0"),
        (of(range(9), range(9), [1] * 9), {"task": "node"}, "dataset 'few': every event has the label 1"),
        (of([0] * 8 + [0], range(9)), {"hidden": 0.6}, "hiding 1 nodes leaves no event to train on; hide fewer"),
        (of(range(9), range(9)), {"hidden": 1.5}, "share of hidden nodes: expected 0 or more and below 1, got 1.5"),
    ],
)
@pytest.mark.parametrize("stored", [True, False])
def test_streams_that_cannot_be_trained_on(tmp_path, events, protocol, message, stored):
    with pytest.raises(UserError) as error:
        if stored:
            prepared(tmp_path, events, **protocol)
        else:
            PreparedStream.of(events, Protocol(**protocol))
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"task": "lnk"}, "did you mean 'link'"),
        ({"kind": "historic"}, "did you mean 'historical'"),
        ({"ranked": 0}, "negatives that a test event is ranked against: expected 1 or more, got 0"),
    ],
)
def test_protocols_that_cannot_be(wrong, message):
    with pytest.raises(UserError, match=message):
        Protocol(**wrong)


DAMAGE = {
    "prepared.json": lambda path: path.write_text("{"),
    "new.npy": lambda path: np.save(path, np.zeros(4, np.bool_)),
    "tcsr/event.npy": lambda path: path.write_bytes(path.read_bytes()[:90]),
    "tcsr/neighbor.npy": lambda path: path.unlink(),
    "test.npz": lambda path: path.write_bytes(b"PK"),
    "ranked.npz": lambda path: path.unlink(),
    "validation.npz": lambda path: np.savez(path, dst=np.zeros((2, 1), np.int32)),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_folder_is_one_line(tmp_path, name):
    folder = prepared(tmp_path, stream())
    DAMAGE[name](folder / name)
    with pytest.raises(UserError) as error:
        data = PreparedStream.load(folder)
        for what in ("validation", "test", "ranked"):
            data.negatives(what)
    assert name in str(error.value) and "\n" not in str(error.value)


def test_another_stream_in_its_place_is_noticed(tmp_path):
    folder = prepared(tmp_path, stream())
    for number, (other, message) in enumerate(((stream(nodes=12), "of another one"), (stream(seed=8), "negatives of other data"))):
        store.save(tmp_path / str(number), other)
        (tmp_path / "stream").rename(tmp_path / f"old{number}")
        (tmp_path / str(number)).rename(tmp_path / "stream")
        with pytest.raises(UserError, match=message):
            PreparedStream.load(folder).negatives("test")


@pytest.mark.parametrize(("presample", "most"), [(1, 2), (4, 5), (1000, 9)])
def test_as_many_batches_are_sampled_beforehand_as_are_asked_for(monkeypatch, presample, most):
    """Evenly over training and validation, one more at most."""
    data, seen = PreparedStream.of(stream(events=80), Protocol()), []
    sample = presampling.neighbourhood.sample
    monkeypatch.setattr(presampling.neighbourhood, "sample", lambda *given: (seen.append(given), sample(*given))[1])
    data.residents(1, 10, Sampling((3,)), 0, Loading(True, Greedy(), 0.5, presample, 4, 4))
    assert min(presample, 8) <= len(seen) <= most


def test_published_negatives_are_stored_once(tmp_path):
    """In memory and in the folder alike, which needs the files no more; those of another stream are refused."""
    events, files = stream(seed=4, nodes=12, events=200), {}
    split = PreparedStream.of(events, Protocol()).split
    for period, part in (("test", split.test), ("validation", split.validation)):
        keys = [pairs(events)[at] for at in part]
        files[period] = str(tmp_path / f"{period}.pkl")
        Path(files[period]).write_bytes(pickle.dumps({key: np.arange(1 + key[2] % 3) for key in keys}))
    protocol = {"published": PublishedNegatives(**files)}
    made = PreparedStream.of(events, Protocol(ranked=3, **protocol))
    stored = PreparedStream.load(prepared(tmp_path, events, **protocol))
    others = [made.negatives_of_evaluation(period) for period in ("test", "validation")]
    for file in files.values():
        Path(file).unlink()
    for part, (period, expected) in zip((split.test, split.validation), zip(("test", "validation"), others, strict=True), strict=True):
        np.testing.assert_array_equal(PreparedStream.load(stored.folder).negatives_of_evaluation(period), expected)
        np.testing.assert_array_equal(stored.negatives_of_evaluation(period, slice(2, 9)), expected[2:9])
        np.testing.assert_array_equal(expected[:, :1], stored.negatives(period).dst)
        lengths = [1 + time % 3 for _, _, time in (pairs(events)[at] for at in part)]
        assert expected[:, 1:].tolist() == [[*range(k), *[-1] * (3 - k)] for k in lengths]
    shutil.rmtree(tmp_path / "stream")
    store.save(tmp_path / "stream", stream(seed=5, nodes=12, events=200))
    with pytest.raises(UserError, match=r"ranked\.npz: negatives of other data"):
        PreparedStream.load(stored.folder).negatives("ranked")


def test_labels_have_no_negatives(tmp_path):
    data = PreparedStream.load(prepared(tmp_path, stream(events=200, labels=True), task="node"))
    assert [data.negatives_of_evaluation(period).shape for period in ("test", "validation")] == [(30, 0), (29, 0)]
