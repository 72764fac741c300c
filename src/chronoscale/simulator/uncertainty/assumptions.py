"""Assumptions of a simulation: the one list of what is not known of a cluster, with the range that each may lie in, and where that is from.

A plan stays as it is, and its epoch is replayed with other values. Of fitted costs only the assumptions about the network, jitter and
stragglers remain: the others were measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from chronoscale.simulator.network.links import topology
from chronoscale.simulator.network.nccl import tuning
from chronoscale.simulator.uncertainty.spec import Stragglers, Uncertainty
from chronoscale.strategies.cluster import Cluster, Device, Link
from chronoscale.strategies.costing.roofline import work_kinds
from chronoscale.strategies.costs import CostModel, DatasheetCosts, Floats, SpecifiedCosts
from chronoscale.strategies.schedule import Ints, Op, Schedule
from chronoscale.strategies.topology import Topology
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


class Assumption(NamedTuple):
    """Assumption of a simulation, such as what share of its line rate the network reaches, with the range that it may lie in.

    low, high: its ends; form: how a value is written; source: where the range is from. usual: the value in a scenario, None where it
    matters nothing there; change: the scenario with another value. log: drawn by its logarithm; whole: whole numbers alone. measured: a
    profile of the device replaces it.
    """

    name: str
    low: float
    high: float
    form: str
    source: str
    usual: Callable[[Scenario], float | None]
    change: Callable[[Scenario, float], Scenario]
    log: bool = False
    whole: bool = False
    measured: bool = False

    def value(self, place: float) -> float:
        """Return the value at a place in the range, 0 to 1: evenly, or by the logarithm."""
        if self.whole:
            return float(min(self.high, self.low + np.floor(place * (self.high - self.low + 1))))
        return float(self.low * (self.high / self.low) ** place if self.log else self.low + place * (self.high - self.low))

    def shown(self, value: float) -> str:
        """Return a value in words."""
        return self.form.format(value)


def _device(change: Callable[[Device], Device]) -> Callable[[Scenario], Scenario]:
    """Return a change of the cluster's device, and of costs that are computed from its datasheet."""

    def changed(scenario: Scenario) -> Scenario:
        device = change(scenario.cluster.device)
        costs = scenario.costs.on_device(device) if isinstance(scenario.costs, SpecifiedCosts) else scenario.costs
        return scenario._replace(cluster=replace(scenario.cluster, device=device), costs=costs)

    return changed


def _topology(scenario: Scenario, change: Callable[[Topology], Topology]) -> Scenario:
    return scenario._replace(cluster=replace(scenario.cluster, topology=change(topology(scenario.cluster))))


def _bus(change: Callable[[Link, float], Link]) -> Callable[[Scenario, float], Scenario]:
    return lambda scenario, value: _device(lambda device: replace(device, h2d=change(device.h2d, value)))(scenario)


def _uplinks(scenario: Scenario, share: float) -> Scenario:
    def slower(keys: Topology) -> Topology:
        assert keys.switches is not None
        return keys.model_copy(update={"switches": keys.switches.model_copy(update={"efficiency": share})})

    return _topology(scenario, slower)


def _uplink_share(scenario: Scenario) -> float | None:
    switches = topology(scenario.cluster).switches
    return None if switches is None else switches.efficiency


def _on_an_uplink(scenario: Scenario) -> float | None:
    """Return how many GPUs share an uplink where that is two, as boards that papers do not name may have it."""
    switches = topology(scenario.cluster).switches
    return 2.0 if switches is not None and switches.gpus == 2 else None


def _board(scenario: Scenario, gpus: float) -> Scenario:
    return scenario if gpus == 2 else _topology(scenario, lambda keys: keys.model_copy(update={"switches": None}))


def _inside(change: Callable[[Link, float], Link]) -> Callable[[Scenario, float], Scenario]:
    return lambda scenario, value: scenario._replace(cluster=replace(scenario.cluster, intra=change(scenario.cluster.intra, value)))


def _across(change: Callable[[Link, float], Link]) -> Callable[[Scenario, float], Scenario]:
    return lambda scenario, value: scenario._replace(cluster=replace(scenario.cluster, inter=change(scenario.cluster.inter, value)))


def _reaching(link: Link, share: float) -> Link:
    return replace(link, efficiency=share)


def _later(link: Link, times: float) -> Link:
    return replace(link, latency_s=link.latency_s * times)


def _sends(scenario: Scenario, times: float) -> Scenario:
    constants = scenario.cluster.tuning or tuning()
    sends = {name: max(1.0, count * times) for name, count in constants.sends_at_once}
    changes = {"sends_at_once": constants.sends_at_once.model_copy(update=sends)}
    return scenario._replace(cluster=replace(scenario.cluster, tuning=constants.model_copy(update=changes)))


def _reaches(kind: str) -> tuple[Callable[[Scenario], float | None], Callable[[Scenario, float], Scenario]]:
    """Return the usual value and the change of what share of a device's peak a kind of work reaches."""

    def usual(scenario: Scenario) -> float | None:
        by_kind = isinstance(scenario.costs, DatasheetCosts) and scenario.costs.efficiency is None
        return next((each.share for each in work_kinds().values() if each.name == kind), None) if by_kind else None

    def changed(scenario: Scenario, share: float) -> Scenario:
        assert isinstance(scenario.costs, DatasheetCosts)
        reached = dict(scenario.costs.reached) | {kind: share}
        return scenario._replace(costs=replace(scenario.costs, reached=tuple(reached.items())))

    return usual, changed


def _launch(scenario: Scenario, times: float) -> Scenario:
    return _device(lambda device: replace(device, launch_s=device.launch_s * times, graph_s=device.graph_s * times))(scenario)


def _kernels(scenario: Scenario, times: float) -> Scenario:
    counts = np.maximum(np.rint(scenario.schedule.kernels * times), np.minimum(scenario.schedule.kernels, 1)).astype(
        scenario.schedule.kernels.dtype
    )
    return scenario._replace(schedule=replace(scenario.schedule, kernels=counts))


def _uncertain(**keys: float | Stragglers) -> Callable[[Scenario], Scenario]:
    return lambda scenario: scenario._replace(uncertainty=replace(scenario.uncertainty, **keys))  # type: ignore[arg-type]


def _features(scenario: Scenario, resent: float) -> Scenario:
    """Return a scenario whose copies of snapshots leave out features that the rank's device has of the iteration's first copy."""
    if resent:
        return scenario
    schedule = scenario.schedule
    moved = schedule.bytes.copy()
    moved[_later_copies(schedule, scenario.constant_bytes)] -= scenario.constant_bytes
    return scenario._replace(schedule=replace(schedule, bytes=moved))


def _later_copies(schedule: Schedule, constant_bytes: int) -> Ints:
    """Return the copies to devices that hold features, but each rank's first of an iteration; rows of a schedule, int64 [any]."""
    rows = schedule.tasks(Op.H2D)
    rows = rows[schedule.bytes[rows] >= constant_bytes]
    _, first = np.unique(schedule.rank[rows].astype(np.int64) * (schedule.iterations + 1) + schedule.iteration[rows] + 1, return_index=True)
    return np.delete(rows, first)


def _resends(scenario: Scenario) -> float | None:
    """Return 1 where later copies hold features; of fitted costs none is drawn: smaller copies may be outside of what was profiled."""
    if not scenario.constant_bytes or not isinstance(scenario.costs, SpecifiedCosts):
        return None
    return 1.0 if len(_later_copies(scenario.schedule, scenario.constant_bytes)) else None


def _one(scenario: Scenario) -> float | None:
    return 1.0


def _none(scenario: Scenario) -> float | None:
    return 0.0


def _one_inside(scenario: Scenario) -> float | None:
    return 1.0 if _meets_inside(scenario) else None


def _one_of_sends(scenario: Scenario) -> float | None:
    """Return 1 where collectives are timed as NCCL builds them."""
    cluster = scenario.cluster
    alpha_beta = cluster.collectives == "alpha-beta" or cluster.origin.startswith("fitted")
    return 1.0 if scenario.schedule.ranks > 1 and not alpha_beta else None


def _meets_inside(scenario: Scenario) -> bool:
    """Return whether ranks share a machine."""
    return min(scenario.cluster.gpus_per_node, scenario.schedule.ranks) > 1


def _meets_across(scenario: Scenario) -> bool:
    """Return whether ranks are on several machines."""
    return scenario.schedule.ranks > scenario.cluster.gpus_per_node


_FACTOR = "a factor of two: no datasheet has it, and hosts differ"
_COPIES = "pinned copies reach 0.83 to 0.88 (nvbandwidth), pageable ones less, the rate of data 0.95"
_STATED = "stated, not measured"
ASSUMPTIONS = (
    Assumption(
        "GPUs on a PCIe uplink", 1, 2, "{:.0f}", "as HGX boards are built, or lanes of its own to each", _on_an_uplink, _board, whole=True
    ),
    Assumption(
        "what copies reach of PCIe", 0.75, 0.95, "{:.0%}", _COPIES, lambda s: s.cluster.device.h2d.efficiency,
        _bus(_reaching), measured=True,
    ),
    Assumption("what PCIe uplinks reach", 0.75, 0.95, "{:.0%}", _COPIES, _uplink_share, _uplinks),
    Assumption("latency of copies", 0.5, 2, "× {:.3g}", _FACTOR, _one, _bus(_later), log=True, measured=True),
    Assumption(
        "what links in machines reach", 0.65, 0.9, "{:.0%}", "NCCL reaches 0.8 of NVLink (src/graph/topo.h), copies 0.83 of PCIe",
        lambda s: s.cluster.intra.efficiency if _meets_inside(s) else None, _inside(_reaching),
    ),
    Assumption("latency in machines", 0.5, 2, "× {:.3g}", _FACTOR, _one_inside, _inside(_later), log=True),
    Assumption(
        "what the network reaches", 0.5, 0.98, "{:.0%}", "shared with others, to 49 of 50 GB/s (nccl-tests)",
        lambda s: s.cluster.inter.efficiency if _meets_across(s) else None, _across(_reaching),
    ),
    Assumption(
        "latency of the network", 0.5, 2, "× {:.3g}", "a factor of two: hops between leaf and spine switches",
        lambda s: 1.0 if _meets_across(s) else None, _across(_later), log=True,
    ),
    Assumption(
        "sends at once in all-to-alls", 1 / 8, 8, "× {:.3g}", "as fitted, times or over eight: tables of many GPUs are few",
        _one_of_sends, _sends, log=True,
    ),
    Assumption(
        "what passes over arrays reach", 0.7, 0.95, "{:.0%}", "of the memory: vector additions 0.86 to 0.92 on an H200, small ones less",
        *_reaches("stream"), measured=True,
    ),
    Assumption(
        "what reads of scattered rows reach", 0.3, 0.8, "{:.0%}", "of the memory: by width and locality of rows", *_reaches("gather"),
        measured=True,
    ),
    Assumption(
        "what dense products reach", 0.3, 0.9, "{:.0%}", "of the peak: tall and narrow matrices, to square ones", *_reaches("dense"),
        measured=True,
    ),
    Assumption(
        "memory that kernels share", 0.8, 0.95, "{:.0%}", "of the peak, all kernels together (BabelStream)",
        lambda s: s.cluster.device.memory_efficiency, lambda s, v: _device(lambda device: replace(device, memory_efficiency=v))(s),
        measured=True,
    ),
    Assumption(
        "kernels of an operation", 0.5, 2, "× {:.3g}", "a factor of two: fused by hand, or as a framework has them", _one, _kernels,
        log=True, measured=True,
    ),
    Assumption("launch of a kernel", 0.5, 2, "× {:.3g}", _FACTOR, _one, _launch, log=True, measured=True),
    Assumption(
        "features sent with every snapshot", 0, 1, "{:.0f}", "constant ones may stay on the device for a group: 0", _resends, _features,
        whole=True,
    ),
    Assumption("jitter of rows", 0, 0.2, "{:.0%}", _STATED, _none, lambda s, v: _uncertain(jitter=v)(s)),
    Assumption("sway of ranks", 0, 0.2, "{:.0%}", _STATED, _none, lambda s, v: _uncertain(sway=v)(s)),
    Assumption(
        "slowest GPU", 1, 1.5, "× {:.3g}", "outliers of identical GPUs are up to 1.5 times slower than the median (Sinha et al., SC 2022)",
        _one, lambda s, v: _uncertain(stragglers=Stragglers(1, "gpu", v))(s) if v > 1 else s,
    ),
)  # fmt: skip


def assumptions_of(scenario: Scenario) -> tuple[Assumption, ...]:
    """Return the assumptions that matter in a scenario: those that it has, and of measured costs those that nothing measured."""
    specified = isinstance(scenario.costs, SpecifiedCosts)
    return tuple(each for each in ASSUMPTIONS if (specified or not each.measured) and each.usual(scenario) is not None)


def assume(scenario: Scenario, assumptions: Sequence[Assumption], values: Sequence[float] | Floats) -> Scenario:
    """Return a scenario with other values of some assumptions, one each; what a value does not matter to stays as it is."""
    for assumption, value in zip(assumptions, values, strict=True):
        if (usual := assumption.usual(scenario)) is not None and value != usual:
            scenario = assumption.change(scenario, float(value))
    return scenario
