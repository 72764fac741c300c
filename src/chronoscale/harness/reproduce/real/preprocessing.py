"""Preprocessing: how long difference maps take to construct (Table 4)."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pandas as pd
import torch

from chronoscale.datasets import catalogue
from chronoscale.datasets.snapshots.difference import DifferenceMap
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import UserError
from chronoscale.harness.reproduce.study import Findings, Told
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.reports.published import published

AT_HAND = ("math_overflow_monthly", "enron_monthly")
GENERATED = ("arxiv_like", "reddit_like")
REPEATS, LONGEST = 5, 20  # snapshots of a dataset that are timed


def timed(sequence: SnapshotSequence) -> tuple[float, float, float]:
    """Median and half interquartile range of the seconds for all maps, and the edges read (both snapshots of a map), in millions."""
    pairs = list(pairwise(sequence))
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        for before, after in pairs:
            DifferenceMap.between(before, after)
        seconds.append(time.perf_counter() - begin)
    low, middle, high = np.quantile(seconds, [0.25, 0.5, 0.75])
    return float(middle), float(high - low) / 2, sum(after.num_edges for _, after in pairs) / 1e6


def run(told: Told, quick: bool) -> Findings:
    """Seconds a million edges of a later snapshot: published totals over Table 3's counts, and measured here."""
    rows = []
    for line in published("real").tables[4].rows:
        counts = catalogue.entry(str(line["dataset"])).as_published("real")
        edges = float(counts.edges or 0) * (float(counts.steps or 1) - 1) / 1e6
        seconds = float(line["seconds"])
        rows.append(
            {
                "what": line["dataset"],
                "whose": "published",
                "seconds": seconds,
                "± s": np.nan,
                "M edges": edges,
                "s a M edges": seconds / edges,
            }
        )
    theirs = np.array([float(str(line["s a M edges"])) for line in rows])
    absent = []
    for name in (*AT_HAND, *GENERATED[: 1 if quick else None]):
        told(name)
        try:
            found = catalogue.load(name)
        except UserError as error:
            absent.append(str(error))
            continue
        if not isinstance(found, SnapshotSequence):
            raise UserError(f"dataset '{name}': expected snapshots")
        middle, spread, edges = timed(found.head(LONGEST))
        rows.append({"what": name, "whose": "ours", "seconds": middle, "± s": spread, "M edges": edges, "s a M edges": middle / edges})
    table = pd.DataFrame(rows)
    table["ratio"] = np.where(table["whose"] == "ours", table["s a M edges"] / theirs.mean(), np.nan)
    table["why"] = np.where(table["whose"] == "ours", WHY, "")
    said: tuple[str, ...] = ("Quick: one generated dataset.",) if quick else ()
    said += (
        f"Measured on one core of {device_name(torch.device('cpu'))}: median of {REPEATS}, ± half the interquartile range, "
        f"first {LONGEST} snapshots. "
        "ratio: against the mean of the published ones.",
        *absent,
    )
    return Findings(table, (), {}, said)


WHY = (
    "not established: the paper does not say on how many cores, nor whether reading the snapshots counts; ours compares "
    "sorted keys in memory"
)
