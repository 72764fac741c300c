"""FAST's epochs: a data set as TGAT trains on it, what each batch reads, and the edges that operators sum over in the largest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood, Sampling
from chronoscale.batching.streams.sampling.redundancy import BATCH, FANOUT
from chronoscale.cuda_ext.sampling.unique_ids import unique_ids
from chronoscale.datasets import catalogue
from chronoscale.datasets.arrays import Int32, Int64
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.errors import UserError
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.testbeds.host_streams import prepared, stand_in

SAMPLING = Sampling((FANOUT, FANOUT), unique=False)  # FAST §6.1; a row a slot, as TGL has it
WIDTHS = {"wikitalk": 172, "bitcoin": 172}  # Table 3
WIDTH = 128  # of real data, whose own features are none or a few, and of operators
PRINTED = ("lastfm", "wikitalk", "bitcoin", "gdelt")
LAST = 5  # batches, of which the largest is taken: late in a stream nodes have more neighbours


class Asked(NamedTuple):
    """Rows that a batch reads of one feature table, for the counts of FAST's Figure 8: each row once, and how often each is read.

    once, int32 [U]: ids of the rows. times, int64 [U]: how often.
    """

    once: Int32
    times: Int64

    @classmethod
    def of(cls, ids: Int32) -> Asked:
        """Count how often each row is read. ids: int32 [n], with repetitions."""
        once, place = unique_ids(ids)
        return cls(once, np.bincount(place, minlength=once.size))


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """Edges of one sampled hop, grouped by target, that FAST's operators sum over (Figures 2 and 9, Tables 2 and 5).

    counts int64 [T]: edges of each target, in order. source int64 [E]: index of the row, of `rows` different ones, that each edge begins
    at.
    """

    counts: Int64
    source: Int64
    rows: int

    @property
    def indptr(self) -> Int64:
        """Return int64 [T + 1]: edges of target v are indptr[v] to indptr[v + 1]."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @property
    def target(self) -> Int64:
        """Return the target of each edge, int64 [E], ascending."""
        return np.repeat(np.arange(self.counts.size), self.counts)


@dataclass(frozen=True, slots=True, eq=False)
class Epoch:
    """Training batches of TGAT on a data set, of which FAST's studies count reads and edges.

    name: of the data set. whole: events of the full data set, of which `data` may be a part. deal: which events each batch has. width:
    features a row.
    """

    name: str
    whole: int
    data: PreparedStream
    deal: BatchAssignment
    width: int

    @property
    def part(self) -> str:
        """Return in words which part of the data set a study counts, such as '1,000 of 9,000 events'; '' for the whole."""
        events = len(self.data.whole.stream)
        return "" if events == self.whole else f"{events:,} of {self.whole:,} events"

    @property
    def sizes(self) -> tuple[int, int]:
        """Return how many rows the tables of node features and of event features have, for the room of caches in FAST's studies."""
        return self.data.whole.stream.num_nodes, len(self.data.whole.stream)

    def neighbourhoods(self) -> Iterator[Neighbourhood]:
        """Yield the sampled neighbourhood of every training batch, in order, for the counts of FAST's studies."""
        return (batch for _, batch in self.data.sample_batches(self.deal, False, SAMPLING))

    def last(self) -> tuple[range, Neighbourhood]:
        """Return the events of the last whole training batch and its sampled neighbourhood, which FAST's studies time."""
        size, stop = self.deal.size, self.deal.part.start + len(self.deal.part) // self.deal.size * self.deal.size
        events = range(stop - size, stop)
        ((_, batch),) = self.data.sample_batches(BatchAssignment(events, 1, size), False, SAMPLING)
        return events, batch

    def batches(self) -> Iterator[tuple[Asked, Asked]]:
        """Yield which rows every batch reads of the table of node features and of the table of event features."""
        for batch in self.neighbourhoods():
            yield Asked.of(batch.nodes), Asked.of(self.data.training.original(batch.edges))


@lru_cache(maxsize=2)
def epoch(dataset: str, most: int) -> Epoch:
    """Return the training batches of TGAT that a study of FAST counts or times, on a generated stand-in or on real data.

    dataset: one of FAST's data sets, which are generated, or of another of the catalogue. most: events at most. Raises UserError where real
    data are not at hand.
    """
    if dataset in PRINTED:
        return of(dataset, prepared(dataset, most), len(stand_in(dataset)))
    events = catalogue.load(dataset)
    if not isinstance(events, EventStream):
        raise UserError(f"dataset '{dataset}': expected a stream of events")
    return of(dataset, PreparedStream.of(events.span(0, min(most, len(events))), Protocol()), len(events))


def of(dataset: str, data: PreparedStream, whole: int = 0, batch: int = BATCH) -> Epoch:
    """Return the training batches of TGAT on a stream split by time, for FAST's studies.

    dataset: its name. whole: events of the full one, 0: those of `data`. batch: events a batch.
    """
    return Epoch(dataset, whole or len(data.whole.stream), data, data.assignment(False, 1, batch), WIDTHS.get(dataset, WIDTH))


def epoch_of(point: StudyPoint) -> Epoch:
    """Return the training batches of TGAT at a point of FAST's studies, on at most as many events as its setting `most`."""
    return epoch(point.dataset, point.setting("most"))


def outer(batch: Neighbourhood) -> Subgraph:
    """Return the edges of a batch's outermost hop, which has most of them, for FAST's modelled and timed operators (§5).

    A row stands for each different source.
    """
    tree = batch.trees[0]
    hop = tree.hops[-1]
    once, place = unique_ids(batch.nodes[tree.levels[-1][hop.slot[hop.there]]])
    return Subgraph(np.count_nonzero(hop.there, 1).astype(np.int64), place, once.size)


def largest(batches: Epoch) -> Subgraph:
    """Return the edges of FAST §6.3's "largest sampled subgraph", for Figures 2 and 9 and Tables 2 and 5.

    It is the outermost hop with most edges among the last `LAST` batches.
    """
    part, size = batches.deal.part, batches.deal.size
    deal = BatchAssignment(range(max(part.stop - LAST * size, part.start), part.stop), 1, size)
    return max((outer(batch) for _, batch in batches.data.sample_batches(deal, False, SAMPLING)), key=lambda graph: graph.source.size)
