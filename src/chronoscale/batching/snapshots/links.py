"""Links: the pairs of nodes that the task `links` predicts of a snapshot, its edges and negatives, by the protocol of event streams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.datasets.arrays import Bool, Float64, Int32, Numbers
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.streams import ranking
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.negatives import (
    MAX_NEGATIVES,
    NegativeKind,
    destinations,
    evaluation_negatives,
    training_negatives,
)
from chronoscale.errors import UserError

TERMS = 5  # of `score_sums`


def score_sums(positive: Numbers, negative: Numbers) -> Float64:
    """Return what scores of predicted links are made of, for one snapshot: AP, AUC, 1 for both; MRR, 1 for it; float64 [TERMS]. They add up
    over snapshots; 0 where a snapshot has no edge or no negative, NaN where a prediction is not finite.

    positive [E], negative [E, k]: scores as `ranking.link_scores` takes them.
    """
    absent: Bool = negative == -np.inf
    if not (np.isfinite(positive).all() and (np.isfinite(negative) | absent).all()):
        return np.full(TERMS, np.nan)
    scores = ranking.link_scores(positive, negative, np.zeros(len(positive), np.bool_))
    return np.array([scores.get("ap", 0), scores.get("auc", 0), "ap" in scores, scores.get("mrr", 0), "mrr" in scores], np.float64)


def mean_scores(sums: Numbers) -> dict[str, float]:
    """Return AP, AUC and MRR by key, each the mean over the snapshots that have it, as ROLAND takes it (You, Du, Leskovec, KDD 2022).

    sums: of all snapshots, [TERMS]. A score that no snapshot has is left out.
    """
    ap, auc, compared, mrr, ranked = sums.tolist()
    scores = {"ap": ap / compared, "auc": auc / compared} if compared else {}
    return {**scores, "mrr": mrr / ranked} if ranked else scores


@dataclass(frozen=True, slots=True)
class LinkProtocol:
    """Settings of how predicted links of snapshots are evaluated: `ranked` negatives that every edge is ranked against, of a `kind`, as on
    event streams (TGB §4). seed: of evaluation's negatives, which are the same for every training."""

    ranked: int = 20
    kind: NegativeKind = "mixed"
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.ranked <= MAX_NEGATIVES:
            raise UserError(f"training.ranked: expected 1..{MAX_NEGATIVES} negatives an edge, got {self.ranked}")


class LinkPairs:
    """Pairs of nodes (source, destination) that a model on snapshots predicts as links of a snapshot, or as none.

    Edges of the sequence count as events of a stream whose time is the snapshot's number. An edge is the same event on every rank, in every
    group and strategy; its negatives follow from its number, the seed and the epoch, so that strategies that must agree see the same ones.
    Raises UserError for a sequence without an edge to train on.
    """

    def __init__(self, snapshots: SnapshotSequence, held: HeldOut, protocol: LinkProtocol, seed: int = 0) -> None:
        """seed: of training's negatives."""
        self._ptr = snapshots.ptr
        self._split = held.split(len(snapshots))
        self._protocol, self._seed = protocol, seed
        time = np.repeat(np.arange(len(snapshots), dtype=np.int64), np.diff(self._ptr))
        self._events = EventStream(snapshots.num_nodes, snapshots.src, snapshots.dst, time)
        self._trained = int(self._ptr[self._split.training.stop])
        self._among = destinations(np.asarray(snapshots.dst[: self._trained]), snapshots.num_nodes)
        self._fixed: dict[range, Int32] = {}
        if not self._trained:
            raise UserError(
                f"training.task: 'links' has nothing to learn from, dataset '{snapshots.name}' has no edge in training's snapshots"
            )

    def count(self, snapshot: int) -> int:
        """Return how many pairs a model is trained to tell apart in a snapshot: its edges, and as many negatives."""
        return 2 * len(self._edges(snapshot))

    def training(self, snapshot: int, epoch: int) -> Int32:
        """Draw the pairs of a snapshot that an epoch trains on, int32 [2, 2 E]: sources and destinations of its E edges, and behind them
        the same sources with a negative destination each (`training_negatives`, uniform over the destinations of training's snapshots)."""
        edges = self._edges(snapshot)
        src, dst = (np.asarray(column[edges.start : edges.stop]) for column in (self._events.src, self._events.dst))
        event = np.arange(edges.start, edges.stop, dtype=np.int64)
        negative = training_negatives(dst, event, self._among, seed=self._seed, epoch=epoch)[:, 0]
        return np.stack([np.concatenate([src, src]), np.concatenate([dst, negative])])

    def evaluated(self, snapshot: int) -> Int32:
        """Return the pairs that predictions of a held-out snapshot are scored on, int32 [E, 3 + ranked], a row an edge: its source, its
        destination, the negative that it is compared with (random), and those that it is ranked against; -1 where there are fewer.

        Raises KeyError for a snapshot that is trained on.
        """
        part = next((part for part in (self._split.validation, self._split.test) if snapshot in part), None)
        if part is None:
            raise KeyError(f"snapshot {snapshot} is trained on")
        if part not in self._fixed:
            self._fixed[part] = self._draw(part)
        edges, begin = self._edges(snapshot), int(self._ptr[part.start])
        return self._fixed[part][edges.start - begin : edges.stop - begin]

    @property
    def events(self) -> EventStream:
        """Edges of all snapshots as events, whose time is the snapshot's number."""
        return self._events

    @property
    def trained(self) -> int:
        """Number of edges in the snapshots that are trained on, the first events."""
        return self._trained

    @property
    def validated(self) -> range:
        """Snapshots that validate, none where the range is empty."""
        return self._split.validation

    def known(self, snapshot: int, horizon: int) -> int:
        """Return how many events are known where a snapshot is predicted: those of the snapshots `horizon` before and earlier."""
        return int(self._ptr[snapshot - horizon + 1])

    def _edges(self, snapshot: int) -> range:
        return range(int(self._ptr[snapshot]), int(self._ptr[snapshot + 1]))

    def _draw(self, part: range) -> Int32:
        protocol, events = self._protocol, range(int(self._ptr[part.start]), int(self._ptr[part.stop]))
        kinds: tuple[tuple[int, NegativeKind], ...] = ((1, "random"), (protocol.ranked, protocol.kind))
        drawn = [evaluation_negatives(self._events, self._trained, events, k, kind, protocol.seed).dst for k, kind in kinds]
        ends = [np.asarray(column[events.start : events.stop])[:, None] for column in (self._events.src, self._events.dst)]
        return np.concatenate([*ends, *drawn], axis=1)
