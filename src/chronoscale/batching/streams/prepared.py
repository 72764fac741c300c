"""Prepared: a stream as a trainer reads it, split, indexed and with its evaluation's negatives, made once and then mapped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import numpy as np

from chronoscale.batching.streams.caching.loading import Cached, Frequencies, Loading
from chronoscale.batching.streams.caching.residents import NOTHING, Residents
from chronoscale.batching.streams.counts import AGAIN, Counts
from chronoscale.batching.streams.ranks.assignment import Deal
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood, Sampling
from chronoscale.batching.streams.sampling.presampling import Others, different, frequencies, sampled
from chronoscale.batching.streams.sampling.source import Source
from chronoscale.batching.streams.statistics import BatchStatistics, counted
from chronoscale.datasets import store
from chronoscale.datasets.archive import read_archive
from chronoscale.datasets.archive import whole as written
from chronoscale.datasets.arrays import Bool, Int32, Int64
from chronoscale.datasets.streams import draws, negatives
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.labels import require_labels
from chronoscale.datasets.streams.negatives import Negatives
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.datasets.streams.spans import Events, behind, rows_of
from chronoscale.datasets.streams.splits import Split, by_time, hide
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError
from chronoscale.records import read_array, read_json, reading

META, TRAINING, NEW, WORK = "prepared.json", "training", "new.npy", "work"
NUMBERS = "numbers.npy"  # in TRAINING: of its events in the whole stream
UNREAD = Loading()  # no rows of features
Counted = TypeVar("Counted", bound=Counts)


@dataclass(frozen=True, slots=True)
class Meta:
    """META. `stream`: the folder of the events, relative to this one, or absolute where it is the user's own."""

    stream: str
    protocol: Protocol


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """training: its events 0 .. `trained` - 1 are trained on; whole: all events, those of hidden nodes too. folder: where it is kept.

    made: what has been read or drawn, or counted without a folder.

    new bool [N]: nodes that training does not see. among int32 [D]: destinations that training's negatives are drawn from.
    """

    protocol: Protocol
    split: Split
    whole: Source
    training: Source
    trained: int
    new: Bool
    among: Int32
    folder: Path | None = None
    made: dict[str, Negatives | Counts | Cached] = field(default_factory=dict)

    @classmethod
    def of(cls, events: EventStream, protocol: Protocol) -> Prepared:
        """In memory. Raises UserError where the stream cannot be split, hidden nodes leave nothing to train on, or labels are missing."""
        split = by_time(events, protocol.train, protocol.validation)
        if protocol.task == "node":
            require_labels(events)
        hidden, whole = hide(events, split, protocol.hidden, protocol.seed), Source(events, TCSR.of(events))
        if not protocol.hidden:
            return cls._of(protocol, split, whole, whole, split.train_end, hidden.new)
        kept, numbers = _kept(events.span(0, split.train_end), hidden.training)
        return cls._of(protocol, split, whole, Source(kept, TCSR.of(kept), numbers), len(kept), hidden.new)

    @classmethod
    def make(cls, folder: Path, stream: Path, protocol: Protocol) -> Prepared:
        """In a new folder, of a stored stream (relative to the folder, or absolute). Raises UserError as `of`, and where `stream` holds
        something else."""
        (folder / WORK).mkdir(parents=True)
        events = _events(folder / stream)
        split = by_time(events, protocol.train, protocol.validation)
        if protocol.task == "node":
            require_labels(events)
        hidden = hide(events, split, protocol.hidden, protocol.seed)
        TCSR.of(events, folder=folder / "tcsr")
        np.save(folder / NEW, hidden.new)
        if protocol.hidden:
            kept, numbers = _kept(events.span(0, split.train_end), hidden.training)
            store.save(folder / TRAINING / "stream", kept)
            TCSR.of(kept, folder=folder / TRAINING / "tcsr")
            np.save(folder / TRAINING / NUMBERS, numbers)
        for what in _drawn(split, protocol):
            _negatives(events, split, protocol, what).save(folder / f"{what}.npz")
        (folder / META).write_text(json.dumps(asdict(Meta(str(stream), protocol))))
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> Prepared:
        """What `make` wrote, mapped. Raises UserError for a file that is missing or damaged."""
        meta = read_json(folder / META, Meta, "record of a prepared stream")
        events = _events(folder / meta.stream)
        split, whole = by_time(events, meta.protocol.train, meta.protocol.validation), Source(events, TCSR.load(folder / "tcsr"))
        training, trained = whole, split.train_end
        if (folder / TRAINING).exists():
            kept = _events(folder / TRAINING / "stream")
            numbers = read_array(folder / TRAINING / NUMBERS, np.int32, (len(kept),), "numbers of events")
            training, trained = Source(kept, TCSR.load(folder / TRAINING / "tcsr"), numbers), len(kept)
        new = read_array(folder / NEW, np.bool_, (events.num_nodes,), "mask of new nodes")
        return replace(cls._of(meta.protocol, split, whole, training, trained, new), folder=folder)

    @classmethod
    def _of(cls, protocol: Protocol, split: Split, whole: Source, training: Source, trained: int, new: Bool) -> Prepared:
        among = negatives.destinations(np.asarray(training.stream.dst[:trained]), whole.stream.num_nodes)
        return cls(protocol, split, whole, training, trained, new, among)

    def negatives_of_training(self, part: Events, epoch: int, seed: int = 0) -> Int32:
        """One destination an event that it is told from, [B, 1]; none for a task without: [B, 0]. `seed`: the training's."""
        if self.protocol.task == "node":
            return np.empty((len(part), 0), np.int32)
        dst = np.asarray(self.training.stream.dst[rows_of(part)])
        return negatives.of_training(dst, _numbers(part), self.among, seed=seed, epoch=epoch)

    def negatives(self, what: str) -> Negatives:
        """Fixed ones: "validation" and "test", one an event at random, and "ranked", those that test events are ranked against."""
        if what not in self.made:
            self.made[what] = self._fixed(what)
        found = self.made[what]
        assert isinstance(found, Negatives)
        return found

    def _fixed(self, what: str) -> Negatives:
        events, protocol = self.whole.stream, self.protocol
        if self.folder is None:
            return _negatives(events, self.split, protocol, what)
        part, k, kind = _drawn(self.split, protocol)[what]
        wanted = negatives.digest(events, self.split.train_end, part, k, kind, protocol.seed)
        return negatives.load(self.folder / f"{what}.npz", part, wanted)

    def deal(self, validates: bool, ranks: int, size: int, limit: int = 0, every: int = 1) -> Deal:
        """Batches of the training events, or of those that validate."""
        return Deal(self.split.validation if validates else range(self.trained), ranks, size, limit, every)

    def work(
        self, validates: bool, ranks: int, size: int, sampling: Sampling, limit: int = 0, every: int = 1, loading: Loading = UNREAD
    ) -> BatchStatistics:
        """Of a part's batches, as the first epoch of the protocol's seed draws them; counted once, then read."""
        deal = self.deal(validates, ranks, size, limit, every)
        return self.counted(
            f"{deal} {sampling} {loading}",
            deal.iterations * deal.ranks,
            BatchStatistics,
            lambda: self._count(deal, validates, sampling, self.residents(ranks, size, sampling, limit, loading)),
        )

    def counted(self, key: str, batches: int, kind: type[Counted], count: Callable[[], Counted]) -> Counted:
        """What was counted of so many batches under a key, read or counted now."""
        if self.folder is None:
            if key not in self.made:
                self.made[key] = count()
            found = self.made[key]
            assert isinstance(found, kind)
            return found
        path = self._work(key)
        if not path.exists():
            count().save(path)
        return kind.load(path, batches)

    def residents(self, ranks: int, size: int, sampling: Sampling, limit: int, loading: Loading) -> Residents:
        """What a device holds when training begins, by batches that are sampled before, of the first epoch of the protocol's seed: spread
        over all of it, whichever of its batches are probed."""
        nodes, events = self.whole.stream.num_nodes, len(self.whole.stream)
        cached = Cached(NOTHING, NOTHING)
        if loading.placement and loading.placement.dynamic:
            cached = loading.placement.fill(frequencies([], nodes, events), loading.room(nodes, events))
        elif loading.placement:
            key = f"{ranks} {size} {sampling} {limit} {loading}"
            cached = self._cached(key, lambda: self._fill(ranks, size, sampling, limit, loading))
        return Residents(loading, cached, nodes, events)

    def _cached(self, key: str, fill: Callable[[], Cached]) -> Cached:
        if self.folder is None:
            if key not in self.made:
                self.made[key] = fill()
            found = self.made[key]
            assert isinstance(found, Cached)
            return found
        path = self._work(key)
        if not path.exists():
            with written(path) as file:
                np.savez(file, **fill()._asdict())
        with reading(path, "rows of a cache", AGAIN):
            return Cached(**read_archive(path))

    def _fill(self, ranks: int, size: int, sampling: Sampling, limit: int, loading: Loading) -> Cached:
        assert loading.placement is not None
        room = loading.room(self.whole.stream.num_nodes, len(self.whole.stream))
        return loading.placement.fill(self.seen(ranks, size, sampling, limit, loading.presample, loading.validated), room)

    def seen(self, ranks: int, size: int, sampling: Sampling, limit: int, presample: int, validated: bool = True) -> Frequencies:
        """What placements are filled by: in how many of `presample` batches of an epoch, or somewhat fewer, spread over it, each row is
        read. validated: whether an epoch ends with the events that validate."""
        deals = {validates: self.deal(validates, ranks, size, limit) for validates in (False, True)[: 1 + validated]}
        stride = max(-(-sum(deal.iterations for deal in deals.values()) // presample), 1)
        batches = (
            different(found, self._source(validates))
            for validates, deal in deals.items()
            for _, found in self.sampled(replace(deal, every=stride), validates, sampling)
        )
        return frequencies(batches, self.whole.stream.num_nodes, len(self.whole.stream))

    def _work(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / WORK / f"{sha256(key.encode()).hexdigest()[:16]}.npz"

    def _source(self, validates: bool) -> Source:
        return self.whole if validates else self.training

    def sampled(self, deal: Deal, validates: bool, sampling: Sampling) -> Iterator[tuple[int, Neighbourhood]]:
        """What the first epoch of the protocol's seed reads for a part's batches, each with its number in the deal."""
        return sampled(self._source(validates), deal, sampling, *self._draws(validates))

    def _count(self, deal: Deal, validates: bool, sampling: Sampling, resident: Residents) -> BatchStatistics:
        return counted(self._source(validates), deal, sampling, *self._draws(validates), resident)

    def _draws(self, validates: bool) -> tuple[Others, int]:
        """What events are told from, and the seed of neighbours, in the first epoch."""
        return self.told_from(validates, 0, self.protocol.seed), draws.key_of(self.protocol.seed, draws.FIXED if validates else 0)

    def told_from(self, validates: bool, epoch: int, seed: int) -> Others:
        """Of a part, the nodes that the events of a batch are told from, as nodes to read."""
        if self.protocol.task == "node":
            return lambda part: np.empty((len(part), 0), np.int32)
        if not validates:
            return lambda part: self.negatives_of_training(part, epoch, seed)
        fixed, first = self.negatives("validation").dst, self.split.validation.start
        return lambda part: present(fixed[rows_of(behind(part, first))])


def present(destinations: Int32) -> Int32:
    """Negatives as nodes to read: where there is none, -1, some node; what it scores does not count."""
    return np.maximum(destinations, 0)


def _drawn(split: Split, protocol: Protocol) -> dict[str, tuple[range, int, negatives.Kind]]:
    """Negatives that a protocol fixes, by what they are for: events, how many each has, of what kind."""
    if protocol.task == "node":
        return {}
    return {
        "validation": (split.validation, 1, "random"),
        "test": (split.test, 1, "random"),
        "ranked": (split.test, protocol.ranked, protocol.kind),
    }


def _negatives(events: EventStream, split: Split, protocol: Protocol, what: str) -> Negatives:
    part, k, kind = _drawn(split, protocol)[what]
    return negatives.of_evaluation(events, split.train_end, part, k, kind, protocol.seed)


def _events(folder: Path) -> EventStream:
    found = store.load(folder)
    if not isinstance(found, EventStream):
        raise UserError(f"{folder}: not a stream of events, which this experiment's model trains on")
    return found


def _kept(events: EventStream, chosen: Bool) -> tuple[EventStream, Int32]:
    """Some of the events, under numbers of their own, and those that they had, int32."""
    columns = {name: getattr(events, name)[chosen] for name in ("src", "dst", "t")}
    features = None if events.features is None else events.features[chosen]
    labels = None if events.labels is None else events.labels[chosen]
    return replace(events, **columns, features=features, labels=labels), np.flatnonzero(chosen).astype(np.int32)


def _numbers(part: Events) -> Int64:
    return np.arange(part.start, part.stop, dtype=np.int64) if isinstance(part, range) else part
