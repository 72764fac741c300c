"""Reading, checking and counting in blocks: the same as at once, and in memory that does not grow with the stream."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fuzz import independent
from fuzz.data import stream_differs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from chronoscale.datasets import arrays, spool, store
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.formats.tables import text_table
from chronoscale.datasets.spool import Spool, take_rows
from chronoscale.datasets.streams import statistics
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import ChronoscaleWarning, UserError

rows = st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from(["0", "1", "2", "2.5", "7"]), st.integers(-3, 3))


@pytest.fixture
def in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_table, "ENTRIES", 8)  # two lines
    monkeypatch.setattr(spool, "MEMORY_BYTES", 16)
    monkeypatch.setattr(spool, "BLOCK", 3)
    monkeypatch.setattr(arrays, "SCAN_BYTES", 16)
    monkeypatch.setattr(statistics, "_BLOCK", 3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=st.lists(rows, min_size=1, max_size=30), strict=st.booleans())
def test_blocks_of_lines_are_read_as_one_table(tmp_path: Path, in_small_blocks: None, table: list[tuple[int, ...]], strict: bool) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(" ".join(map(str, row)) + "\n" for row in table))
    options = {"columns": "src,dst,time,feature"}
    expected = independent.events(path, "plain", options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChronoscaleWarning)
        try:
            dataset = open_dataset(path, "plain", **options, strict=strict)
        except UserError:
            assert strict and expected.time != sorted(expected.time)
            return
    assert isinstance(dataset, EventStream)
    assert stream_differs(dataset, expected, strict) is None
    assert dataset.t.dtype == (np.float64 if any("." in str(row[2]) for row in table) else np.int64)


def test_a_fault_of_a_later_block_has_its_line(tmp_path: Path, in_small_blocks: None) -> None:
    path = tmp_path / "a.txt"
    lines = [f"{i} {i + 1} {i}" for i in range(20)]
    for wrong, message in (
        ("1 2", "expected 3 fields, found 2"),
        ("1 2 3 4", "expected 3 fields, found 4"),
        ("1 x 3", "expected a finite number, found 'x'"),
        ("1 2 inf", "expected a finite number, found 'inf'"),
        ("1 -2 3", "node id -2 is below 0"),
        ("1 2.5 3", "expected an integer node id, found 2.5"),
        ("1 2 3", "time 3 is before the 14 that precedes it"),
    ):
        path.write_text("\n".join([*lines[:15], wrong, *lines[15:]]))
        with pytest.raises(UserError, match=f":16: {message}"):
            open_dataset(path, strict=True)


def test_times_beyond_float64_are_told_where_a_later_block_has_fractions(tmp_path: Path, in_small_blocks: None) -> None:
    path = tmp_path / "a.txt"
    exact = 2**53 + 1
    path.write_text("".join(f"1 2 {exact + i}\n" for i in range(9)))
    assert_array_equal(open_dataset(path).t, exact + np.arange(9))  # type: ignore[union-attr]
    for line in (f"1 2 {exact}.5\n", f"1 2 0.5\n1 2 {exact}\n"):
        path.write_text("1 2 1\n" * 9 + f"1 2 {exact}\n" + line)
        with pytest.raises(UserError, match=r":10: a time beyond 2\*\*53, and other times have fractions"):
            open_dataset(path, sort=True)


def test_a_spool_keeps_what_was_appended(in_small_blocks: None) -> None:
    for width in ((), (3,)):
        grown, whole = Spool(np.float32, width), np.arange(60, dtype=np.float32).reshape(-1, *width)
        for begin in range(0, len(whole), 7):
            grown.append(whole[begin : begin + 7])
        assert_array_equal(grown.array(), whole)
        order = np.random.default_rng(0).permutation(len(whole))
        assert_array_equal(take_rows(grown.array(), order), whole[order])
    assert Spool(np.int64, (2,)).array().shape == (0, 2)


streams = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), max_size=60).map(sorted)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=streams, kind=st.sampled_from([np.int64, np.float64]))
def test_counts_are_those_of_a_dict(in_small_blocks: None, events: list[tuple[int, int, int]], kind: type) -> None:
    t, src, dst = np.array(events, np.int64).reshape(-1, 3).T
    labels = np.array([at % 3 for at in range(len(events))], np.int64)
    stream = EventStream(4, src.astype(np.int32), dst.astype(np.int32), t.astype(kind), labels=labels)
    counts = statistics.count_stream(stream)
    pairs = Counter((u, v) for _, u, v in events)
    assert (counts.self_loops, counts.pairs) == (sum(u == v for _, u, v in events), len(pairs))
    assert counts.duplicates == len(events) - len(set(events))
    assert counts.repetition == pytest.approx(1 - len(pairs) / max(len(events), 1))
    assert statistics.distinct_labels(stream) == len(set(labels.tolist()))


def test_pairs_are_counted_whatever_they_look_like(in_small_blocks: None) -> None:
    generator = np.random.default_rng(0)
    for src in (np.arange(500), np.zeros(500), generator.integers(0, 2**31 - 1, 500)):
        for dst in (np.arange(500), np.full(500, 2**31 - 2), generator.integers(0, 9, 500)):
            pairs = len({*zip(src.tolist(), dst.tolist(), strict=True)})
            assert statistics.distinct_pairs(src.astype(np.int32), dst.astype(np.int32)) == pairs


@pytest.mark.parametrize("place", [0, 4, 5, 6, 19])
def test_a_stream_is_checked_to_its_last_event(in_small_blocks: None, place: int) -> None:
    ids, t = np.zeros(20, np.int32), np.arange(20.0)
    broken = t.copy()
    broken[place] = np.nan
    with pytest.raises(UserError, match=rf"t\[{place}\]: time is not finite"):
        EventStream(1, ids, ids, broken)
    if place:
        broken[place] = t[place - 1] - 1
        with pytest.raises(UserError, match=rf"t\[{place}\]: time {broken[place]} is before {t[place - 1]}"):
            EventStream(1, ids, ids, broken)
    features = np.zeros((20, 3), np.float32)
    features[place, 2] = np.inf
    with pytest.raises(UserError, match="features: not finite"):
        EventStream(1, ids, ids, t, features)


PEAK = """
import sys
from pathlib import Path
from chronoscale.datasets import store
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.streams.statistics import count_stream, stream_shape

def status(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))

def described(path):
    events = open_dataset(path)
    count_stream(events), stream_shape(events)

def peak(work):
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    work()
    return status("VmHWM") - before

folder = Path(sys.argv[1])
for name in ("small", "large"):  # the small one loads what is imported late
    peaks = [
        peak(lambda: store.save(folder / f"{name}-mapped", open_dataset(folder / name))),
        peak(lambda: described(folder / name)),
        peak(lambda: store.save(folder / f"{name}-text", open_dataset(folder / f"{name}.csv"))),
    ]
print(*peaks)
"""


@pytest.mark.slow
def test_converting_and_describing_a_million_events_stays_below_twice_their_size(tmp_path: Path) -> None:
    """Of a process of its own, at its highest, beyond what it was before; pages of mapped files count."""
    for name, events in (("small", 1_000), ("large", 1_000_000)):
        generator = np.random.default_rng(0)
        ends = generator.integers(0, 20_000, (2, events), np.int32)
        time = np.cumsum(generator.integers(0, 3, events))
        stream = EventStream(20_000, *ends, time)
        store.save(tmp_path / name, stream)
        np.savetxt(tmp_path / f"{name}.csv", np.column_stack([*ends, time]), "%d", ",")
    size = sum(file.stat().st_size for file in (tmp_path / "large").iterdir())
    ran = subprocess.run([sys.executable, "-c", PEAK, str(tmp_path)], capture_output=True, text=True, check=True)
    assert [peak for peak in map(int, ran.stdout.split()) if peak >= 2 * size] == []
    for column in ("src", "dst", "t"):
        whole = np.load(tmp_path / "large" / f"{column}.npy")
        assert_array_equal(np.load(tmp_path / "large-mapped" / f"{column}.npy"), whole)
        assert_array_equal(np.load(tmp_path / "large-text" / f"{column}.npy"), whole)
