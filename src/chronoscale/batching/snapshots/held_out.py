"""Snapshots, and classes of nodes, held out from training: shares of the end of a sequence, for validation and test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chronoscale.datasets.arrays import Int32
from chronoscale.errors import UserError


class SnapshotSplit(NamedTuple):
    """Split of a snapshot sequence in time: numbers of the snapshots that are predicted in training, validation and test. Each part reads
    all snapshots before it."""

    training: range
    validation: range
    test: range


class ClassSplit(NamedTuple):
    """Classes of nodes, int32 [N] each, that training, validation and test may see; -1 for the others."""

    training: Int32
    validation: Int32
    test: Int32


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Shares of a snapshot sequence that are held out from training: the last `test` of the snapshots, and `validation` of them before
    those (FlareDTDG §4.1 predicts the next snapshot).
    live: optimiser steps on every test snapshot once it is scored, before the next one is predicted. nodes: whether the same shares of the
    nodes are held out, too, drawn at random: their classes are trained on in no snapshot, and are all that is scored (`split_classes`).

    Raises UserError for shares below 0, or that leave nothing, for live steps without a test or on nodes that are held out, and for nodes
    without a share.
    """

    validation: float = 0.0
    test: float = 0.0
    live: int = 0
    nodes: bool = False

    def __post_init__(self) -> None:
        for key, share in (("validation", self.validation), ("test", self.test)):
            if not share >= 0:
                raise UserError(f"training.{key}: expected a share of the snapshots of at least 0, got {share:g}")
        if not self.validation + self.test < 1:
            shares = f"{self.validation:g} and {self.test:g}"
            raise UserError(f"training.validation, training.test: expected shares of the snapshots with a sum below 1, got {shares}")
        if self.live and not self.test:
            raise UserError("training.live: steps on test snapshots, and nothing tests; set training.test")
        if self.nodes and not self.share:
            raise UserError("training.held_nodes: nodes are held out in the shares of the snapshots, and those are 0; set training.test")
        if self.nodes and self.live:
            raise UserError(
                "training.live: trains on test snapshots, of which training.held_nodes holds classes out; leave one of the two out"
            )

    @property
    def share(self) -> float:
        """Share of the snapshots that is held out, for validation and test together."""
        return self.validation + self.test

    def split(self, snapshots: int) -> SnapshotSplit:
        """Split a sequence of `snapshots` snapshots in time, each part's end rounded to the nearest snapshot. Raises UserError where a
        share above 0 comes to none."""
        first, second = self.training_count(snapshots), snapshots - round(snapshots * self.test)
        parts = SnapshotSplit(range(first), range(first, second), range(second, snapshots))
        for key, share, part in (("validation", self.validation, parts.validation), ("test", self.test, parts.test)):
            if share > 0 and not part:
                raise UserError(f"training.{key}: a share of {share:g} of {snapshots} snapshots is none of them")
        return parts

    def split_classes(self, classes: Int32, seed: int) -> ClassSplit:
        """Split the classes of nodes into those that are trained on, validated and tested.

        classes int32 [N], -1: unlabelled. Without `nodes` each part is all of them; with it every labelled node is in one part, drawn by
        `seed`. Raises UserError where a share above 0 comes to no node, or none is left to train on.
        """
        if not self.nodes:
            return ClassSplit(classes, classes, classes)
        order = np.random.default_rng([seed, 5]).permutation(np.flatnonzero(classes >= 0))
        tested, validated = round(len(order) * self.test), round(len(order) * self.validation)
        test, validation, training = np.split(order, [tested, tested + validated])
        shares = (("test", self.test, test), ("validation", self.validation, validation), ("training", 1 - self.share, training))
        for key, share, part in shares:
            if share > 0 and not len(part):
                raise UserError(f"training.held_nodes: {key}: a share of {share:g} of {len(order)} nodes with a class is none of them")
        hidden = [np.full_like(classes, -1) for _ in ClassSplit._fields]
        for split, part in zip(hidden, (training, validation, test), strict=True):
            split[part] = classes[part]
        return ClassSplit(*hidden)

    def training_count(self, snapshots: int) -> int:
        """Return how many of `snapshots` snapshots are trained on."""
        return snapshots - round(snapshots * self.share)

    def required_snapshots(self, trained: int) -> int:
        """Return the length of the shortest snapshot sequence of which `trained` snapshots are left for training."""
        low, high = trained, trained + 1
        while self.training_count(high) < trained:
            low, high = high, 2 * high
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.training_count(middle) < trained else (low, middle)
        return low
