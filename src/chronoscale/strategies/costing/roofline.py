"""Roofline: how long work takes on a device that only its datasheet describes, by the kind of work and its size.

A row takes the longer of its operations at a share of the peak and its bytes at a share of the bandwidth. The shares are those of large
work (`roofline.yaml`, each with its source). A kernel that moves n bytes reaches n / (n + n_half) of its share, n_half being bandwidth x
latency: that many bytes have to be on their way at once (Little's law), which is to say that each kernel takes the latency once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class WorkKind:
    """A kind of work on the roofline. bandwidth, flops: shares of the device's peaks that it reaches; rows: whether it reads scattered
    rows."""

    bandwidth: float
    flops: float
    rows: bool


@cache
def work_kinds() -> Mapping[Op, WorkKind]:
    """Return the kind of work of each operation, from roofline.yaml."""
    content: Any = yaml.safe_load(resources.files("chronoscale.strategies.costing").joinpath("roofline.yaml").read_text(encoding="utf-8"))
    kinds = {name: WorkKind(**entry) for name, entry in content["kinds"].items()}
    return {Op[op]: kinds[name] for op, name in content["operations"].items()}


def roofline_seconds(device: Device, schedule: Schedule, rows: Ints) -> Floats:
    """Return durations of rows that share one operation of the device, float64 [len(rows)] s. Raises UserError for an operation without a
    kind."""
    op = Op(schedule.op[rows[0]])
    if (kind := work_kinds().get(op)) is None:
        raise UserError(f"schedule '{schedule.name}': no datasheet says what {op.name} takes a device (strategies/costing/roofline.yaml)")
    reached = np.full(len(rows), kind.bandwidth)
    if kind.rows:
        size = schedule.width[rows] * FP32
        reached = reached * np.where(size > 0, size / np.maximum(-(-size // SECTOR) * SECTOR, 1), 1.0)
    transfer = schedule.bytes[rows] / (device.memory_bandwidth * reached)
    arithmetic = schedule.flops[rows] / (device.flops * kind.flops)
    latency = schedule.kernels[rows] * (device.memory_latency_s / reached)
    durations: Floats = np.maximum(transfer, arithmetic) + latency
    return durations


def occupied_shares(device: Device, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
    """Return the shares of a device's memory bandwidth and of its SMs that rows of `ns` take while they run alone, float64 [len(rows)]
    each, 0 to 1.

    Rows of the host take none, copies take no SMs, and no SMs are taken where the device's are unknown. A row of R rows of width W has R x
    W threads, out of as many as the SMs hold at once. ns: int64 [len(rows)].
    """
    here = np.ones(len(rows), bool)
    lane = schedule.lane[rows]
    op = schedule.op[rows]
    here[(lane == Lane.HOST) | (op == Op.FETCH)] = False
    copies = np.isin(op, [Op.H2D, Op.D2H])
    memory = np.minimum(schedule.bytes[rows] / (np.maximum(ns, 1) * 1e-9 * device.memory_bandwidth), 1.0) * here
    threads = schedule.rows[rows] * np.maximum(schedule.width[rows], 1).astype(np.float64)
    room = device.sms * device.threads
    filled = np.minimum(threads / room, 1.0) if room else np.zeros(len(rows))
    return np.asarray(memory, np.float64), np.asarray(filled * (here & ~copies), np.float64)
