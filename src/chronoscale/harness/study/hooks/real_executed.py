"""REAL, executed: losses, snapshot times, GraphConv times and the construction of difference maps, measured on this machine."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy import stats
from sklearn.linear_model import LinearRegression

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.datasets import catalogue
from chronoscale.datasets.entries import entry
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.difference import DifferenceMap
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.harness.study import execution
from chronoscale.harness.study.point import Points, StudyPoint
from chronoscale.real_exec.execution.passes import medians
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.measurement.fit import fit
from chronoscale.simulator import presets
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costing.curves import DESCRIBED
from chronoscale.strategies.costs import FORMS, DatasheetCosts, Fit, Floats
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Workload

PARTS = (Op.H2D, Op.AGGREGATE, Op.INCREMENT, Op.TRANSFORM)  # a snapshot's own time; recurrence and backward belong to groups (§3.2)


def this_device() -> str:
    """Return the name of this machine's processor, for REAL's executed Figures 17 and 27 and Table 4."""
    return device_name(torch.device("cpu"))


def groups_a_step(schedule: Schedule) -> Floats:
    """Return how many snapshot groups each optimiser step trains, float64 [steps], to weight losses of REAL's executed Figure 14.

    A step's loss is a mean over its groups.
    """
    pairs = np.unique(np.stack([schedule.iteration, schedule.unit])[:, schedule.unit >= 0], axis=1)
    return np.bincount(pairs[0], minlength=schedule.iterations).astype(np.float64)


@cache
def accuracies(point: StudyPoint) -> dict[str, Any]:
    """Train a strategy to classify the nodes of a labelled graph on this machine: a point of REAL's Figures 14, 25 and 26.

    Lists by epoch: `losses` (mean cross entropy of training) and `validation` (accuracy). `loss`: of the last epoch; `settled`: epochs up
    to the best, by validation; `trained`: all; `test`: accuracy of the best epoch's model on nodes whose class was not trained on, in later
    snapshots than training's; `rival`: that of the most frequent class; `steps` of an epoch; the planner's `note` and `gap`. Ranks are
    virtual, as many as the point's `gpus`. Settings: seed, epochs (the most), patience (epochs without a better one), held (share of nodes
    and of snapshots, for validation and for test), width, rate (of learning, of one group a step). Raises UserError as `chronoscale train`.
    """
    of = dict(point.settings)
    task = {"task": "classes", "held_nodes": True, "validation": of["held"], "test": of["held"], "patience": of["patience"]}
    graph = catalogue.load(point.dataset)
    assert isinstance(graph, SnapshotSequence)
    assert graph.features is not None
    keys = {
        "dataset": point.dataset, "model": {"name": point.model, "hidden": of["width"], "inputs": graph.features.shape[1]},
        "training": {**task, "learning_rate": of["rate"]}, "strategies": [point.strategy], "ranks": [point.gpus], "virtual": True,
        "epochs": of["epochs"], "seed": of["seed"], "cluster": point.cluster, "costs": "datasheet",
    }  # fmt: skip
    done = execution.train(keys, "real", "accuracy")
    plan, (rival,) = done.schedule, done.rivals.values()
    losses, validation = done.losses(groups_a_step(plan)), done.curve("accuracy")
    results = {"losses": losses, "loss": losses[-1], "validation": validation, "test": done.tested, "rival": rival}
    epochs = {"settled": done.settled, "trained": len(done.epochs)}
    return {**results, **epochs, "steps": plan.iterations, "note": plan.note, "gap": plan.gap}


class Difference(NamedTuple):
    """Mean difference of paired values, and half the width of its 95 % interval by Student's t; NaN of one pair."""

    mean: float
    half: float

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out 0."""
        return abs(self.mean) > self.half


def beside_base(points: Points, name: str, base: str, metric: str) -> Difference:
    """Return how a strategy's results differ from another's, seed by seed, for REAL's Figures 14, 25 and 26.

    points: of one graph and model, trained by `accuracies`. name, base: strategies. metric: such as 'test'. Raises UserError where
    a seed of one has none of the other.
    """
    own, other = ({one.seed: float(one[metric]) for one in points.where(strategy=each)} for each in (name, base))
    if own.keys() != other.keys():
        raise UserError(f"{name} and {base}: expected the same seeds, found {sorted(own)} and {sorted(other)}")
    gaps = np.array([own[seed] - other[seed] for seed in own])
    half = stats.t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
    return Difference(float(gaps.mean()), float(half))


def mean_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of several seeds' curves over the epochs that all of them have, for drawings of REAL's Figures 14, 25 and 26."""
    return [float(np.mean(values)) for values in zip(*curves, strict=False)]


def described(dataset: str) -> str:
    """Return what a data set of the catalogue is, as its entry's source says, for a note of REAL's Figures 14, 25 and 26."""
    return entry(dataset).source


def construction_times(point: StudyPoint) -> dict[str, float]:
    """Time the construction of all difference maps of a data set on this machine, for REAL's Table 4.

    `seconds`: median; `spread`: half the interquartile range; `m_edges`: millions of edges of the later snapshots. Settings: longest
    (snapshots), repeats. Raises UserError for data not installed or no snapshots.
    """
    snapshots = catalogue.load(point.dataset)
    if not isinstance(snapshots, SnapshotSequence):
        raise UserError(f"dataset '{point.dataset}': expected snapshots")
    pairs, seconds = list(pairwise(snapshots.head(point.setting("longest")))), []
    for _ in range(point.setting("repeats")):
        begin = time.perf_counter()
        for before, after in pairs:
            DifferenceMap.between(before, after)
        seconds.append(time.perf_counter() - begin)
    low, middle, high = np.quantile(seconds, [0.25, 0.5, 0.75])
    return {"seconds": float(middle), "spread": float(high - low) / 2, "m_edges": sum(after.num_edges for _, after in pairs) / 1e6}


def snapshot_times(point: StudyPoint) -> dict[str, Any]:
    """Time every snapshot of a strategy's epoch on this machine, on one rank and generated graphs, for REAL's Figure 27.

    Returns {'snapshots': a record each}: `form` ('full' aggregation or by difference 'map'), `nodes` and `edges` that are summed over, as
    eq. 16 reads them, `ms` (median), and where it is: `unit` (group) and `step` in that. Settings: nodes, edges, length (snapshots), churn
    (share of edges that change), seed, width, repeats.
    """
    of = dict(point.settings)
    sequence = GrowthGraph.rmat(of["nodes"], of["edges"], of["length"], of["churn"], of["seed"]).sequence()
    model, hyper = model_shape("wd-gcn", of["width"], of["width"]), Hyper(stride=4)
    work = Workload("generated", statistics_of(sequence), model, hyper)
    # Maps wherever they save work, as a CPU would have it: on a GPU graphs this small spend longer on starting a map's kernels, and on the
    # latency that each has.
    device = replace(presets.cluster("h200").device, launch_s=0.0, h2d=Link(math.inf, 0.0))
    schedule = strategy(point.strategy).plan(work, 1, DatasheetCosts(device, efficiency=1.0))
    done = execution.passes(schedule, sequence, model, hyper, of["repeats"], warmup=2)
    return {"snapshots": _snapshots(schedule, medians(done).astype(np.float64)).to_dict("records")}


def _snapshots(schedule: Schedule, ns: Floats) -> pd.DataFrame:
    table = pd.DataFrame({name: getattr(schedule, name) for name in ("op", "unit", "step", "layer", "rows", "edges")}).assign(ns=ns)
    own = table[table["op"].isin(PARTS) & (table["layer"] == 0)]
    maps = own[own["op"] == Op.INCREMENT].set_index(["unit", "step"]).index
    convolved = own[own["op"].isin((Op.AGGREGATE, Op.INCREMENT))].set_index(["unit", "step"])[["rows", "edges"]]
    times = convolved.assign(ms=own.groupby(["unit", "step"])["ns"].sum() / 1e6)
    return times.assign(form=np.where(times.index.isin(maps), "map", "full")).rename(columns={"rows": "nodes"}).reset_index()


def predict(fitted: pd.DataFrame, targets: pd.DataFrame) -> Floats:
    """Fit REAL's eq. 16 (a snapshot's time, linear in nodes and edges) to measured times and return its predictions in ms, for Figure 27.

    fitted, targets: tables of the records that `snapshot_times` returns. Least squares on relative error, for `form` 'full' and 'map'
    apart; NaN for a form that was not fitted.
    """
    times = np.full(len(targets), np.nan)
    for form, part in fitted.groupby("form"):
        model = LinearRegression().fit(part[["nodes", "edges"]], part["ms"], sample_weight=1 / part["ms"] ** 2)
        here = (targets["form"] == form).to_numpy()
        if here.any():
            times[here] = model.predict(targets.loc[here, ["nodes", "edges"]])
    return times


def predicted_times(fitted: Points, tested: Points) -> list[dict[Hashable, Any]]:
    """Return the snapshots of `tested` with eq. 16's prediction, fitted to `fitted`, and its relative error, for REAL's Figure 27.

    fitted, tested: points measured by `snapshot_times`. A record each: that of `snapshot_times`, with `predicted` (ms) and `error`
    (absolute; 0.1: 10 %).
    """
    known, targets = (pd.DataFrame([line for one in points for line in one.snapshots]) for points in (fitted, tested))
    targets["predicted"] = predict(known, targets)
    lines: list[dict[Hashable, Any]] = targets.assign(error=(targets["predicted"] / targets["ms"] - 1).abs()).to_dict("records")
    return lines


def random_graph(nodes: int, degree: float, seed: int) -> CSR:
    """Return a uniformly random graph as CSR of in-edges, `degree` a node on average, for the timings of REAL's Figure 17."""
    edges = max(int(nodes * degree), 1)
    generator = torch.Generator().manual_seed(seed)
    counts = torch.bincount(torch.randint(nodes, (edges,), generator=generator), minlength=nodes)
    indptr = torch.zeros(nodes + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=indptr[1:])
    return CSR(indptr, torch.randint(nodes, (edges,), generator=generator, dtype=torch.int32), torch.ones(edges), nodes)


def aggregation_times(point: StudyPoint) -> dict[str, Any]:
    """Time GraphConv's aggregation on random graphs on this machine, on one thread, for REAL's Figure 17.

    Returns {'times': records}, one for each repeat and mean degree: `ns` of CPU time; `nodes`, `edges`, `width`, `degree`; and the other
    columns of a profile's sample, which cost curves are fitted to (`op`, `lane`, `variant`, `rows`, `bytes`, `flops`, `kernels`, ...).
    Degrees come in random order in every repeat, after a warm-up. Settings: nodes, width, degrees, repeats, most: graphs with more edges
    than that are left out.
    """
    nodes, width, rows, threads = point.setting("nodes"), point.setting("width"), [], torch.get_num_threads()
    torch.set_num_threads(1)
    set_threads(1)
    graphs = {degree: random_graph(nodes, degree, 1) for degree in point.setting("degrees") if nodes * degree <= point.setting("most")}
    x, rng = torch.rand(nodes, width), np.random.default_rng(0)
    for repeat in range(point.setting("repeats") + 1):
        for degree in rng.permutation(list(graphs)):  # what a graph leaves in the caches must not always meet the same next one
            one = graphs[degree]
            begin = time.process_time_ns()
            aggregate(one, x)
            spent = time.process_time_ns() - begin  # one thread's: what else runs on the machine stays out
            if repeat:
                moved = one.nnz * (width * 4 + 8) + nodes * width * 4
                work = {"nodes": nodes, "edges": one.nnz, "rows": nodes, "bytes": moved, "flops": 2 * one.nnz * width, "kernels": 1}
                how = {"op": Op.AGGREGATE.name, "lane": "", "variant": 0, "width": width, "spread": 0.0, "ranks": 1, "alone": False}
                rows.append({**how, **work, "ns": spent, "degree": float(degree)})
    torch.set_num_threads(threads)
    set_threads(threads)
    return {"times": rows}


def timings(points: Points) -> pd.DataFrame:
    """Return `aggregation_times`'s records of all points (`ns`, `nodes`, `degree` ...) as one table, for REAL's Figure 17."""
    return pd.DataFrame([line for one in points for line in one.times])


def median_times(points: Points) -> list[dict[Hashable, Any]]:
    """Return median and quartiles of measured aggregation times, for REAL's Figure 17.

    points: measured by `aggregation_times`. A record for each number of nodes and mean degree: `nodes`, `degree`, and in ms `ms` (median),
    `low` and `high` (quartiles).
    """
    quantiles = {name: ("ns", lambda ns, q=q: float(np.quantile(ns, q)) / 1e6) for name, q in (("ms", 0.5), ("low", 0.25), ("high", 0.75))}
    lines: list[dict[Hashable, Any]] = timings(points).groupby(["nodes", "degree"], as_index=False).agg(**quantiles).to_dict("records")
    return lines


def fitted_forms(points: Points) -> Fit:
    """Fit cost curves to measured aggregation times and return the curve that predicts held-out times best, for REAL's Figure 17.

    With the held-out errors of the others.
    """
    return fit(timings(points), this_device(), {}).fits[0]


def fitted_curves(points: Points, fitted: Fit) -> dict[str, tuple[list[float], list[float]]]:
    """Return the fitted curve of aggregation time for drawings of REAL's Figure 17: 'N nodes' -> (degrees, ms).

    points: measured by `aggregation_times`. fitted: the curve, as `fitted_forms` returns it.
    """
    curves = {}
    for nodes, part in timings(points).drop_duplicates(["nodes", "degree"]).sort_values("degree").groupby("nodes"):
        columns = {name: part[name].to_numpy(np.float64) for name in DESCRIBED}
        ms = FORMS[fitted.form].features(columns) @ np.asarray(fitted.coefficients) / 1e6
        curves[f"{nodes:,} nodes"] = (part["degree"].tolist(), ms.tolist())
    return curves
