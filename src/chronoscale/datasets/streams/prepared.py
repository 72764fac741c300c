"""Prepared: a stream as a trainer reads it, split, indexed and with its evaluation's negatives, made once and then mapped."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from chronoscale.datasets import store
from chronoscale.datasets.arrays import Bool, Int32, Int64
from chronoscale.datasets.streams import draws, negatives
from chronoscale.datasets.streams.deal import Deal
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.labels import require_labels
from chronoscale.datasets.streams.negatives import Negatives
from chronoscale.datasets.streams.neighbourhood import Sampling
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.datasets.streams.source import Source
from chronoscale.datasets.streams.splits import Split, by_time, hide
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.datasets.streams.work import BatchStatistics, StreamStatistics, counted
from chronoscale.errors import UserError
from chronoscale.kept import read_array, read_json

META, TRAINING, NEW, WORK = "prepared.json", "training", "new.npy", "work"
FIXED = 2**32  # in place of an epoch's number, where what is evaluated draws its neighbours: the same ones in every epoch


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
    made: dict[str, Negatives | BatchStatistics] = field(default_factory=dict)

    @classmethod
    def of(cls, events: EventStream, protocol: Protocol) -> Prepared:
        """In memory. Raises UserError where the stream cannot be split, hidden nodes leave nothing to train on, or labels are missing."""
        split = by_time(events, protocol.train, protocol.validation)
        if protocol.task == "node":
            require_labels(events)
        hidden, whole = hide(events, split, protocol.hidden, protocol.seed), Source(events, TCSR.of(events))
        if not protocol.hidden:
            return cls._of(protocol, split, whole, whole, split.train_end, hidden.new)
        kept = _kept(events.span(0, split.train_end), hidden.training)
        return cls._of(protocol, split, whole, Source(kept, TCSR.of(kept)), len(kept), hidden.new)

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
            kept = _kept(events.span(0, split.train_end), hidden.training)
            store.save(folder / TRAINING / "stream", kept)
            TCSR.of(kept, folder=folder / TRAINING / "tcsr")
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
            training = Source(_events(folder / TRAINING / "stream"), TCSR.load(folder / TRAINING / "tcsr"))
            trained = len(training.stream)
        new = read_array(folder / NEW, np.bool_, (events.num_nodes,), "mask of new nodes")
        return replace(cls._of(meta.protocol, split, whole, training, trained, new), folder=folder)

    @classmethod
    def _of(cls, protocol: Protocol, split: Split, whole: Source, training: Source, trained: int, new: Bool) -> Prepared:
        among = negatives.destinations(np.asarray(training.stream.dst[:trained]), whole.stream.num_nodes)
        return cls(protocol, split, whole, training, trained, new, among)

    def negatives_of_training(self, part: range, epoch: int, seed: int = 0) -> Int32:
        """One destination an event that it is told from, [B, 1]; none for a task without: [B, 0]. `seed`: the training's."""
        if self.protocol.task == "node":
            return np.empty((len(part), 0), np.int32)
        dst = np.asarray(self.training.stream.dst[part.start : part.stop])
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

    def work(self, validates: bool, ranks: int, size: int, sampling: Sampling, limit: int = 0, every: int = 1) -> BatchStatistics:
        """Of a part's batches, as the first epoch of the protocol's seed draws them; counted once, then read."""
        deal, source = self.deal(validates, ranks, size, limit, every), self.whole if validates else self.training
        if self.folder is None:
            key = f"{deal} {sampling}"
            if key not in self.made:
                self.made[key] = self._count(deal, source, validates, sampling)
            found = self.made[key]
            assert isinstance(found, BatchStatistics)
            return found
        path = self.folder / WORK / f"{sha256(f'{deal} {sampling}'.encode()).hexdigest()[:16]}.npz"
        if not path.exists():
            self._count(deal, source, validates, sampling).save(path)
        return BatchStatistics.load(path, deal.iterations * deal.ranks)

    def _count(self, deal: Deal, source: Source, validates: bool, sampling: Sampling) -> BatchStatistics:
        seed = draws.key_of(self.protocol.seed, FIXED if validates else 0)
        if self.protocol.task == "node":
            return counted(source, deal, sampling, lambda part: np.empty((len(part), 0), np.int32), seed)
        if not validates:
            return counted(source, deal, sampling, lambda part: self.negatives_of_training(part, 0, self.protocol.seed), seed)
        fixed, first = self.negatives("validation").dst, self.split.validation.start
        return counted(source, deal, sampling, lambda part: present(fixed[part.start - first : part.stop - first]), seed)

    @property
    def statistics(self) -> StreamStatistics:
        """What planning needs."""
        events = self.whole.stream
        nodes, edges = (0 if found is None else found.shape[1] for found in (events.node_features, events.features))
        classes = int(require_labels(events).max()) + 1 if self.protocol.task == "node" else 0
        return StreamStatistics(events.num_nodes, self.trained, len(self.split.validation), nodes, edges, classes, self.work)


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


def _kept(events: EventStream, chosen: Bool) -> EventStream:
    """Some of the events, under numbers of their own."""
    columns = {name: getattr(events, name)[chosen] for name in ("src", "dst", "t")}
    features = None if events.features is None else events.features[chosen]
    labels = None if events.labels is None else events.labels[chosen]
    return replace(events, **columns, features=features, labels=labels)


def _numbers(part: range) -> Int64:
    return np.arange(part.start, part.stop, dtype=np.int64)
