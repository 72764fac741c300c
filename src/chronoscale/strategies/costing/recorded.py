"""RecordedCosts: costs that replay a recorded trace, for instance on another cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.cluster import Device, same_device
from chronoscale.strategies.costing.device_scale import DeviceScale, missing_datasheets
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.evaluation.fifos import start_gaps
from chronoscale.strategies.schedule import Ints, Lane, Schedule
from chronoscale.strategies.trace import Source, Trace


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Recorded epoch, to be replayed on another cluster: a schedule, a trace with the times of all its rows, and for each row the one that
    ran before it in its queue (`prior`, int64 [rows]; -1: none)."""

    schedule: Schedule
    trace: Trace
    prior: Ints

    @property
    def costs(self) -> RecordedCosts:
        """The cost model by which a simulator replays what was recorded, on the device that it was recorded on."""
        return RecordedCosts(self.trace, start_gaps(self.trace, self.schedule, self.prior))

    def costs_on(self, device: Device, recorded: Device | None) -> RecordedCosts:
        """Return the cost model by which a simulator replays what was recorded on a device: `costs` where that is the recorded model, else
        those scaled to it by the rooflines of both, every duration marked as extrapolated.

        recorded: the datasheet of the recorded device; None where unknown. A gap before a row of the device is scaled as launches are, one
        before a row of the host stays.

        Raises UserError where the recorded device has no datasheet (unknown, or a CPU), and for an operation that no roofline tells of.
        """
        costs, trace, name = self.costs, self.trace, self.trace.device_name
        if same_device(name, device.name):
            return costs
        scale = DeviceScale.between(recorded, device)
        if scale is None:
            without = missing_datasheets(((name, recorded), (device.name, device)))
            raise UserError(
                f"recorded on {name}, not on {device.name}; replay it on a cluster of {name}, simulate the experiment with costs: "
                f"datasheet, or add a device file of {without} (simulator/devices): only datasheets of both scale times of one to the other"
            )
        try:
            factors = scale.row_factors(self.schedule, np.arange(len(self.schedule)))
        except UserError as error:
            raise UserError(f"recorded on {name}, not on {device.name}: {error}; replay it on a cluster of {name}") from None
        ns = np.rint(trace.duration_ns * factors).astype(np.int64)
        launched = np.where(self.schedule.lane == Lane.HOST, 1.0, scale.launch_factor)
        gap_ns = np.rint(costs.gap_ns * launched).astype(np.int64)
        scaled = replace(trace, end_ns=trace.start_ns + ns, source=np.full(len(trace), Source.EXTRAPOLATED, np.uint8))
        return RecordedCosts(scaled, gap_ns, device.name)


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCosts:
    """Cost model that gives the rows of one schedule the durations of a recorded `trace` of it, for replaying a recording elsewhere;
    collectives are timed by the network model.

    gap_ns: how long before its recorded start each row could have started, int64 [rows]: time that went into launching, or into the
    interpreter. It belongs to the host, not to the cluster, so that `predict` adds it to the row; `without_gaps` removes it from a replay.
    scaled_to: the device that durations and gaps were scaled to; '' where they are as recorded.
    """

    trace: Trace
    gap_ns: Ints
    scaled_to: str = ""

    @property
    def name(self) -> str:
        return f"recorded on {self.trace.device}{f', scaled to {self.scaled_to} by roofline' * bool(self.scaled_to)}"

    @property
    def launch_ns(self) -> int:
        """0: the recorded gaps include the time of launching kernels."""
        return 0

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        """Return the gap before each row plus its recorded duration, int64 [len(rows)] ns, and where the recording's times come from.

        Raises UserError for rows of another schedule than the recorded one.
        """
        trace = self.trace
        if len(trace) != len(schedule) or (trace.op[rows] != schedule.op[rows]).any() or (trace.rank[rows] != schedule.rank[rows]).any():
            raise UserError(f"costs {self.name}: they are durations of the rows of '{trace.strategy}', and of no other schedule")
        return self.gap_ns[rows] + trace.duration_ns[rows], Source(int(trace.source[rows].max()))

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        """Return zeros [len(rows)] twice: how much memory bandwidth and how many SMs the recorded rows took is unknown, so that in a replay
        none slows another down."""
        return np.zeros(len(rows)), np.zeros(len(rows))

    def without_gaps(self, schedule: Schedule, replayed: Trace) -> Trace:
        """Return a replay (a simulated trace) with these costs in which rows start when their own work does, after the recorded gap."""
        return replace(replayed, start_ns=replayed.start_ns + np.where(schedule.collective < 0, self.gap_ns, 0))
