"""Host costs: what sampling, gathering, the bus, operators and the start of a kernel take on a server of one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from chronoscale.simulator import presets
from chronoscale.strategies.cluster import Cluster, Device
from chronoscale.strategies.costing.roofline import occupied_shares
from chronoscale.strategies.costs import Assumed, DatasheetCosts, Floats
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.streams.feeding import StreamFeeding
from chronoscale.strategies.streams.placements import PLACEMENTS
from chronoscale.strategies.trace import Source

EFFICIENCY = 0.6  # of a datasheet's peak, as in the other papers' studies
DISTINCT = 2.5e8  # ids a second: `unique_ids` of 160 to 520 thousand ids on four cores of a virtual machine, 2.6e8 to 3.3e8
L3 = 27.5e6  # bytes, of a Xeon Gold 6133
BUS = 31.5e9  # B/s of PCIe 4.0 x16, clusters/a100.yaml


@dataclass(frozen=True, slots=True)
class Rates:
    """Assumed speeds of a one-GPU server, by which FAST's studies are simulated.

    sample: neighbours sampled/s. gather: bytes/s of scattered rows that the host copies into one buffer, of features and node memory.
    distinct: ids/s that the host looks through for repeated ones. bus: bytes/s of PCIe. launch_s: seconds to start a kernel. efficiency:
    share of the datasheet's peak that kernels reach, None: each kind of work its own. operators: how many times as long layers take without
    FAST's thread-efficient operators (§5). bound: how many times as fast sampling threads are that are bound to cores. beforehand: whether
    an epoch's time includes sampling all its batches before the first, for caches that look ahead. near: how many times as fast node memory
    is copied where it all fits the CPU's last cache (`L3`).
    """

    sample: float = 1e9
    gather: float = 1e9
    distinct: float = DISTINCT
    bus: float = BUS
    launch_s: float = 5e-6
    efficiency: float | None = EFFICIENCY
    operators: float = 1.0
    bound: float = 1.0
    beforehand: bool = False
    near: float = 1.0

    @property
    def cluster(self) -> Cluster:
        """Return the simulated machine of FAST's studies: the A100 preset with this bus and this launch time."""
        return _server(self.bus, self.launch_s)


@cache  # a preset is read from files
def _server(bus: float, launch_s: float) -> Cluster:
    cluster = presets.cluster("a100")
    link = replace(cluster.device.h2d, bandwidth=bus, efficiency=1.0)
    return replace(cluster, device=replace(cluster.device, h2d=link, launch_s=launch_s))


@dataclass(frozen=True, slots=True)
class ServerCosts:
    """Cost model of FAST's and MemShare's studies: a datasheet's roofline on the GPU, a study's assumed rates on the host.

    On the host sampling takes as long as its sampled neighbours over a rate, and, where each row is sent once a batch, as looking through
    its ids; copies (GATHER, MEMORY_READ, MEMORY_WRITE) take their bytes over a rate. efficient: whether layers have FAST's thread-efficient
    operators. feeds: whether schedules say how a host feeds batches (`StreamFeeding`), MemShare's do not. other: the device, None: that of
    the rates.
    """

    rates: Rates
    efficient: bool = False
    feeds: bool = True
    other: Device | None = None

    @property
    def device(self) -> Device:
        """Return the simulated GPU."""
        return self.other or self.rates.cluster.device

    def on_device(self, device: Device) -> ServerCosts:
        return replace(self, other=device)

    @property
    def assumed(self) -> Mapping[Assumed, float]:
        """Rates of the host, and the share of the peak that kernels reach, which a study takes for granted."""
        rates = self.rates
        host: dict[Assumed, float] = {"sample": rates.sample, "gather": rates.gather, "distinct": rates.distinct}
        return host if rates.efficiency is None else {"efficiency": rates.efficiency, **host}

    def assuming(self, what: Assumed, value: float) -> ServerCosts:
        """Return the costs with another rate of the host, or share of the peak. Raises ValueError for anything else."""
        if what not in self.assumed:
            raise ValueError(f"{self.name}: nothing is assumed of '{what}'")
        changed: dict[str, Any] = {what: value}
        return replace(self, rates=replace(self.rates, **changed))

    @property
    def name(self) -> str:
        return f"{self.device.name} datasheet, host rates of a study"

    @property
    def launch_ns(self) -> int:
        """Return the nanoseconds that a host thread takes to start a kernel, for the simulator."""
        return round(self.device.launch_s * 1e9)

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        """Return the predicted nanoseconds of some tasks, all of one operation, and where the prediction comes from.

        rows: their indices in the schedule.
        """
        op, lane = Op(schedule.op[rows[0]]), schedule.lane[rows]
        seconds, source = self._device(schedule, rows)
        if (lane == Lane.HOST).all():
            seconds = self._host(schedule, rows)
        elif (lane == Lane.HOST).any():  # GATHER is on both sides of the bus
            here = lane == Lane.HOST
            seconds[here] = self._host(schedule, rows[here])
        if op in (Op.AGGREGATE, Op.BACKWARD) and not self.efficient:
            seconds = seconds * self.rates.operators
        return np.rint(seconds * 1e9).astype(np.int64), source

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        """Return what shares of the GPU's memory bandwidth and of its SMs tasks occupy, 0 to 1, for the simulator's contention.

        rows: their indices in the schedule; ns: their durations.
        """
        return occupied_shares(self.device, schedule, rows, ns)

    def _device(self, schedule: Schedule, rows: Ints) -> tuple[Floats, Source]:
        ns, source = DatasheetCosts(self.device, self.rates.efficiency).predict(schedule, rows)
        return ns / 1e9, source

    def _host(self, schedule: Schedule, rows: Ints) -> Floats:
        rates = self.rates
        if Op(schedule.op[rows[0]]) is not Op.SAMPLE:
            near = rates.near if Op(schedule.op[rows[0]]) is not Op.GATHER and schedule.host <= L3 else 1.0
            return np.asarray(schedule.bytes[rows] / (rates.gather * near), np.float64)
        if not self.feeds:
            return np.asarray(schedule.edges[rows] / rates.sample, np.float64)
        feeding = StreamFeeding.of(schedule)
        seconds = schedule.edges[rows] / (rates.sample * (rates.bound if feeding.bound else 1.0))
        if feeding.placement and PLACEMENTS[feeding.placement].dynamic and not rates.beforehand:
            seconds = np.where(schedule.layer[rows] == 0, 0.0, seconds)  # what is sampled before the epoch
        if feeding.compressed:
            seconds = seconds + (schedule.rows[rows] + schedule.edges[rows]) / rates.distinct
        return np.asarray(seconds, np.float64)
