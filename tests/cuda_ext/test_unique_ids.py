"""The different ones of many ids and FAST's compressed triples, against sets, and NumPy against the kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_case import PLACES, needs_cpu

from chronoscale.cuda_ext.reference import unique_ids as unique_ids_reference
from chronoscale.cuda_ext.sampling import unique_ids as made
from chronoscale.cuda_ext.sampling.unique_ids import compress_slots, unique_ids
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError

TOP = 2**31 - 1
clusters = st.tuples(st.integers(0, TOP - 200), st.lists(st.integers(0, 200), max_size=40)).map(lambda of: [of[0] + one for one in of[1]])
ids = st.lists(clusters, max_size=4).map(lambda parts: np.array([one for part in parts for one in part], np.int32))


@pytest.fixture(params=PLACES, autouse=True)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The library, or what runs without it."""
    if request.param == "reference":
        monkeypatch.setattr(made, "cpu_library", lambda: None)
    return str(request.param)


def expected(given_ids: np.ndarray) -> tuple[list[int], list[int]]:
    rows = sorted(set(given_ids.tolist()))
    of = {row: at for at, row in enumerate(rows)}
    return rows, [of[one] for one in given_ids.tolist()]


@given(ids, st.sampled_from([0, 8, 2**30]))
def test_distinct_ids(given_ids: np.ndarray, sparse: int) -> None:
    """By a table or marks where they lie close together, and by sorting; those that lie far from 0, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unique_ids_reference, "SPARSE", sparse if given_ids.max(initial=0) < 10**6 else 8)
        unique, index = unique_ids(given_ids)
    assert unique.dtype == np.int32 and index.dtype == np.int64
    assert (unique.tolist(), index.tolist()) == expected(given_ids)


@pytest.mark.parametrize("bound", [1, 64, 65, 1000, 3_000_000, TOP])
@pytest.mark.parametrize("count", [1, 16_385, 600_000])
def test_many_ids_on_any_number_of_threads(bound: int, count: int) -> None:
    """Parts of 16,384 ids, words of 64, digits of 11 bits: all ends are met, and the largest id of all."""
    some = np.random.default_rng(bound + count).integers(0, bound, count).astype(np.int32)
    some[-1] = bound - 1
    unique, index = np.unique(some, return_inverse=True)
    for threads in (1, 2, 3, 4, 7):
        mine = unique_ids(some, threads)
        assert np.array_equal(mine[0], unique) and np.array_equal(mine[1], index)


@pytest.mark.parametrize("spread", [1, 800_000])
def test_runs_that_cross_parts(spread: int) -> None:
    """Sorted or marked, a run of one id that is longer than a part counts once."""
    some = np.repeat(np.arange(3, dtype=np.int32) * spread * 1000, 200_000)[::-1].copy()
    unique, index = unique_ids(some, 4)
    assert unique.tolist() == [0, spread * 1000, spread * 2000] and np.array_equal(unique[index], some)


@given(st.integers(0, 7), st.integers(0, 5), st.integers(1, TOP), st.integers(0, 2**32 - 1))
def test_a_triple_gives_its_slots_back(rows: int, width: int, bound: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    slots, counts = rng.integers(0, bound, (rows, width)).astype(np.int32), rng.integers(0, width + 1, rows).astype(np.int32)
    slots[np.arange(width) >= counts[:, None]] = -1
    found = compress_slots(slots, counts)
    assert [column.dtype for column in found] == [np.int32, np.int64, np.int64]
    assert found.indptr.tolist() == [0, *np.cumsum(counts).tolist()]
    assert found.unique.tolist() == sorted(set(slots[slots >= 0].tolist()))
    for row, (begin, end) in enumerate(zip(found.indptr[:-1], found.indptr[1:], strict=True)):
        assert found.unique[found.inverse[begin:end]].tolist() == slots[row, : counts[row]].tolist()


def test_the_triples_of_a_sampled_hop() -> None:
    """Of nodes and of events, on any number of threads."""
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, 900, (2, 20_000)).astype(np.int32)
    graph = TCSR.of(EventStream(1000, src, dst, np.arange(20_000)))
    found = graph.sample(np.arange(1000, dtype=np.int32).repeat(9), rng.integers(0, 20_000, 9000).astype(np.int32), 10)
    for ids in (found.neighbor, found.event):
        whole = compress_slots(ids, found.counts, 1)
        assert np.array_equal(whole.unique[whole.inverse], ids[ids >= 0]) and np.array_equal(np.diff(whole.indptr), found.counts)
        for threads in (2, 3, 4):
            for a, b in zip(whole, compress_slots(ids, found.counts, threads), strict=True):
                assert np.array_equal(a, b)


@needs_cpu
@given(ids)
def test_the_kernel_equals_its_reference(given_ids: np.ndarray) -> None:
    for a, b in zip(unique_ids(given_ids), unique_ids_reference.unique_ids(given_ids), strict=True):
        assert np.array_equal(a, b) and a.dtype == b.dtype


def test_what_is_no_id_is_refused() -> None:
    for wrong in (np.zeros(3), np.zeros(3, np.int64), np.zeros((2, 2), np.int32), np.zeros(6, np.int32)[::2], np.zeros(3, ">i4")):
        with pytest.raises(UserError, match=r"^distinct: ids are .*; expected contiguous int32 \[n\], fewer than 2\^31, threads not neg"):
            unique_ids(wrong)
    with pytest.raises(UserError, match=r"^distinct: ids are <i4 \[3\], threads=-1; expected"):
        unique_ids(np.zeros(3, np.int32), -1)
    with pytest.raises(UserError, match=r"^distinct: an id is negative$"):
        unique_ids(np.array([3, -1], np.int32))
    slots = np.array([[3, -1], [4, 5]], np.int32)
    with pytest.raises(UserError, match=r"^distinct: an id is negative$"):
        compress_slots(slots, np.array([2, 1], np.int32))
    for counts in (np.array([1, 3], np.int32), np.array([-1, 1], np.int32), np.array([1, 1]), np.array([1], np.int32)):
        with pytest.raises(UserError, match=r"^compressed: counts are int\d\d \[\d\]; expected int32 \[2\] from 0 to 2$"):
            compress_slots(slots, counts)
