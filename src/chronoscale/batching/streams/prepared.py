"""Prepared stream: split, indexed and with its evaluation's negatives, as a trainer reads it; made once and then mapped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from chronoscale.batching.streams.caching.loading import CachedRows, CachePlacement, Loading, RowFrequencies
from chronoscale.batching.streams.caching.resident_rows import NO_ROWS, ResidentRows
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood, Sampling
from chronoscale.batching.streams.sampling.presampling import BatchNegatives, count_rows, distinct_rows, rows_by_hop, sample_batches
from chronoscale.batching.streams.statistics import BatchStatistics, count_batches
from chronoscale.batching.streams.work_cache import WorkCache
from chronoscale.datasets import store
from chronoscale.datasets.arrays import Bool, Int32, Int64
from chronoscale.datasets.formats.readers.tgb_negatives import read_negatives
from chronoscale.datasets.streams import draws, negatives
from chronoscale.datasets.streams.event_numbers import EventNumbers, relative_to, row_index
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.labels import require_labels
from chronoscale.datasets.streams.negatives import Negatives
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.datasets.streams.splits import EventSplit, hide_nodes, split_by_time
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import UserError
from chronoscale.records import read_array, read_json

META = "prepared.json"
TRAINING = "training"
NEW = "new.npy"
WORK = "work"
OUTGOING = "tcsr-outgoing"  # T-CSR of the events that nodes send, made when it is first asked for
NUMBERS = "numbers.npy"  # in TRAINING: of its events in the whole stream
NO_FEATURES = Loading()  # no rows of features
RANKED = {"test": "ranked", "validation": "ranked-validation"}  # uses of negatives that a period's events are ranked against
Period = Literal["test", "validation"]


@dataclass(frozen=True, slots=True)
class PreparedMetadata:
    """Metadata of a stored prepared stream (the file META). `stream`: the folder of the events, relative to this one, or absolute where it
    is the user's own. protocol: split, hidden nodes and negatives of evaluation."""

    stream: str
    protocol: Protocol


@dataclass(frozen=True, slots=True, eq=False)
class PreparedStream:
    """Event stream that is ready to be batched: split, indexed for sampling, and with the negatives of its evaluation.

    whole: all events. training: those without hidden nodes, of which events 0 .. `training_events` - 1 are trained on. new bool [N]: nodes
    that training does not see. among int32 [D]: destinations that training's negatives are drawn from. folder: where it is saved; None: in
    memory. cache: what has been counted of its batches so far.
    """

    protocol: Protocol
    split: EventSplit
    whole: IndexedStream
    training: IndexedStream
    training_events: int
    new: Bool
    among: Int32
    folder: Path | None = None
    cache: WorkCache = field(default_factory=WorkCache)
    _fixed: dict[str, Negatives] = field(default_factory=dict)
    _outgoing: dict[str, IndexedStream] = field(default_factory=dict)

    @classmethod
    def of(cls, events: EventStream, protocol: Protocol) -> PreparedStream:
        """Prepare an event stream in memory. Raises UserError where it cannot be split, hidden nodes leave nothing to train on, or labels
        are missing."""
        split = split_by_time(events, protocol.train, protocol.validation)
        if protocol.task == "node":
            require_labels(events)
        inductive = hide_nodes(events, split, protocol.hidden, protocol.seed)
        whole = IndexedStream(events, TCSR.of(events))
        if not protocol.hidden:
            return cls._of(protocol, split, whole, whole, split.train_end, inductive.new)
        visible, numbers = _select_events(events.span(0, split.train_end), inductive.training)
        return cls._of(protocol, split, whole, IndexedStream(visible, TCSR.of(visible), numbers), len(visible), inductive.new)

    @classmethod
    def make(cls, folder: Path, stream: Path, protocol: Protocol) -> PreparedStream:
        """Prepare a stored event stream in the new folder `folder`. stream: the folder of its events, relative to `folder`, or absolute.
        Raises UserError as `of`, and where `stream` holds something else."""
        (folder / WORK).mkdir(parents=True)
        events = _load_events(folder / stream)
        split = split_by_time(events, protocol.train, protocol.validation)
        if protocol.task == "node":
            require_labels(events)
        inductive = hide_nodes(events, split, protocol.hidden, protocol.seed)
        TCSR.of(events, folder=folder / "tcsr")
        np.save(folder / NEW, inductive.new)
        if protocol.hidden:
            visible, numbers = _select_events(events.span(0, split.train_end), inductive.training)
            store.save(folder / TRAINING / "stream", visible)
            TCSR.of(visible, folder=folder / TRAINING / "tcsr")
            np.save(folder / TRAINING / NUMBERS, numbers)
        for use in _fixed_negatives(split, protocol):
            _draw_fixed_negatives(events, split, protocol, use).save(folder / f"{use}.npz")
        (folder / META).write_text(json.dumps(asdict(PreparedMetadata(str(stream), protocol))))
        return cls.load(folder)

    @classmethod
    def load(cls, folder: Path) -> PreparedStream:
        """Map a prepared stream from the folder that `make` wrote. Raises UserError for a file that is missing or damaged."""
        metadata = read_json(folder / META, PreparedMetadata, "record of a prepared stream")
        events = _load_events(folder / metadata.stream)
        split = split_by_time(events, metadata.protocol.train, metadata.protocol.validation)
        whole = IndexedStream(events, TCSR.load(folder / "tcsr"))
        training, training_events = whole, split.train_end
        if (folder / TRAINING).exists():
            visible = _load_events(folder / TRAINING / "stream")
            numbers = read_array(folder / TRAINING / NUMBERS, np.int32, (len(visible),), "numbers of events")
            training = IndexedStream(visible, TCSR.load(folder / TRAINING / "tcsr"), numbers)
            training_events = len(visible)
        new = read_array(folder / NEW, np.bool_, (events.num_nodes,), "mask of new nodes")
        prepared = cls._of(metadata.protocol, split, whole, training, training_events, new)
        return replace(prepared, folder=folder, cache=WorkCache(folder / WORK))

    @classmethod
    def _of(
        cls, protocol: Protocol, split: EventSplit, whole: IndexedStream, training: IndexedStream, training_events: int, new: Bool
    ) -> PreparedStream:
        among = negatives.destinations(np.asarray(training.stream.dst[:training_events]), whole.stream.num_nodes)
        return cls(protocol, split, whole, training, training_events, new, among)

    def negatives_of_training(self, part: EventNumbers, epoch: int, seed: int = 0, all_nodes: bool = False) -> Int32:
        """Draw the negative destination of each of some training events in an epoch, int32 [B, 1]; [B, 0] for a task without negatives.
        seed: the training's. all_nodes: from all nodes, as in FAST's public code, not from training's destinations."""
        if self.protocol.task == "node":
            return np.empty((len(part), 0), np.int32)
        if all_nodes:
            return negatives.any_nodes(_event_numbers(part), self.whole.stream.num_nodes, seed=seed, epoch=epoch)
        dst = np.asarray(self.training.stream.dst[row_index(part)])
        return negatives.training_negatives(dst, _event_numbers(part), self.among, seed=seed, epoch=epoch)

    def negatives(self, use: str) -> Negatives:
        """Return the negative destinations that evaluation uses, the same in every run: one at random an event for the uses "validation"
        and "test"; for "ranked" those that test events are ranked against, and for "ranked-validation" those of validation events, where a
        file has some."""
        if use not in self._fixed:
            self._fixed[use] = self._load_fixed(use)
        return self._fixed[use]

    def _load_fixed(self, use: str) -> Negatives:
        events, protocol = self.whole.stream, self.protocol
        if self.folder is None:
            return _draw_fixed_negatives(events, self.split, protocol, use)
        fixed = _fixed_negatives(self.split, protocol)[use]
        return negatives.load(self.folder / f"{use}.npz", fixed.part, fixed.digest(events, self.split, protocol))

    def negatives_of_evaluation(self, period: Period, rows: slice = slice(None)) -> Int32:
        """Return the negatives of events of a test, or of a validation at the end of a training, int32 [n, 1 + k]: the one that each is
        compared with, then those it is ranked against, if there are any; [n, 0] for a task without negatives. rows: of the period."""
        fixed = _fixed_negatives(self.split, self.protocol)
        part = (self.split.test if period == "test" else self.split.validation)[rows]
        uses = [use for use in (period, RANKED[period]) if use in fixed]
        return np.concatenate([np.empty((len(part), 0), np.int32), *(self.negatives(use).dst[rows] for use in uses)], axis=1)

    def assignment(self, validates: bool, ranks: int, size: int, limit: int = 0, every: int = 1) -> BatchAssignment:
        """Assign the training events, or those of the validation, to `ranks` ranks in batches of `size` events. limit: iterations at most,
        0: all. every: only one iteration of so many."""
        return BatchAssignment(self.split.validation if validates else range(self.training_events), ranks, size, limit, every)

    def work(
        self, validates: bool, ranks: int, size: int, sampling: Sampling, limit: int = 0, every: int = 1, loading: Loading = NO_FEATURES
    ) -> BatchStatistics:
        """Count the rows that batches of the training or validation events read, for planners, as the first epoch of the protocol's seed
        draws them; counted once, then read from the cache. size: events a batch; limit: iterations at most, 0: all; every: only one
        iteration of so many."""
        assignment = self.assignment(validates, ranks, size, limit, every)
        return self.cache.counts(
            f"{assignment} {sampling} {loading}",
            assignment.iterations * assignment.ranks,
            BatchStatistics,
            lambda: self._count(assignment, validates, sampling, self.residents(ranks, size, sampling, limit, loading)),
        )

    def residents(self, ranks: int, size: int, sampling: Sampling, limit: int, loading: Loading) -> ResidentRows:
        """Choose the rows of features that a device's cache has when training begins, by how often batches read them that are sampled
        before, of the first epoch of the protocol's seed: spread over all of it. size: events a batch; limit: iterations at most, 0: all.
        """
        nodes, events = self.whole.stream.num_nodes, len(self.whole.stream)
        placement = loading.placement
        if placement is None:
            rows = CachedRows(NO_ROWS, NO_ROWS)
        elif placement.dynamic:
            rows = placement.fill(count_rows([], nodes, events), loading.room(nodes, events))
        else:
            rows = self.cache.rows(
                f"{ranks} {size} {sampling} {limit} {loading}", lambda: self._choose_rows(placement, ranks, size, sampling, limit, loading)
            )
        return ResidentRows(loading, rows, nodes, events)

    def _choose_rows(
        self, placement: CachePlacement, ranks: int, size: int, sampling: Sampling, limit: int, loading: Loading
    ) -> CachedRows:
        if loading.first_half:
            frequencies = row_frequencies_of_half(self, ranks, size, sampling, limit)
        else:
            frequencies = self.row_frequencies(ranks, size, sampling, limit, loading.presample, loading.validated)
        return placement.fill(frequencies, loading.room(self.whole.stream.num_nodes, len(self.whole.stream)))

    def row_frequencies(
        self, ranks: int, size: int, sampling: Sampling, limit: int, presample: int, validated: bool = True
    ) -> RowFrequencies:
        """Count in how many batches each row of features is read, by which a device's cache is filled: of `presample` batches of an epoch,
        or somewhat fewer, spread over it. validated: whether an epoch ends with the events that validate."""
        splits = (False, True) if validated else (False,)
        assignments = {validates: self.assignment(validates, ranks, size, limit) for validates in splits}
        iterations = sum(assignment.iterations for assignment in assignments.values())
        stride = max(-(-iterations // presample), 1)
        batches = (
            distinct_rows(neighbourhood, self.source(validates, sampling))
            for validates, assignment in assignments.items()
            for _, neighbourhood in self.sample_batches(replace(assignment, every=stride), validates, sampling)
        )
        return count_rows(batches, self.whole.stream.num_nodes, len(self.whole.stream))

    def source(self, validates: bool, sampling: Sampling) -> IndexedStream:
        """Return the indexed events that batches of validation and test, or of training, sample neighbours from."""
        of, indexed = ("", self.whole) if validates or self.training is self.whole else (TRAINING, self.training)
        if not sampling.outgoing:
            return indexed
        if of not in self._outgoing:
            self._outgoing[of] = indexed.with_sent_events(self.folder and self.folder / of / OUTGOING)
        return self._outgoing[of]

    def sample_batches(self, assignment: BatchAssignment, validates: bool, sampling: Sampling) -> Iterator[tuple[int, Neighbourhood]]:
        """Sample the neighbourhoods of an assignment's batches, each with its number, as the first epoch of the protocol's seed does.
        validates: the assignment is of validation events, else of training events."""
        return sample_batches(self.source(validates, sampling), assignment, sampling, *self._draws(validates, sampling))

    def _count(self, assignment: BatchAssignment, validates: bool, sampling: Sampling, resident: ResidentRows) -> BatchStatistics:
        return count_batches(self.source(validates, sampling), assignment, sampling, *self._draws(validates, sampling), resident)

    def _draws(self, validates: bool, sampling: Sampling) -> tuple[BatchNegatives, int]:
        """Return the negatives of batches, and the seed of neighbours, in the first epoch."""
        seed = self.protocol.seed
        return self.negatives_of(validates, 0, seed, sampling.all_nodes), draws.derive_key(seed, draws.FIXED_EPOCH if validates else 0)

    def negatives_of(self, validates: bool, epoch: int, seed: int, all_nodes: bool = False) -> BatchNegatives:
        """Return a function that gives the negative destinations of a batch's events, int32 [B, k], as nodes to read. validates: of
        validation events, the fixed ones, else of training events, drawn for the epoch by `seed` (all_nodes: see `negatives_of_training`).
        """
        if self.protocol.task == "node":
            return lambda part: np.empty((len(part), 0), np.int32)
        if not validates:
            return lambda part: self.negatives_of_training(part, epoch, seed, all_nodes)
        fixed, first = self.negatives("validation").dst, self.split.validation.start
        return lambda part: replace_absent(fixed[row_index(relative_to(part, first))])


def row_frequencies_of_half(data: PreparedStream, ranks: int, size: int, sampling: Sampling, limit: int = 0) -> RowFrequencies:
    """Count in how many batches each row of features is read, as FAST's public code does: all batches of the first half of the training
    events, with negatives that no epoch draws, and an event once for each hop that reads it. limit: iterations of an epoch, 0: all."""
    events = min(data.training_events, limit * ranks * size or data.training_events) // 2
    source, seed = data.source(False, sampling), data.protocol.seed
    others = data.negatives_of(False, draws.FIXED_EPOCH, seed, sampling.all_nodes)
    batches = sample_batches(
        source, BatchAssignment(range(events), ranks, size), sampling, others, draws.derive_key(seed, draws.FIXED_EPOCH)
    )
    rows = (rows for _, sampled in batches for rows in rows_by_hop(sampled, source))
    return count_rows(rows, data.whole.stream.num_nodes, len(data.whole.stream))


def replace_absent(destinations: Int32) -> Int32:
    """Return negative destinations as nodes whose rows can be read: where there is none (-1), node 0, whose score is left out later."""
    return np.maximum(destinations, 0)


class _FixedNegatives(NamedTuple):
    """Description of fixed negatives: of the events `part`, k each of a kind; or those of a file, where one is named."""

    part: range
    k: int
    kind: negatives.NegativeKind
    file: str = ""

    def digest(self, events: EventStream, split: EventSplit, protocol: Protocol) -> str:
        """Return the digest that the stored negatives have."""
        if self.file:
            return negatives.digest(events, split.train_end, self.part, 0, "published", protocol.seed)
        return negatives.digest(events, split.train_end, self.part, self.k, self.kind, protocol.seed)


def _fixed_negatives(split: EventSplit, protocol: Protocol) -> dict[str, _FixedNegatives]:
    """Return the fixed negatives of a protocol by their use."""
    if protocol.task == "node":
        return {}
    published = protocol.published
    uses = {
        "validation": _FixedNegatives(split.validation, 1, "random"),
        "test": _FixedNegatives(split.test, 1, "random"),
        RANKED["test"]: _FixedNegatives(split.test, protocol.ranked, protocol.kind, published.test),
    }
    if published.validation:
        uses[RANKED["validation"]] = _FixedNegatives(split.validation, 0, "mixed", published.validation)
    return uses


def _draw_fixed_negatives(events: EventStream, split: EventSplit, protocol: Protocol, use: str) -> Negatives:
    fixed = _fixed_negatives(split, protocol)[use]
    if fixed.file:
        dst = read_negatives(Path(fixed.file), events, fixed.part)
        return Negatives(fixed.part, dst, fixed.digest(events, split, protocol))
    return negatives.evaluation_negatives(events, split.train_end, fixed.part, fixed.k, fixed.kind, protocol.seed)


def _load_events(folder: Path) -> EventStream:
    stream = store.load(folder)
    if not isinstance(stream, EventStream):
        raise UserError(f"{folder}: not a stream of events, which this experiment's model trains on")
    return stream


def _select_events(events: EventStream, mask: Bool) -> tuple[EventStream, Int32]:
    """Select the events of a mask, bool [M]: as a stream with numbers of its own, and the numbers that they had, int32."""
    columns = {name: getattr(events, name)[mask] for name in ("src", "dst", "t")}
    features = None if events.features is None else events.features[mask]
    labels = None if events.labels is None else events.labels[mask]
    return replace(events, **columns, features=features, labels=labels), np.flatnonzero(mask).astype(np.int32)


def _event_numbers(part: EventNumbers) -> Int64:
    return np.arange(part.start, part.stop, dtype=np.int64) if isinstance(part, range) else part
