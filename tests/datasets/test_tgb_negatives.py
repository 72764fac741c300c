"""The Temporal Graph Benchmark's published negatives, against the pickles' own content; and files that are not what they should be."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tgb_files import columns_of, masks_of, write_tgb

from chronoscale.datasets.formats.readers.tgb_negatives import read_negatives
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.splits import split_by_time
from chronoscale.errors import UserError


def opened(file):
    events = open_dataset(file)
    assert isinstance(events, EventStream)
    return events, split_by_time(events)


@pytest.mark.parametrize("protocol", [pickle.HIGHEST_PROTOCOL, 2])
def test_every_event_has_the_rows_of_the_file(tmp_path, protocol):
    """By TGB's numbers of nodes, split and times, in the file's order, shorter rows filled up."""
    file = write_tgb(tmp_path)
    events, split = opened(file)
    src, dst, t = columns_of(file)
    for name, part in (("val", split.validation), ("test", split.test)):
        path = tmp_path / f"tgbl-wiki_{name}_ns_v2.pkl"
        rows = pickle.loads(path.read_bytes())
        path.write_bytes(pickle.dumps(rows, protocol=protocol))
        mask = masks_of(t)[name]
        assert np.flatnonzero(mask).tolist() == list(part)
        expected = [rows[key].tolist() for key in zip(src[mask], dst[mask], t[mask], strict=True)]
        read = read_negatives(path, events, part)
        assert read.dtype == np.int32 and len({len(row) for row in expected}) > 1 and len(rows) < len(part)  # some events share theirs
        assert [[*filter(lambda each: each >= 0, row)] for row in read.tolist()] == expected
        assert read.shape == (len(part), max(map(len, expected))) and (np.diff((read < 0).astype(int)) >= 0).all()


def test_times_with_fractions(tmp_path):
    """TGB cuts fractions of times off before it splits and names events."""
    stream = EventStream(4, *np.array([[0, 1], [2, 3]], np.int32), np.array([40.5, 41.9]))
    path = tmp_path / "negatives.pkl"
    path.write_bytes(pickle.dumps({(0, 2, 40): np.array([3.0]), (1, 3, 41): np.array([2, 0], np.int32)}))
    assert_array_equal(read_negatives(path, stream, range(2)), [[3, -1], [2, 0]])


ROW, KEY = np.array([13, 15]), (np.int64(3), np.int64(12), np.int64(1300100400))


class Runs:
    """What unpickles as a call."""

    def __init__(self, call, *arguments):
        self.call = call, arguments

    def __reduce__(self):
        return self.call


def doubled(times):
    """A list that names one list twice, and so on: a few bytes of a pickle, 2**times to whoever walks through it."""
    nested = [1]
    for _ in range(times):
        nested = [nested, nested]
    return nested


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rows, key: rows.pop(key),
            "no negatives of {twice} of the {all} events, the first {key}; negatives of another dataset, version",
        ),
        (lambda rows, key: rows.update({(*key[:2], key[2] + 1): ROW}), "has negatives of 1 events beside the {all} that are to be ranked"),
        (lambda rows, key: rows.update({key: np.array([13, 26])}), "{key}: expected nodes below 26, found 26; negatives of another"),
        (lambda rows, key: rows.update({key: np.array([-1, 13])}), "{key}: expected nodes below 26, found -1"),
        (lambda rows, key: rows.update({key: np.array([13.5])}), "{key}: expected nodes below 26, found 13.5"),
        (lambda rows, key: rows.update({key: np.array([np.nan])}), "{key}: expected nodes below 26, found nan"),
        (lambda rows, key: rows.update({key: np.array([], int)}), "{key}: expected one destination or more, found an array (0,)"),
        (lambda rows, key: rows.update({key: ROW[None]}), "{key}: expected one destination or more, found an array (1, 2) of int64"),
        (lambda rows, key: rows.update({key: np.array(["13"])}), "{key}: expected one destination or more, found an array (1,) of <U2"),
        (lambda rows, key: rows.update({key: [[1], [2, 3]]}), "{key}: expected an array of destinations, found list"),
        (lambda rows, key: rows.update({key: "13"}), "{key}: expected an array of destinations, found str"),
        (lambda rows, key: rows.update({key: doubled(99)}), "{key}: expected an array of destinations, found list"),
        (lambda rows, key: rows.update({((1,), (1,)): ROW}), "(refused a key that holds tuples)"),
        (lambda rows, key: rows.update({key: Runs(eval, "1")}), "not TGB's negatives, a mapping (source, destination, time) -> destin"),
    ],
)
def test_rows_that_are_none_are_refused(tmp_path, change, message):
    events, split = opened(write_tgb(tmp_path))
    path = tmp_path / "tgbl-wiki_test_ns_v2.pkl"
    rows = pickle.loads(path.read_bytes())
    at = split.test.start
    key = tuple(np.int64(column[at]) for column in (events.src, events.dst, events.t))
    assert events.num_nodes == 26
    change(rows, key)
    path.write_bytes(pickle.dumps(rows))
    with pytest.raises(UserError) as refused:
        read_negatives(path, events, split.test)
    assert str(refused.value).startswith(f"{path}: ")
    twice = sum(key == each for each in zip(*(column[at:].tolist() for column in (events.src, events.dst, events.t)), strict=True))
    expected = message.format(key="{} -> {} at {}".format(*key), twice=twice, all=len(split.test))
    assert expected in str(refused.value)


def test_nothing_that_a_file_names_is_run(tmp_path):
    events, split = opened(write_tgb(tmp_path))
    path, mark = tmp_path / "evil.pkl", tmp_path / "mark"
    for calls in (Runs(Path.touch, mark), Runs(exec, f"open({str(mark)!r}, 'w')"), Runs(np.fromfile, str(tmp_path / "evil.pkl"))):
        for content in (calls, {calls: ROW}, {KEY: calls}):
            path.write_bytes(pickle.dumps(content))
            with pytest.raises(UserError, match=r"evil\.pkl: not TGB's negatives, .*refused"):
                read_negatives(path, events, split.test)
    assert not mark.exists()
    for content, message in ((b"", "truncated or not TGB's negatives"), (pickle.dumps([ROW]), "expected TGB's negatives, .*, found list")):
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            read_negatives(path, events, split.test)
    with pytest.raises(UserError, match=r"none\.pkl: no such file"):
        read_negatives(tmp_path / "none.pkl", events, split.test)


def test_one_row_named_by_many_events_does_not_fill_memory(tmp_path, monkeypatch):
    """A row of the size of the file, which each of the events has."""
    events, split = opened(write_tgb(tmp_path))
    path = tmp_path / "wide.pkl"
    row = np.zeros(1 << 16, np.int8)
    keys = zip(*(column[split.test.start :].tolist() for column in (events.src, events.dst, events.t)), strict=True)
    path.write_bytes(pickle.dumps(dict.fromkeys(keys, row)))
    monkeypatch.setattr("chronoscale.datasets.unpacking.free_memory", lambda: 40 << 20)
    with pytest.raises(UserError, match=r"wide\.pkl: .*memory"):
        read_negatives(path, events, split.test)


def test_spoilt_files_are_refused_or_read_as_they_are(tmp_path):
    """Bytes changed or cut off here and there: a sentence, or what Python's own unpickler reads, whose content is then sound."""
    events, split = opened(write_tgb(tmp_path, events=60))
    path, rng = tmp_path / "tgbl-wiki_test_ns_v2.pkl", np.random.default_rng(0)
    sound, refusals = path.read_bytes(), 0
    for _ in range(300):
        spoilt = bytearray(sound[: rng.integers(len(sound))] if rng.random() < 0.3 else sound)
        for at in rng.integers(max(len(spoilt), 1), size=rng.integers(1, 3)):
            spoilt[at : at + 1] = bytes([rng.integers(256)])
        path.write_bytes(spoilt)
        try:
            read = read_negatives(path, events, split.test)
        except UserError as error:
            refusals += str(error).startswith(f"{path}: ")
        else:
            assert read.shape[0] == len(split.test) and (read.max() < events.num_nodes) and (read[:, 0] >= 0).all()
            refusals += 1
    assert refusals == 300
