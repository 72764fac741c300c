"""DeviceScale: how many times as long the rows of a schedule take on another device than on the one that timed them, by two rooflines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chronoscale.strategies.cluster import Device
from chronoscale.strategies.costing.roofline import Floats, copy_seconds, roofline_seconds
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Lane, Op, Schedule

COPIES = (Op.H2D, Op.D2H)
UNSCALED = frozenset({*COLLECTIVES, Op.FETCH})  # the network's, and the data engine's


@dataclass(frozen=True, slots=True)
class DeviceScale:
    """Scale from times on one device, `origin`, to times on another, `target`, by the figures of both datasheets. What it yields is
    extrapolated: the target was never measured."""

    origin: Device
    target: Device

    @classmethod
    def between(cls, origin: Device | None, target: Device | None) -> DeviceScale | None:
        """Return the scale between two devices by their datasheets; None where one is unknown (None), or a CPU rank, which has none.

        A kernel's latency, which not every device file has, counts where both do.
        """
        if origin is None or target is None or origin.on_host or target.on_host:
            return None
        if not (origin.memory_latency_s and target.memory_latency_s):
            origin, target = replace(origin, memory_latency_s=0.0), replace(target, memory_latency_s=0.0)
        return cls(origin, target)

    @property
    def launch_factor(self) -> float:
        """How many times as long launching a kernel takes the target's host; 1 where a device's figure is unknown (0)."""
        return self.target.launch_s / self.origin.launch_s if self.origin.launch_s and self.target.launch_s else 1.0

    def row_factors(self, schedule: Schedule, rows: Ints) -> Floats:
        """Return how many times as long rows of a schedule take on the target, float64 [len(rows)].

        rows: row numbers, of any operations. Work on the device: the ratio of its roofline times, so that work which memory bounds follows
        the bandwidths, and work which arithmetic bounds the FLOP/s. Copies: that of the buses, latency included. 1 for rows of the host,
        for collectives, for fetches through a data engine, and for rows without bytes, operations and kernels.

        Raises UserError for an operation of the device that roofline.yaml does not list.
        """
        factors = np.ones(len(rows))
        op, on_device = schedule.op[rows], schedule.lane[rows] != Lane.HOST
        for code in np.unique(op[on_device]):
            if Op(code) not in UNSCALED:
                own = np.flatnonzero(on_device & (op == code))
                seconds = copy_seconds if Op(code) in COPIES else roofline_seconds
                here, there = (seconds(device, schedule, rows[own]) for device in (self.origin, self.target))
                factors[own] = np.divide(there, here, out=np.ones(len(own)), where=here > 0)
        return factors


def missing_datasheets(devices: Sequence[tuple[str, Device | None]]) -> str:
    """Return in words which of two devices, by name, have no datasheet to scale times by: "NVIDIA L4", "NVIDIA L4 and AMD EPYC"."""
    return " and ".join(name or "a device without a name" for name, sheet in devices if sheet is None or sheet.on_host)
