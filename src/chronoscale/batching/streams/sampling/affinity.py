"""Affinity of sampling threads: how much of what two of them sample is the same (FAST, section 4.4, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import numpy as np

from chronoscale.datasets.arrays import Float64, Int32, Int64
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError, unknown

Similarity = Literal["chunks", "as-published"]
SIMILARITIES: tuple[Similarity, ...] = get_args(Similarity)
Roots = tuple[Int32, Int32]  # nodes [R] and the first event that each does not see [R], as `TCSR.sample` takes them


def thread_affinity(
    tcsr: TCSR, batches: Iterable[Roots], threads: int, fanouts: Sequence[int] = (), similarity: Similarity = "chunks"
) -> Float64:
    """Compute how alike T sampling threads (of one rank's CPU sampler) read, over these batches of an event stream, so that those that
    share most can be bound to CPUs that share caches (FAST §4.4): float64 [T, T], symmetric, -1 on the diagonal.

    batches: each the roots, nodes int32 [R] and the first event that each does not see, int32 [R].

    chunks: thread i samples the i-th of T parts of a batch's roots, rounded up, as it does when it is bound; two threads are as similar as
    the sets of nodes that they read (Jaccard), and a batch adds that. as-published: Algorithm 2 as printed. Parts are rounded down; root k
    of one thread is compared only with root k of the other, and each k adds the Jaccard similarity of the two roots' neighbourhoods.
    fanouts: of the hops that belong to a neighbourhood beside its root, the latest events (K in the paper); none, as in its implementation:
    two roots are similar, 1, where they are the same node, and not, 0, otherwise.

    Raises UserError for fewer than one thread and for what `TCSR.sample` refuses.
    """
    if threads < 1:
        raise UserError(f"affinity: {threads} threads; expected at least one")
    if similarity not in SIMILARITIES:
        raise unknown("similarity", similarity, SIMILARITIES)
    total = np.zeros((threads, threads))
    for node, before in batches:
        by_chunk = similarity == "chunks"
        each = -(-len(node) // threads) if by_chunk else len(node) // threads
        used = node if by_chunk else node[: each * threads]
        if not len(used):
            continue
        root, node_ids = _neighbourhood_nodes(tcsr, used, before[: len(used)], fanouts)
        thread, position = np.divmod(root, each)
        total += _jaccard(np.zeros_like(position) if by_chunk else position, thread, node_ids.astype(np.int64), threads)
    total = np.triu(total, 1)
    total += total.T
    np.fill_diagonal(total, -1.0)
    return total


def _neighbourhood_nodes(tcsr: TCSR, node: Int32, before: Int32, fanouts: Sequence[int]) -> tuple[Int64, Int32]:
    """Return the nodes that roots [R] and their neighbourhoods hold, and the root of each."""
    roots = [np.arange(len(node))]
    nodes = [node]
    width = 1
    for fanout, hop in zip(fanouts, tcsr.hops(node, before, fanouts), strict=True):
        width *= fanout
        nodes.append(hop.sampled.neighbor.ravel())
        roots.append(np.repeat(np.arange(len(node)), width))
    root, node_ids = np.concatenate(roots), np.concatenate(nodes)
    return root[node_ids >= 0], node_ids[node_ids >= 0]


def _jaccard(block: Int64, thread: Int64, node: Int64, threads: int) -> Float64:
    """Sum, over blocks, the Jaccard similarities of each two threads' sets, from entries (block, thread, node)."""
    if not node.size:
        return np.zeros((threads, threads))
    from scipy.sparse import csr_array  # noqa: PLC0415 (heavy, and ranks whose threads are not bound do without)

    bound = int(node.max()) + 1
    owner, node = np.divmod(np.unique((block * threads + thread) * bound + node), bound)  # a set holds a node once
    _, element = np.unique(owner // threads * bound + node, return_inverse=True)  # a node of another block is another
    sets = csr_array((np.ones(len(node)), (owner, element)), shape=(int(owner.max()) + 1, int(element.max()) + 1))
    common = (sets @ sets.T).tocoo()
    sizes = np.bincount(owner)
    first, second = common.coords
    share = common.data / (sizes[first] + sizes[second] - common.data)
    summed = np.bincount(first % threads * threads + second % threads, share, threads * threads)
    return np.asarray(summed.reshape(threads, threads), np.float64)
