"""Kernels: threads, warps and cache hits of aggregation and edge softmax on an A100, counted and modelled (Tables 2 and 5)."""

from __future__ import annotations

from typing import Any, NamedTuple

from chronoscale.harness.study.hooks.fast_epochs import WIDTH, Subgraph, epoch_of, largest
from chronoscale.harness.study.hooks.fast_reuse import by_edge, by_node, hit_rates, softmax_looping, softmax_shuffling
from chronoscale.harness.study.hooks.fast_warps import LANES, apiece, looping, resident, shuffling
from chronoscale.harness.study.point import StudyPoint

HEADS, SHUFFLE = 2, 16  # heads; lanes of a node in dGNN's reduction (§4.3), the next power of two above the fan-out
BLOCK = 1024  # threads
SHUFFLED, LOOPED = 32, 512  # nodes a block before and after (§6.3)
AT_ONCE = BLOCK // WIDTH  # nodes or edges a block that sums rows (§4.3: at most 8)


class Kernel(NamedTuple):
    """Modelled figures of one operator (aggregation or edge softmax) on an A100, for FAST's Tables 2 and 5.

    l1, l2: hit rates of the caches, 0 to 1. warps: active ones an SM. threads: active ones a warp; useful: how many of them have work.
    """

    l1: float
    l2: float
    warps: float
    threads: float
    useful: float


def kernels(graph: Subgraph) -> dict[tuple[str, str], Kernel]:
    """Model aggregation and edge softmax on an A100 by counting, for FAST's Tables 2 and 5.

    By (operator, whose: 'dgnn', 'fast' or 'fastgl').
    """
    targets, edges = graph.counts.size, graph.source.size
    nodes, each = by_node(graph, WIDTH, AT_ONCE), by_edge(graph, WIDTH, AT_ONCE)
    shuffled, looped = softmax_shuffling(graph, HEADS, SHUFFLED, SHUFFLE), softmax_looping(graph, HEADS, LOOPED)
    alike, looping_heads = looping(graph.counts), looping(graph.counts, HEADS)
    return {
        ("edge softmax", "dgnn"): Kernel(*hit_rates(shuffled), resident(-(-targets // SHUFFLED), SHUFFLED * SHUFFLE), LANES,
                                         shuffling(graph.counts, SHUFFLE)[0]),
        ("edge softmax", "fast"): Kernel(*hit_rates(looped), resident(-(-targets // LOOPED), LOOPED * HEADS), looping_heads, looping_heads),
        ("aggregation", "fastgl"): Kernel(*hit_rates(nodes), resident(-(-targets // AT_ONCE), BLOCK), alike, alike),
        ("aggregation", "fast"): Kernel(*hit_rates(each), resident(-(-edges // AT_ONCE), BLOCK), apiece(edges), apiece(edges)),
    }  # fmt: skip


def of_operators(point: StudyPoint) -> dict[str, Any]:
    """Return the size of a data set's largest sampled subgraph and its modelled kernels, what a point of FAST's Tables 2 and 5 gives.

    `targets`, `edges`, and `kernels`: 'operator, whose' -> fields of `Kernel`.
    """
    graph = largest(epoch_of(point))
    by_name = {", ".join(name): kernel._asdict() for name, kernel in kernels(graph).items()}
    return {"targets": graph.counts.size, "edges": graph.source.size, "kernels": by_name}
