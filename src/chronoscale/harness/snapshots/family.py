"""Snapshots: sequences of graphs (DTDG), trained in groups."""

from __future__ import annotations

import numpy as np

from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.harness.fact import Fact, Facts, spread
from chronoscale.harness.family import Family
from chronoscale.harness.snapshots.experiment import SnapshotExperiment
from chronoscale.strategies.real.ilp import REAL_L
from chronoscale.strategies.snapshots.models import MODELS


class Snapshots(Family):
    """As `Family` says."""

    name, container = "snapshots", SnapshotSequence
    keys, models, preferred = SnapshotExperiment, MODELS.keys(), REAL_L.name

    def describe(self, found: SnapshotSequence, horizon: int) -> Facts:
        stats = statistics_of(found)
        spans = {"edges a snapshot": stats.edges, "active nodes": stats.nodes}
        compared = {"changed edges": stats.changed_edges, "effective edges": stats.effective_edges, "touched rows": stats.touched_rows}
        spans |= {key: column[1:] for key, column in compared.items()}
        loops = int(np.count_nonzero(found.src == found.dst))
        counted = [("nodes", found.num_nodes), ("snapshots", len(found)), ("edges", int(stats.edges.sum())), ("self-loops", loops)]
        if found.classes is not None:
            counted += [("classes", found.num_classes), ("labelled nodes", int(np.count_nonzero(found.classes >= 0)))]
        return [Fact(*pair) for pair in counted] + [spread(key, column) for key, column in spans.items() if len(column)]
