"""Scenario: what an epoch is simulated with, of which assumptions change parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from chronoscale.simulator.network.links import topology
from chronoscale.simulator.uncertainty.spec import Uncertainty
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace


class Scenario(NamedTuple):
    """What an epoch is simulated with: schedule, cluster, cost model and uncertainty.

    constant_bytes: of a snapshot's input features, which its copies to a device hold, where they do not change with the snapshot; else 0.
    seconds: how the epoch's time is read off a trace of the schedule, where few of its steps are planned; None: from begin to end.
    """

    schedule: Schedule
    cluster: Cluster
    costs: CostModel
    uncertainty: Uncertainty
    constant_bytes: int = 0
    seconds: Callable[[Schedule, Trace], float] | None = None

    @property
    def explicit(self) -> Scenario:
        """The same with the topology that the cluster has: one that was only assumed stays when bandwidths change."""
        return self._replace(cluster=replace(self.cluster, topology=topology(self.cluster)))
