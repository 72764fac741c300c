"""Kernels: threads, warps and cache hits of aggregation and edge softmax on an A100, counted and modelled (Tables 2 and 5)."""

from __future__ import annotations

from typing import Any, NamedTuple

from chronoscale.harness.study.hooks.fast_epochs import WIDTH, Subgraph, epoch_of, largest
from chronoscale.harness.study.hooks.fast_reuse import by_edge, by_node, hit_rates, softmax_looping, softmax_shuffling
from chronoscale.harness.study.hooks.fast_warps import A100, LANES, Gpu, apiece, looping, resident, shuffling
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


def kernels(graph: Subgraph, gpu: Gpu = A100, warm: bool = False) -> dict[tuple[str, str], Kernel]:
    """Model aggregation and edge softmax on an A100 by counting, for FAST's Tables 2 and 5.

    By (operator, whose: 'dgnn', 'fast' or 'fastgl'). warm: whether L2 has the scores of edge softmax, which the kernel before has written.
    """
    targets, edges = graph.counts.size, graph.source.size
    nodes, each = by_node(graph, WIDTH, AT_ONCE), by_edge(graph, WIDTH, AT_ONCE)
    shuffled, looped = softmax_shuffling(graph, HEADS, SHUFFLED, SHUFFLE), softmax_looping(graph, HEADS, LOOPED)
    alike, looping_heads = looping(graph.counts), looping(graph.counts, HEADS)
    scores = [hit_rates(reads, gpu, warm) for reads in (shuffled, looped)]
    blocks = [
        resident(-(-count // apart), threads, gpu)
        for count, apart, threads in (
            (targets, SHUFFLED, SHUFFLED * SHUFFLE),
            (targets, LOOPED, LOOPED * HEADS),
            (targets, AT_ONCE, BLOCK),
            (edges, AT_ONCE, BLOCK),
        )
    ]
    return {
        ("edge softmax", "dgnn"): Kernel(*scores[0], blocks[0], LANES, shuffling(graph.counts, SHUFFLE)[0]),
        ("edge softmax", "fast"): Kernel(*scores[1], blocks[1], looping_heads, looping_heads),
        ("aggregation", "fastgl"): Kernel(*hit_rates(nodes, gpu), blocks[2], alike, alike),
        ("aggregation", "fast"): Kernel(*hit_rates(each, gpu), blocks[3], apiece(edges), apiece(edges)),
    }  # fmt: skip


def of_operators(point: StudyPoint) -> dict[str, Any]:
    """Return the size of a data set's largest sampled subgraph and its modelled kernels, what a point of FAST's Tables 2 and 5 gives.

    `targets`, `edges`, and `kernels`: 'operator, whose' -> fields of `Kernel`. Settings of the point: `most` events; `warps` that an SM
    holds and bytes of its L1, `l1`, in place of an A100's; `warm`, as of `kernels`.
    """
    graph = largest(epoch_of(point))
    gpu = Gpu(warps=point.setting("warps", A100.warps), l1=point.setting("l1", A100.l1))
    by_name = {", ".join(name): kernel._asdict() for name, kernel in kernels(graph, gpu, point.setting("warm", False)).items()}
    return {"targets": graph.counts.size, "edges": graph.source.size, "kernels": by_name}
