"""Degree: GraphConv time against average degree, measured, and which curve fits it (Figure 17)."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import torch

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.harness.reproduce.study import UNKNOWN, Findings, Told
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.measurement.fit import fit
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published
from chronoscale.strategies.costing.curves import DESCRIBED
from chronoscale.strategies.costs import FORMS, Floats
from chronoscale.strategies.schedule import Op

NODES = (10_000, 30_000, 100_000)
DEGREES = tuple(float(2.0**power) for power in range(-3, 7))
WIDTH, REPEATS, MOST = 64, 15, 3_300_000  # features; timings a point, after one to warm up; edges that a point may have
FORM_NAMES = {
    "u-curve": "a0 N + a1 d + a2/d + a3 (appendix B)",
    "eq16": "linear in nodes and edges (eq. 16)",
    "traffic": "linear in rows, edges, bytes",
}


def graph(nodes: int, degree: float, seed: int) -> CSR:
    """Uniform random in-edges, `degree` a node on average."""
    edges = max(int(nodes * degree), 1)
    generator = torch.Generator().manual_seed(seed)
    counts = torch.bincount(torch.randint(nodes, (edges,), generator=generator), minlength=nodes)
    indptr = torch.zeros(nodes + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=indptr[1:])
    return CSR(indptr, torch.randint(nodes, (edges,), generator=generator, dtype=torch.int32), torch.ones(edges), nodes)


def measure(told: Told, quick: bool) -> pd.DataFrame:
    """One row a timing: descriptors as in a schedule, and ns; degrees in random order in every repeat."""
    rows, torch_threads, rng = [], torch.get_num_threads(), np.random.default_rng(0)
    torch.set_num_threads(1)
    set_threads(1)
    for nodes in NODES[:1] if quick else NODES:
        told(f"{nodes:,} nodes")
        graphs = {degree: graph(nodes, degree, 1) for degree in DEGREES if nodes * degree <= MOST}
        x = torch.rand(nodes, WIDTH)
        for repeat in range(REPEATS + 1):
            for degree in rng.permutation(list(graphs)):  # what a graph leaves in the caches must not always meet the same next one
                one = graphs[degree]
                begin = time.process_time_ns()
                aggregate(one, x)
                spent = time.process_time_ns() - begin  # one thread's: what else runs on the machine stays out
                if repeat:
                    moved = one.nnz * (WIDTH * 4 + 8) + nodes * WIDTH * 4
                    work = {"nodes": nodes, "edges": one.nnz, "rows": nodes, "bytes": moved, "flops": 2 * one.nnz * WIDTH, "kernels": 1}
                    rows.append(
                        {
                            "op": Op.AGGREGATE.name,
                            "lane": "",
                            "variant": 0,
                            "width": WIDTH,
                            **work,
                            "ns": spent,
                            "spread": 0.0,
                            "ranks": 1,
                            "alone": False,
                            "degree": degree,
                        }
                    )
    torch.set_num_threads(torch_threads)
    set_threads(torch_threads)
    return pd.DataFrame(rows)


def curve(form: str, table: pd.DataFrame, coefficients: tuple[float, ...]) -> Floats:
    """A fitted form over the rows of a table, ms."""
    values: Floats = FORMS[form].features({name: table[name].to_numpy(np.float64) for name in DESCRIBED}) @ np.asarray(coefficients) / 1e6
    return values


def run(told: Told, quick: bool) -> Findings:
    """Medians by nodes and degree; whether sparse graphs are slower than denser ones; held-out errors of the forms."""
    printed = published("real").figures[17]
    timed = measure(told, quick)
    points = timed.groupby(["nodes", "degree"], as_index=False).agg(
        ms=("ns", lambda ns: float(np.median(ns)) / 1e6),
        low=("ns", lambda ns: float(np.quantile(ns, 0.25)) / 1e6),
        high=("ns", lambda ns: float(np.quantile(ns, 0.75)) / 1e6),
    )
    rows = []
    for nodes, part in points.groupby("nodes"):
        sparsest, least = part.iloc[0], part.iloc[int(part["ms"].argmin())]
        turned = bool(sparsest["low"] > least["high"])
        rows.append(
            {
                "what": f"{nodes:,} nodes: sparsest graph over fastest",
                "published": "U-shaped (plot only)",
                "ours": sparsest["ms"] / least["ms"],
            }
            | {"why": f"{'a U' if turned else 'no U: quartiles overlap'}; fastest at degree {least['degree']:g}; why: {UNKNOWN}"}
        )
    fitted = fit(timed, device_name(torch.device("cpu")), {}).fits[0]
    for form, error in sorted({fitted.form: fitted.held_out_error, **fitted.alternatives}.items(), key=lambda item: item[1]):
        rows.append(
            {
                "what": f"held-out error, {FORM_NAMES[form]}",
                "published": "not printed",
                "ours": error,
                "why": "median over a quarter of the points",
            }
        )
    series = {f"{nodes:,} nodes": (part["degree"].tolist(), part["ms"].tolist()) for nodes, part in points.groupby("nodes")}
    one = timed.drop_duplicates(["nodes", "degree"])
    drawn_fit = {
        f"{nodes:,} nodes": (part["degree"].tolist(), curve(fitted.form, part, fitted.coefficients).tolist())
        for nodes, part in one.groupby("nodes")
    }
    panel = Panel("aggregation", "average degree", "ms", series, drawn_fit, ("log", "log"))
    caption = f"Median of {REPEATS} on one core of {device_name(torch.device('cpu'))}, {WIDTH} features; lines: {FORM_NAMES[fitted.form]}."
    said: tuple[str, ...] = (f"Quick: {NODES[0]:,} nodes alone.",) if quick else ()
    said += (
        f"Measured on {device_name(torch.device('cpu'))}, CPU time of one thread of our kernel; the paper's: DGL, H200, 100k to 5M nodes.",
    )
    return Findings(pd.DataFrame(rows), (lines("real-figure-17", printed.title, caption, [panel]),), {"times": points}, said)
