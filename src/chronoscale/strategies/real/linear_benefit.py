"""Group times and savings by REAL's own model of costs (Appendix G, eq. 16 to 18): linear in counts, savings by a ratio."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.costs import CostModel, Floats
from chronoscale.strategies.real.benefit import Benefit, compute_benefit
from chronoscale.strategies.snapshots.lowering import Reuse
from chronoscale.strategies.workload import Workload

REAL_REUSE = Reuse(snapshots=True, groups=True)


@dataclass(frozen=True, slots=True)
class SnapshotLaw:
    """REAL's eq. 16: the time of a snapshot, linear in its nodes and edges, ns.

    a_node, a_edge: ns of each; constant: ns.
    """

    a_node: float
    a_edge: float
    constant: float

    @classmethod
    def fit(cls, workload: Workload, costs: CostModel) -> SnapshotLaw:
        """Fit the law to the times of the workload's snapshots, in full and as further ones of a group, as REAL fits it to profiled ones.

        A further snapshot's time is what a group of two takes beyond its first alone; its counts are of what changed. costs: what these
        times are predicted with. Least squares; counts that do not vary get coefficients of 0. Raises UserError for a workload that is no
        sequence of snapshots, or too short a one.
        """
        of, hyper = workload.snapshots, workload.hyper
        single, pair = (compute_benefit(replace(workload, hyper=replace(hyper, group_size=size, stride=1)), costs).times for size in (1, 2))
        n = len(pair)
        times = np.concatenate([single, pair - single[:n]])
        nodes = np.concatenate([of.nodes[: len(single)], of.changed_nodes[1 : n + 1]])
        edges = np.concatenate([of.edges[: len(single)], of.changed_edges[1 : n + 1]])
        columns = np.stack([nodes, edges, np.ones(len(times))], axis=1).astype(np.float64)
        scale = np.maximum(columns.max(axis=0), 1.0)
        varies = np.array([nodes.min() < nodes.max(), edges.min() < edges.max(), True])
        coefficients = np.zeros(3)
        coefficients[varies] = np.linalg.lstsq(columns[:, varies] / scale[varies], times, rcond=None)[0] / scale[varies]
        return cls(*coefficients.tolist())

    def time(self, nodes: Floats, edges: Floats) -> Floats:
        """Return the times of snapshots, float64 ns, at least 0. nodes, edges: their counts, or those that changed, float64."""
        return np.maximum(self.a_node * nodes + self.a_edge * edges + self.constant, 0.0)


def linear_benefit(
    workload: Workload, costs: CostModel, ratio: float, law: SnapshotLaw | None = None, reuse: Reuse = REAL_REUSE
) -> Benefit:
    """Estimate the times of snapshot groups and what pairs save by REAL's eq. 16 to 18, as an alternative to `compute_benefit`; whole ns.

    A group takes its first snapshot's time (eq. 16) and, for each further one, that of as many nodes and edges as changed. Groups i and j
    of size tw save `ratio` times the times of snapshots i+1 to i+tw-(j-i), as eq. 17 is printed: further ones, in group i. ratio: the
    paper's RATIO, 0 to 1, which it does not print. law: eq. 16's coefficients, which it does not print either; None: they are fitted to
    `costs`. reuse: without that of snapshots each one takes its own time in full, without that of groups pairs save nothing. Raises
    UserError for a ratio outside 0 to 1, and for a workload that is no sequence of snapshots.
    """
    if not 0 <= ratio <= 1:
        raise UserError(f"linear_benefit: ratio {ratio}; expected 0 to 1, the share of the times of shared snapshots that is saved")
    of, hyper, n = workload.snapshots, workload.hyper, workload.groups
    law = SnapshotLaw.fit(workload, costs) if law is None else law
    size, stride = hyper.group_size, hyper.stride
    full = law.time(of.nodes.astype(np.float64), of.edges.astype(np.float64))
    later = law.time(of.changed_nodes.astype(np.float64), of.changed_edges.astype(np.float64))
    begins = np.arange(n) * stride
    total = np.concatenate([[0.0], np.cumsum(later if reuse.snapshots else full)])
    times = full[begins] + total[begins + size] - total[begins + 1]
    band = max((size - 1) // stride, 1)
    saved = np.zeros((n, band))
    for apart in range(1, (size - 1) // stride + 1) if reuse.groups else ():
        first = begins[: max(n - apart, 0)]
        saved[: len(first), apart - 1] = ratio * (total[first + 1 + size - apart * stride] - total[first + 1])
    return Benefit(np.round(times), np.floor(saved))
