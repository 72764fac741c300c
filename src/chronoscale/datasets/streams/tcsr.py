"""T-CSR (temporal CSR): the events of every node in their order (TGL, Zhou et al., VLDB 2022, section 4.1), from which neighbours are
sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.format import open_memmap

from chronoscale.cuda_ext.sampling import temporal
from chronoscale.cuda_ext.sampling.temporal import Policy, SampledNeighbors
from chronoscale.datasets.archive import read_array
from chronoscale.datasets.arrays import Int32, Int64, require
from chronoscale.datasets.atomic import atomic_folder
from chronoscale.datasets.streams import draws
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError

BLOCK = 1 << 20  # events that are read at a time


class Hop(NamedTuple):
    """Neighbours that a T-CSR sampled in one hop, and the roots that they were sampled for: node int32 [R], and the event before which each
    looked, int32 [R]."""

    node: Int32
    before: Int32
    sampled: SampledNeighbors


@dataclass(frozen=True, slots=True, eq=False)
class TCSR:
    """Temporal CSR of an event stream, in which samplers find a node's neighbours (TGL §4.1): row v holds the events of node v, ascending:
    entries indptr[v] to indptr[v + 1] - 1.

    indptr int64 [N + 1]; neighbor int32 [K], the node at the other end; event int32 [K], the event's number in the stream, which orders
    events of one time. Exact: every event of a node is there. Arrays may be memory-mapped; that events ascend within a row is not checked.
    Raises UserError when sizes or dtypes do not fit.
    """

    indptr: Int64
    neighbor: Int32
    event: Int32

    def __post_init__(self) -> None:
        require(self.indptr, "TCSR.indptr", "int64", (None,))
        require(self.neighbor, "TCSR.neighbor", "int32", (None,))
        require(self.event, "TCSR.event", "int32", (self.neighbor.size,))
        whole = self.indptr.size > 0 and self.indptr[0] == 0 and self.indptr[-1] == self.neighbor.size
        if not whole or (self.indptr[1:] < self.indptr[:-1]).any():
            raise UserError(f"TCSR.indptr must ascend from 0 to {self.neighbor.size}, the number of entries")

    @property
    def num_nodes(self) -> int:
        return self.indptr.size - 1

    @classmethod
    def of(cls, stream: EventStream, both: bool = True, folder: Path | None = None) -> TCSR:
        """Build the T-CSR of an event stream. both: a node's row holds the events that it sends and those that it receives, else only those
        that it sends.

        O(M), two passes. With a new folder its arrays are files there, written completely or not at all, and mapped: beyond them memory is
        O(N) and a block of events, however long the stream. Raises UserError for 2^31 events or more, and for a folder that exists.
        """
        if len(stream) >= 2**31:
            raise UserError(f"a T-CSR numbers events in 32 bits: {len(stream):,} events are too many")
        indptr = np.zeros(stream.num_nodes + 1, np.int64)
        blocks = [slice(at, at + BLOCK) for at in range(0, len(stream), BLOCK)]
        for block in blocks:
            temporal.count(stream.src[block], stream.dst[block], both, indptr[1:])
        np.cumsum(indptr, out=indptr)

        def filled(neighbor: Int32, event: Int32) -> None:
            cursor = indptr[:-1].copy()
            for block in blocks:
                temporal.fill(stream.src[block], stream.dst[block], block.start, both, cursor, neighbor, event)

        entries = (int(indptr[-1]),)
        if folder is None:
            tcsr = cls(indptr, np.empty(entries, np.int32), np.empty(entries, np.int32))
            filled(tcsr.neighbor, tcsr.event)
            return tcsr
        with atomic_folder(folder) as draft:
            np.save(draft / "indptr.npy", indptr)
            filled(*(open_memmap(draft / f"{name}.npy", "w+", np.int32, entries) for name in ("neighbor", "event")))
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> TCSR:
        """Map a T-CSR from the folder that `TCSR.of` wrote. Raises UserError naming a file that is missing or damaged."""
        return cls(*(read_array(folder / f"{name}.npy", mmap=True) for name in ("indptr", "neighbor", "event")))

    def sample(
        self,
        node: Int32,
        before: Int32,
        fanout: int,
        policy: Policy = "recent",
        seed: int = 0,
        threads: int = 0,
        since: Int32 | None = None,
    ) -> SampledNeighbors:
        """Sample up to `fanout` neighbours of each root: node int32 [R], among its events from `since` (int32 [R]; None: 0) to below
        `before` (int32 [R]); recent or uniform.

        For the events of a batch that begins with event b, `before` is b: no event of the batch itself is seen. For a neighbour that was
        sampled, it is the event that it was sampled with. Both bounds: the events of a window of time. seed: of uniform draws; threads: of
        the sampler; 0: those that are bound, else as many as are allowed. Raises UserError for what `cuda_ext.sampling.temporal.sample`
        refuses.
        """
        return temporal.sample((self.indptr, self.neighbor, self.event), node, before, fanout, policy, seed, threads, since)

    def hops(
        self,
        node: Int32,
        before: Int32,
        fanouts: Sequence[int],
        policy: Policy = "recent",
        seed: int = 0,
        threads: int = 0,
        since: Int32 | None = None,
    ) -> list[Hop]:
        """Sample several hops of neighbours of roots, node int32 [R] before event `before` int32 [R], one for each of the fanouts. The
        roots of the second hop are the slots of the first, in order, those without a neighbour -1.

        `since` [R] is the lower bound of a root's neighbours and of theirs. Each hop of each seed draws by a key of its own. Raises as
        `sample`, and UserError for a seed below 0 or above 2^128 - 1.
        """
        hops: list[Hop] = []
        for hop, fanout in enumerate(fanouts):
            sampled = self.sample(node, before, fanout, policy, draws.derive_key(seed, hop), threads, since)
            hops.append(Hop(node, before, sampled))
            node, before = sampled.neighbor.ravel(), sampled.event.ravel()
            since = None if since is None else since.repeat(fanout)
        return hops
