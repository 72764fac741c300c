"""Divide: a stream into parts."""

from __future__ import annotations

from functools import partial
from math import isfinite
from pathlib import Path

import numpy as np

from chronoscale.batching.streams.partitioning.origin import origin
from chronoscale.batching.streams.partitioning.partition import EVENT, Parts
from chronoscale.batching.streams.partitioning.policies import partitioner
from chronoscale.batching.streams.partitioning.request import Asked, elapsed
from chronoscale.batching.streams.partitioning.shared_nodes import hottest
from chronoscale.datasets.arrays import Int32
from chronoscale.datasets.draft import drafted
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError


def divide(
    stream: EventStream,
    count: int,
    policy: str = "shared-nodes",
    shared: float = 0.0,
    decay: float | None = None,
    seed: int = 0,
    trained: int | None = None,
    folder: Path | None = None,
) -> Parts:
    """A stream into `count` parts (MemShare §3.2, §5.4): every event in one, every node in one, but for those that are shared.

    policy: a name of `PARTITIONERS`. shared: the share of the nodes that all parts have, those of highest degree among the first `trained`
    events (`hottest`). decay: δ of eq. 8, by the stream's unit of time; None: 1 / (last time - first time). The paper has 1 / (last time),
    with times as they come: of seconds since 1970 no event would fade. seed: of what is random.

    folder: results are files there, whole or not at all, and mapped: beyond them memory is a block of events and what the partitioner
    carries, however long the stream. What a folder has already is read, and refused where it is of another stream or other settings.
    Raises UserError for what does not fit, MachineError where METIS fails.
    """
    cut = partitioner(policy)
    if count < 1:
        raise UserError(f"parts: expected at least 1, got {count}")
    if decay is not None and not (decay >= 0 and isfinite(decay)):
        raise UserError(f"decay: expected a number of at least 0, got {decay}")
    mask = hottest(stream, shared, trained)
    if count > (left := mask.size - int(mask.sum())):
        raise UserError(
            f"{count} parts of '{stream.name}': only {left} of its {mask.size} nodes are not shared; expected at most as many parts"
        )
    fading = default_decay(stream) if decay is None else decay
    asked, made = Asked(stream, count, mask, fading, seed), origin(stream, policy, count, shared, fading, seed, trained)
    if folder is None:
        event = np.empty(len(stream), np.int32)
        return Parts(cut(asked, partial(_fill, event, [0])), event, count, made)
    if not folder.exists():
        with drafted(folder) as draft:
            with (draft / EVENT).open("wb") as file:
                header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.int32)), "fortran_order": False, "shape": (len(stream),)}
                np.lib.format.write_array_header_1_0(file, header)
                node = cut(asked, lambda part: part.tofile(file))
            Parts.record(draft, node, len(stream), count, made)
    return Parts.load(folder, made)


def default_decay(stream: EventStream) -> float:
    """1 / (last time - first time), 0 where all are one."""
    span = float(elapsed(stream, slice(-1, None))[0]) if len(stream) else 0.0
    return 1 / span if span > 0 else 0.0


def _fill(event: Int32, at: list[int], part: Int32) -> None:
    event[at[0] : at[0] + part.size] = part
    at[0] += part.size
