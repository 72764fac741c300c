"""Crossover: the share of changed edges from which the whole costs less than the increment, measured, and as fitted curves have it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.real_exec.measurement.fit import fit
from chronoscale.strategies.costing.curves import DESCRIBED
from chronoscale.strategies.costs import FORMS, Fit
from gpu.graphs import drawn, normal
from gpu.timing import measure

SHARES = (0.001, 0.005, 0.01, 0.03, 0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.9, 1.1, 1.4)
NEVER, ALWAYS = "never dearer", "dearer from the first share on"  # the increment
SCALES = ((1.0, 1.0), (0.75, 0.75), (0.5, 0.5), (0.25, 0.25), (1.0, 0.5), (0.5, 1.0), (0.75, 0.5), (0.5, 0.25))  # of nodes, edges


def crossover(graph: CSR, x: Tensor, rows: Sequence[dict[str, Any]], repeats: int) -> dict[str, Any]:
    """`measured` and `predicted`, each a share, or NEVER or ALWAYS; `error` of the predicted share, None where one of the two is none.

    The curves are fitted as a profile's are (`measurement.fit`), on whole sums of graphs of several sizes and on increments; the two shares
    that the measured crossover lies between are left out of them.
    """
    ratio = [row["times"]["increment_"]["ms"] / row["times"]["aggregate"]["ms"] for row in rows]
    measured = _root([row["share"] for row in rows], ratio)
    around = [] if isinstance(measured, str) else _between(rows, measured)
    samples = [_sample("INCREMENT", x, row["rows"], row["changed"], row["rows"], row["times"]["increment_"]) for row in rows]
    fitted = [sample for sample, row in zip(samples, rows, strict=True) if row["share"] not in around]
    fitted += _sized(graph, x, repeats)
    table = pd.DataFrame(fitted)
    fits = {one.op: one for one in fit(table, x.device.type, {}).fits}
    whole = _predicted(fits["AGGREGATE"], _sample("AGGREGATE", x, graph.num_rows, graph.nnz, graph.num_rows))
    grid = np.geomspace(SHARES[0], 2 * SHARES[-1], 2_000)
    touched, changed = (np.interp(grid, [row["share"] for row in rows], [row[key] for row in rows]) for key in ("rows", "changed"))
    changed = np.maximum(changed, grid * graph.nnz)
    steps = [_predicted(fits["INCREMENT"], _sample("INCREMENT", x, int(r), int(c), int(r))) for r, c in zip(touched, changed, strict=True)]
    predicted = _root(grid.tolist(), [step / whole for step in steps])
    error = None if isinstance(measured, str) or isinstance(predicted, str) else abs(predicted - measured) / measured
    forms = {op: {"form": one.form, "held_out_error": one.held_out_error} for op, one in fits.items()}
    return {"measured": measured, "predicted": predicted, "error": error, "left_out_of_the_fit": around, "forms": forms}


def _sized(graph: CSR, x: Tensor, repeats: int) -> list[dict[str, Any]]:
    """Whole sums of graphs of several sizes, drawn as this one."""
    device, width, found = x.device.type, x.shape[1], []
    skewed = int(graph.indptr.diff().max()) > 20 * graph.nnz / graph.num_rows
    for nodes, edges in SCALES:
        part = graph
        if (nodes, edges) != (1.0, 1.0):
            part = drawn(int(graph.num_rows * nodes), int(graph.nnz * edges), skewed, device)
        y = normal(device, part.num_cols, width)
        time = measure({"aggregate": [lambda part=part, y=y: aggregate(part, y)]}, device, repeats, frozenset({"aggregate"}))["aggregate"]
        found.append(_sample("AGGREGATE", x, part.num_rows, part.nnz, part.num_rows, time))
    return found


def _sample(op: str, x: Tensor, nodes: int, edges: int, rows: int, time: dict[str, Any] | None = None) -> dict[str, Any]:
    """A row as `real_exec.measurement.fit.tabulate_samples` makes it; without a time what a curve is asked for."""
    width = x.shape[1]
    moved, flops = 4 * width * (edges + 2 * rows) + 8 * edges, 2 * edges * width
    where = {"op": op, "lane": "", "variant": 0, "width": width, "collective": -1, "ranks": 1, "alone": False}
    took = {"ns": 0.0, "spread": 0.0} if time is None else {"ns": time["ms"] * 1e6, "spread": time["spread"]}
    return {**where, "nodes": nodes, "edges": edges, "rows": rows, "bytes": moved, "flops": flops, "kernels": 1, **took}


def _predicted(curve: Fit, row: dict[str, Any]) -> float:
    described = {name: np.array([row[name]], np.float64) for name in DESCRIBED}
    return float((FORMS[curve.form].features(described) @ np.asarray(curve.coefficients))[0])


def _root(shares: Sequence[float], ratio: Sequence[float]) -> float | str:
    """Where a ratio first comes to 1, linear between its points; NEVER or ALWAYS where it does not."""
    for (a, b), (low, high) in zip(pairwise(shares), pairwise(ratio), strict=True):
        if low < 1 <= high:
            return a + (b - a) * (1 - low) / (high - low)
    return ALWAYS if ratio[-1] >= 1 else NEVER


def _between(rows: Sequence[dict[str, Any]], share: float) -> list[float]:
    shares = [row["share"] for row in rows]
    return [max(s for s in shares if s <= share), min(s for s in shares if s >= share)]
