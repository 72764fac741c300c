"""Roofline: how long work takes on a device that only its datasheet describes, by the kind of work and its size.

A row takes the longer of its operations at a share of the peak and its bytes at a share of the bandwidth. The shares are those of large
work (`roofline.yaml`, each with its source). A kernel that moves n bytes reaches n / (n + n_half) of its share, n_half being bandwidth x
latency: that many bytes have to be on their way at once (Little's law), which is to say that each kernel takes the latency once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from chronoscale.errors import UserError
from chronoscale.strategies.cluster import Device
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule

Floats = NDArray[np.float64]
SECTOR = 32  # bytes that device memory is read in (CUDA C++ Best Practices Guide, coalesced access)
FP32 = 4
NONE: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class WorkKind:
    """Kind of work on the roofline that datasheet costs use (dense products, scattered reads ...), with the shares of a device's peak
    memory bandwidth and FLOP/s that it reaches (0 to 1). rows: whether it reads scattered rows, in whole memory sectors."""

    name: str
    bandwidth: float
    flops: float
    rows: bool

    @property
    def share(self) -> float:
        """The share of peak that bounds it: of arithmetic where that is stated, else of the memory."""
        return self.flops if self.flops < 1 else self.bandwidth

    def reaching(self, share: float) -> WorkKind:
        """Return the same kind of work that reaches another share of the peak that bounds it."""
        return replace(self, flops=share) if self.flops < 1 else replace(self, bandwidth=share)


@cache
def work_kinds() -> Mapping[Op, WorkKind]:
    """Return the kind of work that each operation of a schedule is, with the shares of peak it reaches, from the package's
    roofline.yaml."""
    content: Any = yaml.safe_load(resources.files("chronoscale.strategies.costing").joinpath("roofline.yaml").read_text(encoding="utf-8"))
    kinds = {name: WorkKind(name, **entry) for name, entry in content["kinds"].items()}
    return {Op[op]: kinds[name] for op, name in content["operations"].items()}


def roofline_seconds(device: Device, schedule: Schedule, rows: Ints, shares: Mapping[str, float] = NONE) -> Floats:
    """Estimate how long rows of a schedule take on a device that only its datasheet describes, float64 [len(rows)] s: the longer of bytes
    over bandwidth and operations over FLOP/s, at the shares of peak that this kind of work reaches, plus one memory latency a kernel.

    rows: row numbers of compute rows that all have the same operation. shares: of peak that kinds of work reach instead, by name. Raises
    UserError for an operation that roofline.yaml does not list.
    """
    op = Op(schedule.op[rows[0]])
    if (kind := work_kinds().get(op)) is None:
        raise UserError(f"schedule '{schedule.name}': no datasheet says what {op.name} takes a device (strategies/costing/roofline.yaml)")
    if kind.name in shares:
        kind = kind.reaching(shares[kind.name])
    reached = np.full(len(rows), kind.bandwidth)
    if kind.rows:
        size = schedule.width[rows] * FP32
        reached = reached * np.where(size > 0, size / np.maximum(-(-size // SECTOR) * SECTOR, 1), 1.0)
    transfer = schedule.bytes[rows] / (device.memory_bandwidth * reached)
    arithmetic = schedule.flops[rows] / (device.flops * kind.flops)
    latency = schedule.kernels[rows] * (device.memory_latency_s / reached)
    durations: Floats = np.maximum(transfer, arithmetic) + latency
    return durations


def copy_seconds(device: Device, schedule: Schedule, rows: Ints) -> Floats:
    """Return how long rows of a schedule take that copy over the bus between a device and its host, float64 [len(rows)] s: the latency of
    the bus, and bytes over the share of its bandwidth that copies reach."""
    seconds: Floats = device.h2d.latency_s + schedule.bytes[rows] / device.h2d.rate
    return seconds


def occupied_shares(device: Device, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
    """Estimate which shares of a device's memory bandwidth and of its SMs rows of a schedule occupy while they run uncontended, float64
    [len(rows)] each, 0 to 1; the simulator slows rows down that together want more than 1.

    rows: row numbers. ns: their uncontended durations, int64 [len(rows)]. Rows of the host occupy none, copies occupy no SMs, and no SMs
    are counted where the device's number is unknown. A row that writes R rows of width W has R x W threads, out of as many as the SMs run
    at once.
    """
    here = np.ones(len(rows), bool)
    lane = schedule.lane[rows]
    op = schedule.op[rows]
    here[(lane == Lane.HOST) | (op == Op.FETCH)] = False
    copies = np.isin(op, [Op.H2D, Op.D2H])
    memory = np.minimum(schedule.bytes[rows] / (np.maximum(ns, 1) * 1e-9 * device.memory_bandwidth * device.memory_efficiency), 1.0) * here
    threads = schedule.rows[rows] * np.maximum(schedule.width[rows], 1).astype(np.float64)
    room = device.sms * device.threads
    filled = np.minimum(threads / room, 1.0) if room else np.zeros(len(rows))
    return np.asarray(memory, np.float64), np.asarray(filled * (here & ~copies), np.float64)
