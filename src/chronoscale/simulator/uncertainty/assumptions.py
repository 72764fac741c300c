"""Assumptions of a simulation: the one list of what is not known of a cluster, with the range that each may lie in, and where that is from.

A plan stays as it is, and its epoch is replayed with other values. Of fitted costs only the assumptions about the network, jitter and
stragglers remain: the others were measured. What an experiment states of its uncertainty is what is usual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from chronoscale.simulator.network.links import topology
from chronoscale.simulator.network.nccl import constants_of
from chronoscale.simulator.network.traffic import links_are_measured
from chronoscale.simulator.uncertainty.scenario import Scenario
from chronoscale.simulator.uncertainty.sent_changes import usual_times, with_times
from chronoscale.simulator.uncertainty.spec import Stragglers
from chronoscale.strategies.cluster import Device, Link
from chronoscale.strategies.costing.roofline import work_kinds
from chronoscale.strategies.costs import Assumed, DatasheetCosts, Floats, SpecifiedCosts
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Op, Schedule
from chronoscale.strategies.topology import Topology


class Assumption(NamedTuple):
    """Assumption of a simulation, such as what share of its line rate the network reaches, with the range that it may lie in.

    low, high: its ends; form: how a value is written; source: where the range is from. usual: the value in a scenario, None where it
    matters nothing there; change: the scenario with another value. log: drawn by its logarithm; whole: whole numbers alone. measured: a
    profile of the device replaces it. noise: what it changes is drawn at random, so that no single value turns an order.
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
    noise: bool = False

    def value(self, place: float) -> float:
        """Return the value at a place in the range, 0 to 1: evenly, or by the logarithm."""
        if self.whole:
            return float(min(self.high, self.low + np.floor(place * (self.high - self.low + 1))))
        return float(self.low * (self.high / self.low) ** place if self.log else self.low + place * (self.high - self.low))

    def around(self, usual: float) -> Assumption:
        """Return the assumption with a range that has the usual value in it."""
        return self._replace(low=min(self.low, usual), high=max(self.high, usual))

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


def _most_channels(scenario: Scenario) -> float | None:
    cluster = scenario.cluster
    if not (cluster.contention and cluster.device.sms) or links_are_measured(cluster) or not _does(scenario, *COLLECTIVES):
        return None
    return constants_of(cluster).channels.most


def _channels(scenario: Scenario, most: float) -> Scenario:
    constants = constants_of(scenario.cluster)
    changed = constants.model_copy(update={"channels": constants.channels.model_copy(update={"most": most})})
    return scenario._replace(cluster=replace(scenario.cluster, tuning=changed))


def _later(link: Link, times: float) -> Link:
    return replace(link, latency_s=link.latency_s * times)


def _sends(scenario: Scenario, times: float) -> Scenario:
    constants = constants_of(scenario.cluster)
    sends = {name: max(1.0, count * times) for name, count in constants.sends_at_once}
    changes = {"sends_at_once": constants.sends_at_once.model_copy(update=sends)}
    return scenario._replace(cluster=replace(scenario.cluster, tuning=constants.model_copy(update=changes)))


def _reaches(kind: str) -> tuple[Callable[[Scenario], float | None], Callable[[Scenario, float], Scenario]]:
    """Return the usual value and the change of what share of a device's peak a kind of work reaches."""

    def usual(scenario: Scenario) -> float | None:
        if not isinstance(scenario.costs, DatasheetCosts) or scenario.costs.efficiency is not None:
            return None
        shares = {each.name: each.share for each in work_kinds().values()} | dict(scenario.costs.reached)
        return shares.get(kind)

    def changed(scenario: Scenario, share: float) -> Scenario:
        assert isinstance(scenario.costs, DatasheetCosts)
        reached = dict(scenario.costs.reached) | {kind: share}
        return scenario._replace(costs=replace(scenario.costs, reached=tuple(reached.items())))

    return usual, changed


def _taken(what: Assumed) -> Callable[[Scenario], float | None]:
    """Return what a cost model assumes of something; None where it assumes nothing of it, and where the schedule does nothing of it."""

    def usual(scenario: Scenario) -> float | None:
        counts = isinstance(scenario.costs, SpecifiedCosts) and (what == "efficiency" or _does(scenario, *_DONE_BY[what]))
        return scenario.costs.assumed.get(what) if counts else None  # type: ignore[attr-defined]

    return usual


def _does(scenario: Scenario, *ops: Op) -> bool:
    """Return whether a schedule has any of these operations."""
    return bool(np.isin(scenario.schedule.op, ops).any())


def _taking(what: Assumed) -> Callable[[Scenario, float], Scenario]:
    def changed(scenario: Scenario, value: float) -> Scenario:
        assert isinstance(scenario.costs, SpecifiedCosts)
        return scenario._replace(costs=scenario.costs.assuming(what, value))

    return changed


def _rate(what: Assumed) -> tuple[Callable[[Scenario], float | None], Callable[[Scenario, float], Scenario]]:
    """Return the usual multiple and the change of a figure that a cost model assumes."""

    def changed(scenario: Scenario, times: float) -> Scenario:
        usual = _taken(what)(scenario)
        assert usual is not None
        return _taking(what)(scenario, usual * times)

    return lambda scenario: None if _taken(what)(scenario) is None else 1.0, changed


def _launch(scenario: Scenario, times: float) -> Scenario:
    return _device(lambda device: replace(device, launch_s=device.launch_s * times, graph_s=device.graph_s * times))(scenario)


def _kernels(scenario: Scenario, times: float) -> Scenario:
    counts = np.maximum(np.rint(scenario.schedule.kernels * times), np.minimum(scenario.schedule.kernels, 1)).astype(
        scenario.schedule.kernels.dtype
    )
    return scenario._replace(schedule=replace(scenario.schedule, kernels=counts))


def _uncertain(**keys: float | Stragglers | None) -> Callable[[Scenario], Scenario]:
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


def _jitter(scenario: Scenario) -> float | None:
    """Return the jitter that is stated; None where it is that of a profile."""
    jitter = scenario.uncertainty.jitter
    return None if jitter == "fitted" else jitter


def _sway(scenario: Scenario) -> float | None:
    """Return the sway that is stated; None where it is that of a profile."""
    sway = scenario.uncertainty.sway
    return None if sway == "fitted" else sway


def _slowest(scenario: Scenario) -> float | None:
    stragglers = scenario.uncertainty.stragglers
    return 1.0 if stragglers is None else stragglers.factor


def _slow(scenario: Scenario, factor: float) -> Scenario:
    """Return a scenario whose stragglers, as stated or else one GPU, are so many times as slow."""
    stated = scenario.uncertainty.stragglers or Stragglers(1, "gpu")
    return _uncertain(stragglers=replace(stated, factor=factor) if factor > 1 else None)(scenario)


def _base(scenario: Scenario, times: float) -> Scenario:
    constants = constants_of(scenario.cluster)
    changed = constants.model_copy(update={"base_latency_s": constants.base_latency_s.times(times)})
    return scenario._replace(cluster=replace(scenario.cluster, tuning=changed))


def _one_inside(scenario: Scenario) -> float | None:
    return 1.0 if _meets_inside(scenario) else None


def _one_of_collectives(scenario: Scenario) -> float | None:
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


_DONE_BY: Mapping[Assumed, tuple[Op, ...]] = {
    "sample": (Op.SAMPLE,),
    "distinct": (Op.SAMPLE,),
    "gather": (Op.GATHER, Op.MEMORY_READ, Op.MEMORY_WRITE),
    "request": (Op.FETCH,),
    "engine": (Op.FETCH,),
}
_FACTOR = "a factor of two: no datasheet has it, and hosts differ"
_COPIES = "pinned copies reach 0.83 to 0.88 (nvbandwidth), pageable ones less, the rate of data 0.95"
_HOSTS = "a factor of two: solved from one of a paper's numbers, and hosts differ"
_ENGINE = "a factor of two: solved from one of a paper's numbers, or of Dask on another machine"
_STATED = "stated, not measured"
_TABLES = "fits to published tables (benchmarks/networks)"
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
        "what links in machines reach", 0.6, 0.9, "{:.0%}", f"{_TABLES}: 0.63 to 0.8; copies 0.88 of PCIe",
        lambda s: s.cluster.intra.efficiency if _meets_inside(s) else None, _inside(_reaching),
    ),
    Assumption("latency in machines", 0.5, 10, "× {:.3g}", f"{_TABLES}: 0.86 to 11 times NCCL's", _one_inside, _inside(_later), log=True),
    Assumption(
        "what the network reaches", 0.5, 0.99, "{:.0%}", f"shared with others; {_TABLES}: 0.64 to 0.99",
        lambda s: s.cluster.inter.efficiency if _meets_across(s) else None, _across(_reaching),
    ),
    Assumption(
        "latency of the network", 0.5, 15, "× {:.3g}", f"hops between leaf and spine switches; {_TABLES}: 2.1 to 15 times NCCL's",
        lambda s: 1.0 if _meets_across(s) else None, _across(_later), log=True,
    ),
    Assumption(
        "start of a collective", 0.25, 10, "× {:.3g}", f"before the first hop; {_TABLES}: 0.26 to 10 times NCCL's",
        _one_of_collectives, _base, log=True,
    ),
    Assumption(
        "sends at once in all-to-alls", 1 / 8, 8, "× {:.3g}", "as fitted, times or over eight: tables of many GPUs are few",
        _one_of_collectives, _sends, log=True,
    ),
    Assumption(
        "SMs that a collective takes", 2, 32, "{:.0f}", "so few and many channels may NCCL have",
        _most_channels, _channels, log=True,
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
        "what kernels reach of the peak", 0.3, 0.9, "{:.0%}", "one share for all: as scattered rows, to passes over arrays",
        _taken("efficiency"), _taking("efficiency"), measured=True,
    ),
    Assumption("what a host samples", 0.5, 2, "× {:.3g}", _HOSTS, *_rate("sample"), log=True, measured=True),
    Assumption("what a host copies", 0.5, 2, "× {:.3g}", _HOSTS, *_rate("gather"), log=True, measured=True),
    Assumption("ids that a host looks through", 0.5, 2, "× {:.3g}", _HOSTS, *_rate("distinct"), log=True, measured=True),
    Assumption("request of a data engine", 0.5, 2, "× {:.3g}", _ENGINE, *_rate("request"), log=True, measured=True),
    Assumption("what a data engine moves", 0.5, 2, "× {:.3g}", _ENGINE, *_rate("engine"), log=True, measured=True),
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
    Assumption(
        "changes of shared nodes that are sent", 1 / 4, 4, "× {:.3g}", "streams differ as much (docs/measured/memshare.md); at most all",
        usual_times, with_times, log=True,
    ),
    Assumption("jitter of rows", 0, 0.2, "{:.0%}", _STATED, _jitter, lambda s, v: _uncertain(jitter=v)(s), noise=True),
    Assumption("sway of ranks", 0, 0.2, "{:.0%}", _STATED, _sway, lambda s, v: _uncertain(sway=v)(s), noise=True),
    Assumption(
        "slowest GPU", 1, 1.5, "× {:.3g}", "outliers of identical GPUs are up to 1.5 times slower than the median (Sinha et al., SC 2022)",
        _slowest, _slow, noise=True,
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
