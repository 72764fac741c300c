"""Assumptions of a simulation, each replaced by what it might be instead, one at a time: what an answer rests on.

A plan stays as it is, and its epoch is replayed with one assumption changed to the low and to the high end of its range. Of fitted costs
only the assumptions about the network, jitter and stragglers remain: the others were measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from chronoscale.simulator.network.links import topology
from chronoscale.simulator.sharing.uncontended import UncontendedRows
from chronoscale.simulator.uncertainty.draws import Draws
from chronoscale.simulator.uncertainty.spec import Stragglers, Uncertainty
from chronoscale.strategies.cluster import Cluster, Device, Link
from chronoscale.strategies.costs import CostModel, DatasheetCosts
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.topology import Topology

DRAWS = 5  # replays of what differs from draw to draw; their median counts


class Scenario(NamedTuple):
    """Cluster, cost model and uncertainty that an epoch is simulated with."""

    cluster: Cluster
    costs: CostModel
    uncertainty: Uncertainty


Change = Callable[[Scenario], Scenario]


class Assumption(NamedTuple):
    """Assumption of a simulation, such as the bandwidth of the network, with the range that it may lie in.

    low, high: its ends in words; source: where the range is from; lower, upper: what the ends change, None for what is simulated anyway.
    measured: a profile of the device replaces it.
    """

    name: str
    low: str
    high: str
    source: str
    lower: Change | None
    upper: Change | None
    measured: bool = False  # a profile of the device replaces it


def _device(change: Callable[[Device], Device]) -> Change:
    """Return a change of the cluster's device, and of costs that are computed from its datasheet."""

    def changed(scenario: Scenario) -> Scenario:
        device = change(scenario.cluster.device)
        costs = replace(scenario.costs, device=device) if isinstance(scenario.costs, DatasheetCosts) else scenario.costs
        return Scenario(replace(scenario.cluster, device=device), costs, scenario.uncertainty)

    return changed


def _efficiency(share: float) -> Change:
    return lambda scenario: scenario._replace(
        costs=replace(scenario.costs, efficiency=share) if isinstance(scenario.costs, DatasheetCosts) else scenario.costs
    )


def _launch(times: float) -> Change:
    return _device(lambda device: replace(device, launch_s=device.launch_s * times, graph_s=device.graph_s * times))


def _memory(times: float) -> Change:
    return _device(lambda device: replace(device, memory_bandwidth=device.memory_bandwidth * times))


def _bus(bandwidth: float, latency: float = 1.0) -> Change:
    """Return a change of the bus between device and host by these factors."""

    def changed(scenario: Scenario) -> Scenario:
        changed_device = _device(lambda device: replace(device, h2d=_link(device.h2d, bandwidth, latency)))(scenario)
        return changed_device._replace(
            cluster=replace(changed_device.cluster, topology=_scale_switches(changed_device.cluster.topology, bandwidth))
        )

    return changed


def _scale_switches(keys: Topology | None, bandwidth: float) -> Topology | None:
    """Return a topology whose PCIe switches have links to the host that are `bandwidth` times as fast."""
    if keys is None or keys.switches is None:
        return keys
    return keys.model_copy(update={"switches": keys.switches.model_copy(update={"bandwidth": keys.switches.bandwidth * bandwidth})})


def _network(bandwidth: float, latency: float = 1.0) -> Change:
    return lambda scenario: scenario._replace(cluster=replace(scenario.cluster, inter=_link(scenario.cluster.inter, bandwidth, latency)))


def _inside(bandwidth: float, latency: float = 1.0) -> Change:
    return lambda scenario: scenario._replace(cluster=replace(scenario.cluster, intra=_link(scenario.cluster.intra, bandwidth, latency)))


def _sharing(contention: bool) -> Change:
    return lambda scenario: scenario._replace(cluster=replace(scenario.cluster, contention=contention))


def _link(link: Link, bandwidth: float, latency: float) -> Link:
    """Return a link changed by these factors."""
    return Link(link.bandwidth * bandwidth, link.latency_s * latency)


def _uncertain(**keys: float | Stragglers) -> Change:
    return lambda scenario: scenario._replace(uncertainty=replace(scenario.uncertainty, **keys))  # type: ignore[arg-type]


_FACTOR = "a factor of two: no datasheet has it, and hosts differ"
_LINE = "half of the line rate, where links are shared, to all of it"
ASSUMPTIONS = (
    Assumption(
        "kernel efficiency",
        "0.3",
        "0.9",
        "of peak: scattered rows, to vector additions (0.86 to 0.92 on an H200: github.com/XAheli/Kernel-Profiling)",
        _efficiency(0.3),
        _efficiency(0.9),
        measured=True,
    ),
    Assumption("kernel launch", "× 0.5", "× 2", _FACTOR, _launch(0.5), _launch(2.0), measured=True),
    Assumption(
        "memory bandwidth",
        "× 0.8",
        "× 1",
        "datasheets state the peak; other kernels and refreshes take some",
        _memory(0.8),
        None,
        measured=True,
    ),
    Assumption("PCIe bandwidth", "× 0.5", "× 1", "copies from pageable memory, to the bus's rate", _bus(0.5), None, measured=True),
    Assumption("PCIe latency", "× 0.5", "× 2", _FACTOR, _bus(1.0, 0.5), _bus(1.0, 2.0), measured=True),
    Assumption("network bandwidth", "× 0.5", "× 1", _LINE, _network(0.5), None),
    Assumption(
        "network latency", "× 0.5", "× 2", "a factor of two: hops between leaf and spine switches", _network(1.0, 0.5), _network(1.0, 2.0)
    ),
    Assumption("bandwidth inside a node", "× 0.5", "× 1", _LINE, _inside(0.5), None),
    Assumption("latency inside a node", "× 0.5", "× 2", _FACTOR, _inside(1.0, 0.5), _inside(1.0, 2.0)),
    Assumption("contention", "none", "as modelled", "rows side by side, each as if it ran alone", _sharing(False), _sharing(True)),
    Assumption("jitter of rows", "none", "20 %", "stated, not measured", None, _uncertain(jitter=0.2)),
    Assumption("sway of ranks", "none", "20 %", "stated, not measured", None, _uncertain(sway=0.2)),
    Assumption(
        "slowest GPU",
        "× 1",
        "× 1.5",
        "outliers of identical GPUs are up to 1.5 times slower than the median (Sinha et al., SC 2022)",
        None,
        _uncertain(stragglers=Stragglers(1, "gpu", 1.5)),
    ),
)


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of one assumption on a simulated epoch: its seconds with the assumption at either end of its range.

    low, high, source: the ends in words, and where the range is from. epoch_s: with none changed, and without jitter.
    """

    assumption: str
    low: str
    high: str
    source: str
    epoch_s: float
    low_s: float
    high_s: float

    @property
    def size(self) -> float:
        """Return the larger of the two changes of the epoch, relative to it."""
        return max(abs(self.low_s - self.epoch_s), abs(self.high_s - self.epoch_s)) / self.epoch_s if self.epoch_s else 0.0


def effects(schedule: Schedule, cluster: Cluster, costs: CostModel, uncertainty: Uncertainty, seed: int) -> tuple[Effect, ...]:
    """Simulate a schedule with each assumption at both ends of its range and return the effects that change the epoch.

    Classes of devices stay as stated; jitter, sway and stragglers are assumptions here. Raises UserError when the cluster has too few
    devices, when `costs` does not know a row, and when ranks wait for one another in a cycle.
    """
    explicit = replace(cluster, topology=topology(cluster))  # a topology that was only assumed stays when bandwidths change
    plain = Scenario(explicit, costs, Uncertainty(classes=uncertainty.classes))
    uncontended = UncontendedRows.of(schedule, explicit, costs)
    epoch_s = _epoch_s(schedule, plain, uncontended, seed)

    def end_s(change: Change | None) -> float:
        """Return the seconds of the epoch after a change; None changes nothing."""
        if change is None or (scenario := change(plain)) == plain:
            return epoch_s
        unchanged = scenario.cluster == explicit and scenario.costs is costs
        rows = uncontended if unchanged else UncontendedRows.of(schedule, scenario.cluster, scenario.costs)
        return _epoch_s(schedule, scenario, rows, seed)

    def effect(assumption: Assumption) -> Effect:
        low_s, high_s = end_s(assumption.lower), end_s(assumption.upper)
        return Effect(assumption.name, assumption.low, assumption.high, assumption.source, epoch_s, low_s, high_s)

    from_datasheet = isinstance(costs, DatasheetCosts)
    tried = [effect(assumption) for assumption in ASSUMPTIONS if from_datasheet or not assumption.measured]
    return tuple(result for result in tried if result.size > 0)


def _epoch_s(schedule: Schedule, scenario: Scenario, uncontended: UncontendedRows, seed: int) -> float:
    """Return the seconds of an epoch, the median of DRAWS draws where draws differ."""
    draws = DRAWS if scenario.uncertainty.random else 1
    return float(np.median(Draws.of(schedule, *scenario, seed, uncontended).spans(draws))) / 1e9
