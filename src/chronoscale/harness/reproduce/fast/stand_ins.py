"""Stand-ins: the generated streams of FAST's data sets, and the redundancy of what is sampled for their batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.redundancy import BATCH, Redundancy, measure_redundancy
from chronoscale.datasets import catalogue
from chronoscale.datasets.generate.sessions import SessionStream
from chronoscale.datasets.streams.tcsr import TCSR

NAMES = ("lastfm", "wikitalk", "bitcoin", "gdelt")
MOST, BATCHES = 8_000_000, 200  # events that are generated; batches that are sampled, and as many after them
QUICK, QUICK_BATCHES = 400_000, 40


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """A stand-in as it was generated: `events` of `whole`, at the same pace."""

    events: int
    whole: int
    nodes: int
    batches: int
    found: Redundancy

    @property
    def part(self) -> str:
        """Which part this is, for a reader; nothing of the whole."""
        return "" if self.events == self.whole else f"{self.events:,} of {self.whole:,} events"


def stand_in(dataset: str) -> SessionStream:
    """The generator of what stands for a data set."""
    made = catalogue.load_generator(f"{dataset}_like")
    assert isinstance(made, SessionStream)
    return made


@cache
def sampled(dataset: str, quick: bool) -> Sampled:
    """Generated, indexed and sampled; once. Quick: shortened, but for LastFM's, whose nodes come and go over all of it."""
    whole = stand_in(dataset)
    most = QUICK if quick and not whole.items else MOST
    made = whole.shortened(most) if len(whole) > most else whole
    events = made.stream()
    batches = QUICK_BATCHES if quick else BATCHES
    deal = BatchAssignment(range(len(events)), 1, BATCH, every=max(len(events) // BATCH // batches, 1))
    return Sampled(len(made), len(whole), made.nodes, deal.iterations, measure_redundancy(IndexedStream(events, TCSR.of(events)), deal))
