"""Epochs: a data set as TGAT trains on it, and what each of its batches reads; sampled alike for all that is counted on it."""

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
from chronoscale.harness.study.hooks.fast import MOST, NAMES, QUICK, stand_in

SAMPLING = Sampling((FANOUT, FANOUT), unique=False)  # FAST §6.1; a row a slot, as TGL has it
WIDTHS = {"wikitalk": 172, "bitcoin": 172}  # Table 3
WIDTH = 128  # of real data, whose own features are none or a few, and of operators
REAL = ("us_flights_2001", "jodie_wikipedia")


class Asked(NamedTuple):
    """Of one table, the different rows that a batch reads, int32 [U], and how often each, int64 [U]."""

    once: Int32
    times: Int64

    @classmethod
    def of(cls, ids: Int32) -> Asked:
        """Of rows ids [n]."""
        once, place = unique_ids(ids)
        return cls(once, np.bincount(place, minlength=once.size))


@dataclass(frozen=True, slots=True, eq=False)
class Epoch:
    """`events` of `whole`; the training batches that `deal` deals."""

    name: str
    whole: int
    data: PreparedStream
    deal: BatchAssignment
    width: int

    @property
    def part(self) -> str:
        """Which part of the data set this is, for a reader; nothing of the whole."""
        events = len(self.data.whole.stream)
        return "" if events == self.whole else f"{events:,} of {self.whole:,} events"

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows of the tables of nodes and of events."""
        return self.data.whole.stream.num_nodes, len(self.data.whole.stream)

    def neighbourhoods(self) -> Iterator[Neighbourhood]:
        """Of every batch, in their order."""
        return (found for _, found in self.data.sample_batches(self.deal, False, SAMPLING))

    def last(self) -> tuple[range, Neighbourhood]:
        """Events of the last whole batch, and what it reads."""
        size, stop = self.deal.size, self.deal.part.start + len(self.deal.part) // self.deal.size * self.deal.size
        events = range(stop - size, stop)
        ((_, found),) = self.data.sample_batches(BatchAssignment(events, 1, size), False, SAMPLING)
        return events, found

    def batches(self) -> Iterator[tuple[Asked, Asked]]:
        """Of every batch what it reads of nodes and of events."""
        for found in self.neighbourhoods():
            yield Asked.of(found.nodes), Asked.of(self.data.training.original(found.edges))


@lru_cache(maxsize=2)
def epoch(name: str, most: int = MOST) -> Epoch:
    """A stand-in, or real data of the catalogue, cut or generated to `most` events. Raises UserError where real data are not at hand."""
    if name in NAMES:
        made = stand_in(name)
        whole, events = len(made), (made.shortened(most) if len(made) > most else made).stream()
    else:
        found = catalogue.load(name)
        if not isinstance(found, EventStream):
            raise UserError(f"dataset '{name}': expected a stream of events")
        whole, events = len(found), found.span(0, min(most, len(found)))
    return of(name, events, whole)


def of(name: str, events: EventStream, whole: int = 0, batch: int = BATCH) -> Epoch:
    """Of a stream, split as training splits it."""
    data = PreparedStream.of(events, Protocol())
    return Epoch(name, whole or len(events), data, data.assignment(False, 1, batch), WIDTHS.get(name, WIDTH))


def most(quick: bool, name: str = "") -> int:
    """Events that are looked at; all of a stand-in whose nodes come and go over all of it."""
    return QUICK if quick and not (name in NAMES and stand_in(name).items) else MOST
