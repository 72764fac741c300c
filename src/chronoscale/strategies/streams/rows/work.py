"""The work of a forward pass through the parts of a model of event streams, as `real_exec.streams.models` does it.

Each function gives the floating-point operations of the matrix products, exactly, and the bytes moved were nothing cached between two
operations; counts of rows may be arrays. A query attends to K slots of width X by weights that are applied to the query and to what it
gets, not to the slots: see `models.attention`.
"""

from __future__ import annotations

from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.streams.kinds.operations import Count, no_work, passes, product, total
from chronoscale.strategies.streams.models import StreamShape, stream_kind


def update_work(shape: StreamShape, rows: Count) -> tuple[Ints, Ints]:
    """Count flops and bytes of updating the memory of `rows` graph nodes (MEMORY_UPDATE rows of plans), int64, of the shape of `rows`; 0
    for a model without memory."""
    read = no_work(rows)
    if shape.memory and shape.features:
        read = total(product(rows, shape.features, shape.hidden), passes(rows * shape.hidden, 2))
    return total(read, stream_kind(shape.name).update(shape, rows)).counted


def layer_work(shape: StreamShape, layer: int, targets: Count, fanout: int, edges: Count | None = None) -> tuple[Ints, Ints]:
    """Count flops and bytes of one layer over sampled neighbours (AGGREGATE rows of plans), layer `layer` (0-based), for `targets` nodes
    with `fanout` slots each; int64.

    edges: slots that are filled, for attention edge by edge; None: it goes over all slots.
    """
    return stream_kind(shape.name).layer(shape, layer, targets, fanout, edges).counted


def embed_work(shape: StreamShape, roots: Count) -> tuple[Ints, Ints]:
    """Count flops and bytes of what a model does to `roots` nodes after its last layer (part of FORWARD rows of plans); int64."""
    return total(no_work(roots), stream_kind(shape.name).embed(shape, roots)).counted


def class_work(shape: StreamShape, sources: Count) -> tuple[Ints, Ints]:
    """Count flops and bytes of classifying `sources` nodes (part of FORWARD rows of plans); int64."""
    hidden = shape.hidden
    return total(product(sources, hidden, hidden), passes(sources * hidden, 2), product(sources, hidden, shape.outputs)).counted


def score_work(shape: StreamShape, pairs: Count, sources: Count | None = None) -> tuple[Ints, Ints]:
    """Count flops and bytes of scoring `pairs` candidate links (part of FORWARD rows of plans) that start from `sources` different nodes
    (None: one a pair); int64."""
    return stream_kind(shape.name).score(shape, pairs, pairs if sources is None else sources).counted
