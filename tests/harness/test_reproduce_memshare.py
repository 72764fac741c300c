"""What MemShare prints agrees with itself as far as it does; a number that was copied wrong would not."""

from __future__ import annotations

import numpy as np
import pytest

from chronoscale.datasets import catalogue
from chronoscale.reports.published import published

PAPER = published("memshare")
DATASETS = ("lastfm", "wikitalk", "stackof", "gdelt")
APS = {(row["gpus"], row["strategy"], row["model"]): np.array([row[d] for d in DATASETS]) for row in PAPER.tables[3].rows if "model" in row}
CUTS = {row["dataset"]: row for row in PAPER.tables[4].rows}


def test_shares_are_of_their_sum():
    for system in ("mspipe", "distgl", "memshare"):
        seconds, shares = (np.array([row[key] for row in PAPER.tables[1].rows]) for key in (system, f"{system}_share"))
        np.testing.assert_allclose(shares, seconds / seconds.sum(), atol=1.3e-4)  # one is off by more than its digits


def test_counts_are_the_catalogues():
    for row in PAPER.tables[2].rows:
        counts = catalogue.entry(row["dataset"]).as_published("memshare")
        assert (row["nodes"], row["edges"]) == (counts.nodes, counts.edges)
        assert (row["node_width"], row["edge_width"]) == (counts.node_features, counts.edge_features)


def test_mean_gains_of_accuracy_are_those_of_the_text():
    assert len(APS) == 42
    gains = {row["over"]: row["ap_gain"] for row in PAPER.tables[3].rows if "over" in row}
    for rival, gain in gains.items():
        ours = [APS[gpus, "memshare", model] - theirs for (gpus, name, model), theirs in APS.items() if name == rival and gpus > 1]
        assert np.mean(ours) == pytest.approx(gain, abs=5e-5)
    assert APS[16, "memshare", "tgn"][0] - APS[16, "tgl-dist", "tgn"][0] == pytest.approx(0.1297)


def test_speedups_of_cuts_are_those_of_the_text():
    first, second, shared = PAPER.tables[4].ranges
    means = [np.mean([row[rival] / row["memshare"] for row in CUTS.values()]) for rival in ("metis", "distgl")]
    assert means == pytest.approx([first.mean, second.mean], abs=0.012)
    by_sharing = [row["memshare"] / row["memshare_shared"] for row in CUTS.values()]
    assert (min(by_sharing), max(by_sharing)) == pytest.approx((shared.low, shared.high), abs=0.007)


def test_gains_of_cuts_are_over_the_mean_of_what_shares_nothing():
    over = []
    for row in PAPER.tables[5].rows:
        alone = np.mean([row[name] for name in ("metis", "distgl", "memshare")])
        assert row["memshare_shared"] - alone == pytest.approx(row["gain"], abs=1e-3)
        over.append(row["memshare_shared"] - row["metis_shared"])
    assert np.mean(over) == pytest.approx(0.0115, abs=5e-5)
