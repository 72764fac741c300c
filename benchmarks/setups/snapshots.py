"""Snapshot sequences of the catalogue, and generated ones."""

from __future__ import annotations

from chronoscale.datasets.catalogue import load
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import UserError


def sequence_of(name: str) -> SnapshotSequence:
    """Return a data set of the catalogue as experiments read it, or the generated `growth-NODES`. Raises UserError for one of events."""
    if name.startswith("growth-"):
        nodes = int(name.removeprefix("growth-"))
        return GrowthGraph.rmat(nodes, 4 * nodes, 14, 0.2, 1).sequence().without_self_edges()
    sequence = load(name)
    if not isinstance(sequence, SnapshotSequence):
        raise UserError(f"'{name}' has no snapshots; expected a dataset like enron_monthly")
    return sequence.without_self_edges()
