"""Prepared stream: split, indexed and with its evaluation's negatives, as a trainer reads it; made once and then mapped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import numpy as np

from chronoscale.batching.streams.caching.loading import CachedRows, Loading, RowFrequencies
from chronoscale.batching.streams.caching.resident_rows import NO_ROWS, ResidentRows
from chronoscale.batching.streams.counts import AGAIN, BatchCounts
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood, Sampling
from chronoscale.batching.streams.sampling.presampling import BatchNegatives, count_rows, distinct_rows, sample_batches
from chronoscale.batching.streams.statistics import BatchStatistics, count_batches
from chronoscale.datasets import store
from chronoscale.datasets.archive import read_archive
from chronoscale.datasets.arrays import Bool, Int32, Int64
from chronoscale.datasets.atomic import atomic_file as written
from chronoscale.datasets.streams import draws, negatives
from chronoscale.datasets.streams.event_numbers import EventNumbers, relative_to, row_index
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.labels import require_labels
from chronoscale.datasets.streams.negatives import Negatives
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.datasets.streams.splits import EventSplit, hide_nodes, split_by_time
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError
from chronoscale.records import read_array, read_json, reading

META, TRAINING, NEW, WORK = "prepared.json", "training", "new.npy", "work"
NUMBERS = "numbers.npy"  # in TRAINING: of its events in the whole stream
NO_FEATURES = Loading()  # no rows of features
CountsType = TypeVar("CountsType", bound=BatchCounts)


@dataclass(frozen=True, slots=True)
class PreparedMetadata:
    """Metadata of a prepared stream (the file META). `stream`: the folder of the events, relative to this one, or absolute where it is the
    user's own."""

    stream: str
    protocol: Protocol


@dataclass(frozen=True, slots=True, eq=False)
class PreparedStream:
    """training: its events 0 .. `trained` - 1 are trained on; whole: all events, those of hidden nodes too. folder: where it is kept.

    made: what has been read or drawn, or counted without a folder.

    new bool [N]: nodes that training does not see. among int32 [D]: destinations that training's negatives are drawn from.
    """

    protocol: Protocol
    split: EventSplit
    whole: IndexedStream
    training: IndexedStream
    training_events: int
    new: Bool
    among: Int32
    folder: Path | None = None
    made: dict[str, Negatives | BatchCounts | CachedRows] = field(default_factory=dict)

    @classmethod
    def of(cls, events: EventStream, protocol: Protocol) -> PreparedStream:
        """Prepare a stream in memory. Raises UserError where it cannot be split, hidden nodes leave nothing to train on, or labels are
        missing."""
        split = split_by_time(events, protocol.train, protocol.validation)
        if protocol.task == "node":
            require_labels(events)
        hidden, whole = hide_nodes(events, split, protocol.hidden, protocol.seed), IndexedStream(events, TCSR.of(events))
        if not protocol.hidden:
            return cls._of(protocol, split, whole, whole, split.train_end, hidden.new)
        kept, numbers = _select_events(events.span(0, split.train_end), hidden.training)
        return cls._of(protocol, split, whole, IndexedStream(kept, TCSR.of(kept), numbers), len(kept), hidden.new)

    @classmethod
    def make(cls, folder: Path, stream: Path, protocol: Protocol) -> PreparedStream:
        """Prepare a stored stream in a new folder (relative to the folder, or absolute). Raises UserError as `of`, and where `stream` holds
        something else."""
        (folder / WORK).mkdir(parents=True)
        events = _load_events(folder / stream)
        split = split_by_time(events, protocol.train, protocol.validation)
        if protocol.task == "node":
            require_labels(events)
        hidden = hide_nodes(events, split, protocol.hidden, protocol.seed)
        TCSR.of(events, folder=folder / "tcsr")
        np.save(folder / NEW, hidden.new)
        if protocol.hidden:
            kept, numbers = _select_events(events.span(0, split.train_end), hidden.training)
            store.save(folder / TRAINING / "stream", kept)
            TCSR.of(kept, folder=folder / TRAINING / "tcsr")
            np.save(folder / TRAINING / NUMBERS, numbers)
        for what in _fixed_negatives(split, protocol):
            _draw_fixed_negatives(events, split, protocol, what).save(folder / f"{what}.npz")
        (folder / META).write_text(json.dumps(asdict(PreparedMetadata(str(stream), protocol))))
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> PreparedStream:
        """Map what `make` wrote. Raises UserError for a file that is missing or damaged."""
        meta = read_json(folder / META, PreparedMetadata, "record of a prepared stream")
        events = _load_events(folder / meta.stream)
        split, whole = (
            split_by_time(events, meta.protocol.train, meta.protocol.validation),
            IndexedStream(events, TCSR.load(folder / "tcsr")),
        )
        training, trained = whole, split.train_end
        if (folder / TRAINING).exists():
            kept = _load_events(folder / TRAINING / "stream")
            numbers = read_array(folder / TRAINING / NUMBERS, np.int32, (len(kept),), "numbers of events")
            training, trained = IndexedStream(kept, TCSR.load(folder / TRAINING / "tcsr"), numbers), len(kept)
        new = read_array(folder / NEW, np.bool_, (events.num_nodes,), "mask of new nodes")
        return replace(cls._of(meta.protocol, split, whole, training, trained, new), folder=folder)

    @classmethod
    def _of(
        cls, protocol: Protocol, split: EventSplit, whole: IndexedStream, training: IndexedStream, trained: int, new: Bool
    ) -> PreparedStream:
        among = negatives.destinations(np.asarray(training.stream.dst[:trained]), whole.stream.num_nodes)
        return cls(protocol, split, whole, training, trained, new, among)

    def negatives_of_training(self, part: EventNumbers, epoch: int, seed: int = 0) -> Int32:
        """Return one destination an event that it is told from, [B, 1]; none for a task without: [B, 0]. `seed`: the training's."""
        if self.protocol.task == "node":
            return np.empty((len(part), 0), np.int32)
        dst = np.asarray(self.training.stream.dst[row_index(part)])
        return negatives.training_negatives(dst, _event_numbers(part), self.among, seed=seed, epoch=epoch)

    def negatives(self, what: str) -> Negatives:
        """Return fixed ones: "validation" and "test", one an event at random, and "ranked", those that test events are ranked against."""
        if what not in self.made:
            self.made[what] = self._fixed(what)
        found = self.made[what]
        assert isinstance(found, Negatives)
        return found

    def _fixed(self, what: str) -> Negatives:
        events, protocol = self.whole.stream, self.protocol
        if self.folder is None:
            return _draw_fixed_negatives(events, self.split, protocol, what)
        part, k, kind = _fixed_negatives(self.split, protocol)[what]
        wanted = negatives.digest(events, self.split.train_end, part, k, kind, protocol.seed)
        return negatives.load(self.folder / f"{what}.npz", part, wanted)

    def assignment(self, validates: bool, ranks: int, size: int, limit: int = 0, every: int = 1) -> BatchAssignment:
        """Assign the training events, or those of the validation, to ranks and batches."""
        return BatchAssignment(self.split.validation if validates else range(self.training_events), ranks, size, limit, every)

    def work(
        self, validates: bool, ranks: int, size: int, sampling: Sampling, limit: int = 0, every: int = 1, loading: Loading = NO_FEATURES
    ) -> BatchStatistics:
        """Count what batches of the training or validation events read, as the first epoch of the protocol's seed draws them; counted once,
        then read."""
        deal = self.assignment(validates, ranks, size, limit, every)
        return self.load_or_count(
            f"{deal} {sampling} {loading}",
            deal.iterations * deal.ranks,
            BatchStatistics,
            lambda: self._count(deal, validates, sampling, self.residents(ranks, size, sampling, limit, loading)),
        )

    def load_or_count(self, key: str, batches: int, kind: type[CountsType], count: Callable[[], CountsType]) -> CountsType:
        """Return what was counted of so many batches under a key, read or counted now."""
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

    def residents(self, ranks: int, size: int, sampling: Sampling, limit: int, loading: Loading) -> ResidentRows:
        """Return what a device holds when training begins, by batches that are sampled before, of the first epoch of the protocol's seed:
        spread over all of it, whichever of its batches are probed."""
        nodes, events = self.whole.stream.num_nodes, len(self.whole.stream)
        cached = CachedRows(NO_ROWS, NO_ROWS)
        if loading.placement and loading.placement.dynamic:
            cached = loading.placement.fill(count_rows([], nodes, events), loading.room(nodes, events))
        elif loading.placement:
            key = f"{ranks} {size} {sampling} {limit} {loading}"
            cached = self._cached(key, lambda: self._fill(ranks, size, sampling, limit, loading))
        return ResidentRows(loading, cached, nodes, events)

    def _cached(self, key: str, fill: Callable[[], CachedRows]) -> CachedRows:
        if self.folder is None:
            if key not in self.made:
                self.made[key] = fill()
            found = self.made[key]
            assert isinstance(found, CachedRows)
            return found
        path = self._work(key)
        if not path.exists():
            with written(path) as file:
                np.savez(file, **fill()._asdict())
        with reading(path, "rows of a cache", AGAIN):
            return CachedRows(**read_archive(path))

    def _fill(self, ranks: int, size: int, sampling: Sampling, limit: int, loading: Loading) -> CachedRows:
        assert loading.placement is not None
        room = loading.room(self.whole.stream.num_nodes, len(self.whole.stream))
        return loading.placement.fill(self.row_frequencies(ranks, size, sampling, limit, loading.presample, loading.validated), room)

    def row_frequencies(
        self, ranks: int, size: int, sampling: Sampling, limit: int, presample: int, validated: bool = True
    ) -> RowFrequencies:
        """Return what placements are filled by: in how many of `presample` batches of an epoch, or somewhat fewer, spread over it, each row
        is read. validated: whether an epoch ends with the events that validate."""
        deals = {validates: self.assignment(validates, ranks, size, limit) for validates in (False, True)[: 1 + validated]}
        stride = max(-(-sum(deal.iterations for deal in deals.values()) // presample), 1)
        batches = (
            distinct_rows(found, self._source(validates))
            for validates, deal in deals.items()
            for _, found in self.sample_batches(replace(deal, every=stride), validates, sampling)
        )
        return count_rows(batches, self.whole.stream.num_nodes, len(self.whole.stream))

    def _work(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / WORK / f"{sha256(key.encode()).hexdigest()[:16]}.npz"

    def _source(self, validates: bool) -> IndexedStream:
        return self.whole if validates else self.training

    def sample_batches(self, deal: BatchAssignment, validates: bool, sampling: Sampling) -> Iterator[tuple[int, Neighbourhood]]:
        """Return what the first epoch of the protocol's seed reads for a part's batches, each with its number in the deal."""
        return sample_batches(self._source(validates), deal, sampling, *self._draws(validates))

    def _count(self, deal: BatchAssignment, validates: bool, sampling: Sampling, resident: ResidentRows) -> BatchStatistics:
        return count_batches(self._source(validates), deal, sampling, *self._draws(validates), resident)

    def _draws(self, validates: bool) -> tuple[BatchNegatives, int]:
        """Return what events are told from, and the seed of neighbours, in the first epoch."""
        return self.negatives_of(validates, 0, self.protocol.seed), draws.derive_key(
            self.protocol.seed, draws.FIXED_EPOCH if validates else 0
        )

    def negatives_of(self, validates: bool, epoch: int, seed: int) -> BatchNegatives:
        """Return a function that gives the negatives of a batch's events, int32 [B, k], as nodes to read; validates: of the validation
        events."""
        if self.protocol.task == "node":
            return lambda part: np.empty((len(part), 0), np.int32)
        if not validates:
            return lambda part: self.negatives_of_training(part, epoch, seed)
        fixed, first = self.negatives("validation").dst, self.split.validation.start
        return lambda part: replace_absent(fixed[row_index(relative_to(part, first))])


def replace_absent(destinations: Int32) -> Int32:
    """Return negatives as nodes to read: where there is none (-1) node 0, whose score does not count."""
    return np.maximum(destinations, 0)


def _fixed_negatives(split: EventSplit, protocol: Protocol) -> dict[str, tuple[range, int, negatives.NegativeKind]]:
    """Return negatives that a protocol fixes, by what they are for: events, how many each has, of what kind."""
    if protocol.task == "node":
        return {}
    return {
        "validation": (split.validation, 1, "random"),
        "test": (split.test, 1, "random"),
        "ranked": (split.test, protocol.ranked, protocol.kind),
    }


def _draw_fixed_negatives(events: EventStream, split: EventSplit, protocol: Protocol, what: str) -> Negatives:
    part, k, kind = _fixed_negatives(split, protocol)[what]
    return negatives.evaluation_negatives(events, split.train_end, part, k, kind, protocol.seed)


def _load_events(folder: Path) -> EventStream:
    found = store.load(folder)
    if not isinstance(found, EventStream):
        raise UserError(f"{folder}: not a stream of events, which this experiment's model trains on")
    return found


def _select_events(events: EventStream, chosen: Bool) -> tuple[EventStream, Int32]:
    """Return some of the events, under numbers of their own, and those that they had, int32."""
    columns = {name: getattr(events, name)[chosen] for name in ("src", "dst", "t")}
    features = None if events.features is None else events.features[chosen]
    labels = None if events.labels is None else events.labels[chosen]
    return replace(events, **columns, features=features, labels=labels), np.flatnonzero(chosen).astype(np.int32)


def _event_numbers(part: EventNumbers) -> Int64:
    return np.arange(part.start, part.stop, dtype=np.int64) if isinstance(part, range) else part
