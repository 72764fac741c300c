"""R-MAT generator of a static graph with skewed degrees, by recursive choice of a quadrant of the adjacency matrix."""

from __future__ import annotations

from itertools import count

import numpy as np

from chronoscale.datasets.arrays import Int32, Int64, require_num_nodes
from chronoscale.datasets.snapshots import edge_keys
from chronoscale.errors import UserError

QUADRANTS = (0.57, 0.19, 0.19, 0.05)  # the Graph500 choice


def rmat(num_nodes: int, num_edges: int, seed: int, skew: float = QUADRANTS[0]) -> tuple[Int32, Int32]:
    """Generate a static graph with skewed degrees (R-MAT: Chakrabarti et al., 2004): edges (src, dst), int32 [num_edges] each, sorted by
    (dst, src), distinct, without self-edges.

    `skew` is the weight of the first quadrant of the adjacency matrix, from 0.25 (even) upward; the others share the remainder as
    Graph500's do. Raises UserError for more than a quarter of all pairs: the skew makes the others too rare to draw.
    """
    require_num_nodes(num_nodes)
    if not 0.25 <= skew < 1:
        raise UserError(f"rmat: expected a skew of 0.25 to 1, got {skew}")
    if not 0 < num_edges <= num_nodes * (num_nodes - 1) // 4:
        raise UserError(f"rmat: expected 1..{num_nodes * (num_nodes - 1) // 4} edges for {num_nodes} nodes, got {num_edges}")
    rng = np.random.default_rng(seed)
    keys: Int64 = np.zeros(0, dtype=np.int64)
    for rounds in count():
        if keys.size >= num_edges:
            break
        spare = min(64 << max(rounds - 8, 0), num_edges)  # where the skew has left only rare edges, few draws are new
        candidates = np.unique(_draw(num_nodes, int((num_edges - keys.size) * 1.5) + spare, skew, rng))
        keys = edge_keys.merge(keys, candidates[~edge_keys.contains(keys, candidates)])
    if keys.size > num_edges:
        keys = np.sort(rng.choice(keys, num_edges, replace=False, shuffle=False))
    return edge_keys.unpack(keys)


def _draw(num_nodes: int, edges: int, skew: float, rng: np.random.Generator) -> Int64:
    remainder = (1 - skew) / (1 - QUADRANTS[0])
    a = skew
    b = QUADRANTS[1] * remainder
    c = QUADRANTS[2] * remainder
    src, dst = np.zeros(edges, dtype=np.int64), np.zeros(edges, dtype=np.int64)
    for _ in range((num_nodes - 1).bit_length()):
        u = rng.random(edges, dtype=np.float32)
        src = src * 2 + (u >= a + b)
        dst = dst * 2 + (((u >= a) & (u < a + b)) | (u >= a + b + c))
    inside = (src < num_nodes) & (dst < num_nodes) & (src != dst)
    return edge_keys.pack(src[inside], dst[inside])
