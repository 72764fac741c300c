"""Fit of a cluster's links: the few figures of its file that make NCCL's model agree with measured tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from chronoscale.errors import UserError
from chronoscale.simulator.network.collectives import CollectiveCosts, CollectiveGroup
from chronoscale.simulator.network.links import LinkGraph, topology
from chronoscale.simulator.network.measured.rates import MeasuredRate
from chronoscale.simulator.network.measured.table import MeasuredTable, Setup
from chronoscale.simulator.network.nccl import NcclModel, constants_of
from chronoscale.simulator.network.patterns import Patterns
from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.schedule import Ints, Op

FASTER = 1.02  # times its bandwidth that a link may be measured at: figures are rounded


class Figures(NamedTuple):
    """Figures of a simulated cluster's file that are fitted to measurements.

    inside, across: efficiencies of the links in machines and between them (0 to 1); inside_s, across_s: their latencies (s); base: factor
    of what NCCL takes before the first hop; nvls, nvls_network: speeds of reductions in NVSwitch (0 to 1); sends_inside, sends_across: how
    many sends are under way at once, sends_s: what they take before the first hop (s).
    """

    inside: float
    across: float
    inside_s: float
    across_s: float
    base: float
    nvls: float
    nvls_network: float
    sends_inside: float
    sends_across: float
    sends_s: float

    @classmethod
    def of(cls, cluster: Cluster) -> Figures:
        """Return the figures that a cluster has."""
        constants, kind = constants_of(cluster), _kind(cluster)
        intra, inter, speed, sends = cluster.intra, cluster.inter, constants.speed, constants.sends_at_once
        links = intra.efficiency, inter.efficiency, intra.latency_s, inter.latency_s
        return cls(*links, 1.0, speed.nvls, speed.nvls_network, getattr(sends, kind), sends.network, constants.base_latency_s.sends)

    def put_into(self, cluster: Cluster) -> Cluster:
        """Return a cluster with these figures."""
        constants, kind = constants_of(cluster), _kind(cluster)
        sends = constants.sends_at_once.model_copy(update={kind: self.sends_inside, "network": self.sends_across})
        changes = {
            "base_latency_s": constants.base_latency_s.times(self.base).model_copy(update={"sends": self.sends_s}),
            "speed": constants.speed.model_copy(update={"nvls": self.nvls, "nvls_network": self.nvls_network}),
            "sends_at_once": sends,
        }
        return replace(
            cluster,
            intra=Link(cluster.intra.bandwidth, self.inside_s, self.inside),
            inter=Link(cluster.inter.bandwidth, self.across_s, self.across),
            tuning=constants.model_copy(update=changes),
        )


LOW = Figures(0.05, 0.05, 2e-7, 1e-6, 0.1, 0.05, 0.05, 1.0, 1.0, 1e-6)
HIGH = Figures(1.0, 1.0, 1e-4, 1e-3, 10.0, 1.0, 1.0, 1e4, 1e4, 1e-3)


@dataclass(frozen=True, slots=True, eq=False)
class TableError:
    """Errors of a simulated cluster's times against a measured table: predicted over measured, less 1, float64 [rows]; fitted: which rows
    were fitted to, bool [rows]."""

    table: MeasuredTable
    errors: Floats
    fitted: np.ndarray[tuple[int], np.dtype[np.bool_]]

    def median(self, fitted: bool) -> float:
        """Return the median of the errors' sizes over the rows that were `fitted` to, or over the others; NaN where there are none."""
        sizes = np.abs(self.errors[self.fitted == fitted])
        return float(np.median(sizes)) if len(sizes) else float("nan")


def predicted(cluster: Cluster, table: MeasuredTable) -> Floats:
    """Return what a cluster's model says the operations of a measured table take, float64 [n] s.

    Raises UserError where machines of the cluster have fewer GPUs than were measured, or its collectives are not timed as NCCL builds them.
    """
    setup = table.setup
    if cluster.collectives != "nccl":
        raise UserError(
            f"{table.path}: '{cluster.name}' has collectives: {cluster.collectives}; links are fitted by NCCL's model, leave the key out"
        )
    if setup.gpus > cluster.gpus_per_node:
        raise UserError(f"{table.path}: measured with {setup.gpus} GPUs a machine, and '{cluster.name}' has {cluster.gpus_per_node}")
    machines = replace(cluster, nodes=setup.nodes)
    model = NcclModel.of(machines, Patterns(LinkGraph.of(machines)), setup.algorithm, setup.switched)
    ranks = (np.arange(setup.nodes)[:, None] * cluster.gpus_per_node + _chosen(setup, cluster)).ravel()
    index, result = np.arange(len(table)), CollectiveCosts.unknown(len(table))
    if table.op is Op.SEND:  # each rank to the next one: the slowest crosses the network where there is one
        source = np.full(len(table), ranks[setup.gpus - 1 if setup.nodes > 1 else 0])
        target = np.full(len(table), ranks[setup.gpus if setup.nodes > 1 else 1])
        model.time_messages(index, source, target, table.bytes, result)
    else:
        model.time_group(CollectiveGroup(table.op, index, ranks, np.tile(table.bytes, (len(ranks), 1))), result)
    return result.seconds


def _chosen(setup: Setup, cluster: Cluster) -> Ints:
    """Return which GPUs of a machine took part: spread over its network cards where not all did."""
    return np.arange(setup.gpus) * (cluster.gpus_per_node // setup.gpus)


def fit(cluster: Cluster, tables: Sequence[MeasuredTable], rates: Sequence[MeasuredRate] = ()) -> Cluster:
    """Fit a cluster's links to measurements and return it with what was found; figures that no measurement depends on stay as they are.

    Least squares of the logarithm of predicted over measured time, each table as much as any other. rates: of single links; those of the
    bus go into the device. Raises UserError for a rate above a link's bandwidth, naming file and line.
    """
    from scipy.optimize import least_squares  # noqa: PLC0415 (heavy, and no simulation comes here)

    for rate in rates:
        cluster = _with_rate(cluster, rate)
    if not tables:
        return cluster
    usual, (low, high) = Figures.of(cluster), (np.log(figures) for figures in (LOW, HIGH))
    start = np.log(np.clip(usual, np.exp(low + 1e-3), np.exp(high - 1e-3)))
    weights = [1 / np.sqrt(len(table)) for table in tables]
    measured = {place for place in ("intra", "inter") if any(rate.place == place for rate in rates)}

    def errors(values: Floats) -> Floats:
        tried = Figures(*np.exp(values)).put_into(cluster)
        return np.concatenate([w * np.log(predicted(tried, t) / t.seconds) for w, t in zip(weights, tables, strict=True)])

    usual_errors = errors(start)

    def moves(which: int) -> bool:
        """Whether any time depends on a figure."""
        others = []
        for share in (0.2, 0.8):
            tried = start.copy()
            tried[which] = low[which] + share * (high[which] - low[which])
            others.append(errors(tried))
        return bool(np.abs(np.array(others) - usual_errors).max() > 1e-9)

    fixed = {Figures._fields.index(name) for name, place in (("inside", "intra"), ("across", "inter")) if place in measured}
    free = [which for which in range(len(start)) if which not in fixed and moves(which)]

    def of_free(values: Floats) -> Floats:
        tried = start.copy()
        tried[free] = values
        return errors(tried)

    solution = least_squares(of_free, start[free], bounds=(low[free], high[free]), loss="soft_l1", f_scale=0.2, diff_step=1e-3)
    fitted = dict(zip(free, np.exp(solution.x).tolist(), strict=True))
    return Figures(*(fitted.get(which, figure) for which, figure in enumerate(usual))).put_into(cluster)


def _with_rate(cluster: Cluster, rate: MeasuredRate) -> Cluster:
    """Return a cluster one of whose links reaches a measured rate. Raises UserError where that is more than its bandwidth."""
    link = cluster.device.h2d if rate.place == "h2d" else getattr(cluster, rate.place)
    whole = link.bandwidth
    if rate.place == "inter":  # of one network card
        whole *= cluster.gpus_per_node / topology(cluster).nics
    if rate.rate > whole * FASTER:
        raise UserError(
            f"{rate.path}:{rate.line}: {rate.rate / 1e9:.4g} GB/s over {rate.place} of {whole / 1e9:.4g} GB/s: no link is faster than it "
            "is built; another unit, another cluster, or both directions together?"
        )
    changed = replace(link, efficiency=min(rate.rate / whole, 1.0))
    if rate.place == "h2d":
        return replace(cluster, device=replace(cluster.device, h2d=changed))
    return replace(cluster, intra=changed) if rate.place == "intra" else replace(cluster, inter=changed)


def _kind(cluster: Cluster) -> str:
    return topology(cluster).peer
