"""Comparison: a cluster fitted to half of what was measured, and compared with the other half."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from chronoscale.errors import UserError
from chronoscale.simulator import presets
from chronoscale.simulator.network.measured.fit import TableError, fit, predicted
from chronoscale.simulator.network.measured.rates import MeasuredRate
from chronoscale.simulator.network.measured.reading import read_measurements
from chronoscale.simulator.network.measured.table import MeasuredTable
from chronoscale.simulator.network.measured.written import cluster_text
from chronoscale.strategies.cluster import Cluster

FEW = 4  # sizes of a table; of one with fewer none is held out


class FittedLinks(NamedTuple):
    """Cluster whose links were fitted to measurements: it, the text of its file, its errors by table, and the same as a table to print."""

    cluster: Cluster
    text: str
    errors: tuple[TableError, ...]
    table: pd.DataFrame


def fit_and_compare(base: str, files: Sequence[Path], held_out: Sequence[Path] = ()) -> FittedLinks:
    """Fit the links of a simulated cluster to every other size of measured tables, and compare it with all.

    base: the cluster's name or file. held_out: files that are only compared with. Raises UserError as reading and fitting do.
    """
    cluster = presets.cluster(base)
    read = [measurement for path in files for measurement in read_measurements(path)]
    rates = [measurement for measurement in read if isinstance(measurement, MeasuredRate)]
    fitted = [measurement for measurement in read if isinstance(measurement, MeasuredTable)]
    others = [measurement for path in held_out for measurement in read_measurements(path)]
    if wrong := [rate.path for rate in others if isinstance(rate, MeasuredRate)]:
        raise UserError(f"{wrong[0]}: rates of links are not compared with; hold tables of times out")
    halves = [table.every_other(0) if len(table) >= FEW else table for table in fitted]
    fitted_cluster = fit(cluster, halves, rates)
    errors = [_errors(fitted_cluster, table, half) for table, half in zip(fitted, halves, strict=True)]
    errors += [_errors(fitted_cluster, table, None) for table in others if isinstance(table, MeasuredTable)]
    sources = [f"  {rate.path.name}: {rate.place}, {rate.rate / 1e9:.4g} GB/s" for rate in rates]
    sources += [f"  {table.path.name}: {table.source or 'source not stated'}, {table.date or 'no date'}" for table in fitted]
    text = cluster_text(presets.contents(base), cluster, fitted_cluster, errors, sources)
    return FittedLinks(fitted_cluster, text, tuple(errors), _shown(errors))


def _errors(cluster: Cluster, table: MeasuredTable, half: MeasuredTable | None) -> TableError:
    """Compare a cluster with a table. half: the rows that were fitted to; None for none."""
    chosen = np.isin(table.lines, [] if half is None else half.lines)
    return TableError(table, predicted(cluster, table) / table.seconds - 1, chosen)


def _shown(errors: Sequence[TableError]) -> pd.DataFrame:
    rows = []
    for error in errors:
        table, setup = error.table, error.table.setup
        of = {"file": table.path.name, "operation": table.op.name, "machines": setup.nodes, "gpus": setup.ranks, "sizes": len(table)}
        medians = {"fitted": error.median(True), "held_out": error.median(False)}
        rows.append({**of, **medians, "most": float(error.errors[np.abs(error.errors).argmax()])})
    return pd.DataFrame(rows)
