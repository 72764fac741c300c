"""The affinity of sampling threads against Algorithm 2 as it is printed, and against sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_search import NODES, earlier, sources

from chronoscale.batching.streams.sampling.affinity import SIMILARITIES, Roots, Similarity, thread_affinity
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError

roots = st.lists(st.tuples(st.integers(-1, NODES - 1), st.integers(0, 30)), max_size=14).map(
    lambda of: (np.array([node for node, _ in of], np.int32), np.array([before for _, before in of], np.int32))
)
batches = st.lists(roots, max_size=3)


def met(source: IndexedStream, node: int, before: int, fanouts: list[int]) -> set[int]:
    """A root and its neighbourhood, by a search through the list of events."""
    if node < 0:
        return set()
    latest = earlier(source.stream, node, 0, before)[-fanouts[0] :] if fanouts else []
    return {node}.union(*(met(source, other, event, fanouts[1:]) for other, event in latest))


def jaccard(a: set[int], b: set[int]) -> float:
    return len(a & b) / len(a | b) if a | b else 0.0


def as_printed(source: IndexedStream, given: list[Roots], threads: int, fanouts: list[int]) -> np.ndarray:
    """Algorithm 2, line by line."""
    table = np.zeros((threads, threads))
    for node, before in given:
        each = len(node) // threads
        for k in range(each):
            u = [i * each + k for i in range(threads)]
            for i in range(threads):
                for j in range(i + 1, threads):
                    a, b = (met(source, int(node[at]), int(before[at]), fanouts) for at in (u[i], u[j]))
                    table[i, j] += jaccard(a, b)
    return finished(table)


def of_chunks(source: IndexedStream, given: list[Roots], threads: int, fanouts: list[int]) -> np.ndarray:
    table = np.zeros((threads, threads))
    for node, before in given:
        each = -(-len(node) // threads)
        sets = [
            set().union(*(met(source, int(v), int(b), fanouts) for v, b in zip(node[s], before[s], strict=True)))
            for s in (slice(i * each, (i + 1) * each) for i in range(threads))
        ]
        for i in range(threads):
            for j in range(i + 1, threads):
                table[i, j] += jaccard(sets[i], sets[j])
    return finished(table)


def finished(table: np.ndarray) -> np.ndarray:
    table = table + table.T
    np.fill_diagonal(table, -1)
    return table


@given(sources, batches, st.integers(1, 5), st.sampled_from([[], [2], [3, 2]]))
def test_it_is_that_of_the_definition(source: IndexedStream, given: list[Roots], threads: int, fanouts: list[int]) -> None:
    for similarity, slow in (("as-published", as_printed), ("chunks", of_chunks)):
        mine = thread_affinity(source.tcsr, given, threads, fanouts, similarity)  # type: ignore[arg-type]
        assert mine.shape == (threads, threads) and (mine == mine.T).all()
        np.testing.assert_allclose(mine, slow(source, given, threads, fanouts), rtol=1e-12)


def batch(*nodes: int) -> Roots:
    return np.array(nodes, np.int32), np.zeros(len(nodes), np.int32)


EMPTY = TCSR(np.zeros(10, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))


def test_places_matter_to_the_published_form_alone() -> None:
    """Four threads of two roots: two that sample the same nodes in another order are alike, and Algorithm 2 does not see it."""
    given = [batch(1, 2, 2, 1, 1, 3, 4, 5)]
    chunks, published = (thread_affinity(EMPTY, given, 4, similarity=form)[np.triu_indices(4, 1)].tolist() for form in SIMILARITIES)
    assert chunks == [1.0, 1 / 3, 0, 1 / 3, 0, 0]
    assert published == [0, 1, 0, 0, 0, 0]


def test_a_batch_that_threads_do_not_divide() -> None:
    """Seven roots of three threads: parts of 3, 3 and 1 as the sampler deals them; of 2, 2 and 2 in Algorithm 2."""
    given = [batch(1, 2, 3, 4, 5, 6, 1)]
    assert thread_affinity(EMPTY, given, 3)[0, 2] == 1 / 3
    assert (thread_affinity(EMPTY, given, 3, similarity="as-published")[np.triu_indices(3, 1)] == 0).all()


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_nothing_is_like_nothing(similarity: Similarity) -> None:
    for none in ([], [batch()], [batch(-1, -1, -1, -1)]):
        assert thread_affinity(EMPTY, none, 2, similarity=similarity).tolist() == [[-1, 0], [0, -1]]


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match=r"^affinity: 0 threads; expected at least one$"):
        thread_affinity(EMPTY, [], 0)
    with pytest.raises(UserError, match=r"^unknown similarity 'as-publised'; did you mean 'as-published'\?$"):
        thread_affinity(EMPTY, [], 2, similarity="as-publised")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^sample: node ids must lie in \[0, 9\)"):
        thread_affinity(EMPTY, [batch(9)], 2, (3,))
