"""Stand-ins: what FlareDTDG's data sets count at their published size, and what its models are there."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from chronoscale.datasets import catalogue
from chronoscale.datasets.entries import Published
from chronoscale.datasets.snapshots.statistics import COLUMNS, SnapshotStatistics, statistics_of
from chronoscale.strategies.flaredtdg.footprint import MPNNSizes

# Width of hidden states: the published code's (CONFIG_DATASET_TO_DIM), which has none for ASSUMED: soc-bitcoin's, the other set on 16 GPUs.
HIDDEN = {"soc_flickr": 8, "rec_amazon": 16, "soc_youtube": 8, "soc_bitcoin": 2, "ogbn_papers100m": 2}
ASSUMED = ("ogbn_papers100m",)
TRAINED = 0.4  # of the snapshots, the first ones; the published code's (run_flare.py)
WINDOW = 8  # snapshots (§4.1)


def printed(dataset: str) -> Published:
    """Table 2's counts."""
    return catalogue.entry(dataset).as_published("flaredtdg")


@cache
def statistics(dataset: str) -> SnapshotStatistics:
    """Counts of the stand-in at the published size: streamed at a thousandth or less of it, multiplied."""
    entry = catalogue.entry(f"{dataset}_like")
    factor = entry.stands_for.factor if entry.stands_for else 1
    return statistics_of(catalogue.iterate_snapshots(entry.name)).scaled(factor)


def trained(dataset: str) -> SnapshotStatistics:
    """Of the snapshots that train."""
    stats = statistics(dataset)
    count = int(TRAINED * len(stats))
    return replace(stats, **{name: getattr(stats, name)[:count] for name in COLUMNS})


def stack(dataset: str) -> MPNNSizes:
    """MPNN-LSTM as it is trained: in- and out-degree a node, papers100M's 128 embeddings (§4.1)."""
    return MPNNSizes(printed(dataset).node_features or 1, HIDDEN[dataset])
