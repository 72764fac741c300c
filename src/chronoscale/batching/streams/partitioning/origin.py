"""Origin: how parts were made, as a line that tells them from all others."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from chronoscale.batching.streams.partitioning.request import BLOCK
from chronoscale.datasets.arrays import release
from chronoscale.datasets.streams.events import EventStream


def origin(stream: EventStream, policy: str, count: int, shared: float, decay: float, seed: int, trained: int | None) -> str:
    """Policy, settings and the stream's SHA-256: parts of the same line are the same, but for METIS's, of which two calls may differ."""
    degrees = "all" if trained is None else f"the first {trained}"
    return (
        f"{policy}, {count} parts, shared {shared!r}, decay {decay!r}, seed {seed}, degrees of {degrees} events, stream {content(stream)}"
    )


def content(stream: EventStream) -> str:
    """SHA-256 of the nodes' number and of all events, in blocks."""
    found = sha256(f"{stream.num_nodes} {len(stream)} {stream.t.dtype}\n".encode())
    for column in (stream.src, stream.dst, stream.t):
        for begin in range(0, len(stream), BLOCK):
            found.update(np.ascontiguousarray(column[begin : begin + BLOCK]).data)
            release(column)
    return found.hexdigest()
