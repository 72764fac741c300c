"""Generator of traffic-like signals: speeds at sensors on a plane, with rush hours, shared noise and lost stretches, produced in blocks of
time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from chronoscale.datasets.arrays import Float32, Int32, Int64, require_num_nodes
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

NEIGHBOURS = 8  # sources a sensor has, itself included
BLOCK = 1 << 18  # readings a block; it belongs to the definition: another one draws another signal
_SHARING = 1  # nearest sensors whose shocks a sensor feels
_MEMORY = 0.9  # of the noise, from one step to the next
_SHOCK = 2.0  # its standard deviation, miles an hour
_SLOWEST, _FASTEST = 3.0, 75.0
_STRETCH = 24  # mean steps for which a sensor is silent
_RUSH = ((8.0, 1.2), (17.5, 1.8))  # hour and width of the dips, morning and evening


@dataclass(frozen=True, slots=True)
class TrafficSignal:
    """Generator of a signal, a dataset of speeds (miles an hour) at `sensors` sensors over `steps` steps, from a Monday's midnight on; the
    same for the same seed, a prefix of a longer one.

    Sensors lie on a random square. Each has a free-flow speed, dips on weekday mornings and evenings, and AR(1) noise whose shocks it
    shares with its nearest sensors. A share `missing` of the speeds is lost (NaN), in stretches of two dozen steps on average. A second
    channel is the time of day in [0, 1), as DCRNN adds it. Memory is one block. Raises UserError for parameters outside their range.
    """

    unit: ClassVar[str] = "steps"  # what it generates, one by one or in blocks
    sensors: int
    steps: int
    channels: Literal[1, 2] = 1
    missing: float = 0.0
    steps_per_day: int = 288
    seed: int = 0
    name: str = "traffic"

    def __post_init__(self) -> None:
        if min(self.sensors, self.steps, self.steps_per_day) < 1:
            raise UserError(f"traffic: expected sensors, steps and steps_per_day of at least 1, got {self.sensors}, {self.steps}")
        require_num_nodes(self.sensors)
        if self.channels not in (1, 2):
            raise UserError(f"traffic: channels expected 1 or 2, got {self.channels}")
        if not 0 <= self.missing < 1:
            raise UserError(f"traffic: missing expected in [0, 1), got {self.missing}")

    def __len__(self) -> int:
        return self.steps

    @property
    def calendar(self) -> int:
        """Number of the signal's last channels that tell the time: 1 with two channels, else 0."""
        return self.channels - 1

    def _nearest(self) -> tuple[Float32, Int64]:
        """Return distance and id of every sensor's nearest, itself first, [sensors, at most NEIGHBOURS]."""
        plane = np.random.default_rng([self.seed, 3]).random((self.sensors, 2))
        count = min(NEIGHBOURS, self.sensors)
        from scipy.spatial import cKDTree  # noqa: PLC0415 (heavy, and little of what imports this file comes here)

        distance, near = cKDTree(plane).query(plane, k=np.arange(1, count + 1))
        return distance.astype(np.float32), near.astype(np.int64)

    def graph(self) -> tuple[Int32, Float32]:
        """Generate the graph of the sensors: edge_index int32 [2, E], from a sensor's nearest ones to it, and weights float32 [E],
        exp(-(distance / width)^2), as DCRNN's kernel.

        Directed: one may be near to another without the reverse. A sensor's edge to itself weighs 1. The width is the mean distance of the
        farthest neighbours that get an edge.
        """
        distance, near = self._nearest()
        width = max(float(distance[:, -1].mean()), 1e-9)
        target = np.repeat(np.arange(self.sensors), near.shape[1])
        return np.stack([near.ravel(), target]).astype(np.int32), np.exp(-((distance.ravel() / width) ** 2)).astype(np.float32)

    def __iter__(self) -> Iterator[Float32]:
        """Yield blocks float32 [steps, sensors, channels], consecutive in time."""
        rng = np.random.Generator(np.random.SFC64([self.seed, 4]))
        length = max(BLOCK // self.sensors, 1)
        near = self._nearest()[1][:, 1 : 1 + _SHARING]
        levels = np.stack([rng.uniform(55, 70, self.sensors), *(-rng.uniform(5, 40, (2, self.sensors)))]).astype(np.float32)
        last = rng.standard_normal(self.sensors, np.float32) * np.float32(_SHOCK)
        silent = np.where(rng.random(self.sensors) < self.missing, rng.geometric(1 / _STRETCH, self.sensors), 0)
        for begin in range(0, self.steps, length):
            noise = self._noise(rng, length, near, last)
            last = noise[-1].copy()
            day, time = np.divmod(np.arange(begin, begin + length), self.steps_per_day)
            noise += _profile(day, time / self.steps_per_day) @ levels
            np.clip(noise, _SLOWEST, _FASTEST, out=noise)
            silent = self._lose(rng, noise, silent)
            rows = min(length, self.steps - begin)
            block = np.empty((rows, self.sensors, self.channels), np.float32)
            block[:, :, 0] = noise[:rows]
            block[:, :, 1:] = (time[:rows] / self.steps_per_day)[:, None, None]
            yield block

    def _noise(self, rng: np.random.Generator, length: int, near: Int64, last: Float32) -> Float32:
        """Return AR(1), [length, sensors], of standard deviation _SHOCK; shocks are uniform, shared with the nearest in equal parts."""
        own = rng.integers(0, 1 << 16, (length, self.sensors), np.uint16).astype(np.float32)
        own -= np.float32((1 << 15) - 0.5)
        own *= np.float32(_SHOCK * (12 * (1 - _MEMORY**2) / (1 + near.shape[1])) ** 0.5 / (1 << 16))
        mixed = own.copy()
        for neighbour in near.T:
            mixed += own.take(neighbour, axis=1, mode="clip")
        carried = np.empty_like(last)
        for row in mixed:
            np.multiply(last, np.float32(_MEMORY), out=carried)
            row += carried
            last = row
        return mixed

    def _lose(self, rng: np.random.Generator, speeds: Float32, silent: Int64) -> Int64:
        """Return silence stretches of `speeds`; `silent` int64 [sensors]: steps that each still misses, before and (returned) after the
        block.

        Stretches begin independently at a constant rate and may overlap, so a step is heard with exp(-rate * mean stretch).
        """
        length = len(speeds)
        rate = -np.log1p(-self.missing) / _STRETCH
        count = int(rng.poisson(rate * speeds.size))
        still = np.flatnonzero(silent)
        begins = [np.zeros(len(still), np.int64), rng.integers(0, length, count)]
        sensors_by_origin = [still, rng.integers(0, self.sensors, count)]
        begin, sensor = np.concatenate(begins), np.concatenate(sensors_by_origin)
        end = begin + np.concatenate([silent[still], rng.geometric(1 / _STRETCH, count)])
        for first, stop, column in zip(begin.tolist(), end.tolist(), sensor.tolist(), strict=True):
            speeds[first:stop, column] = np.nan
        remaining = np.zeros(self.sensors, np.int64)
        np.maximum.at(remaining, sensor, end - length)
        return remaining

    def signal(self) -> Signal:
        """Generate the whole signal in memory."""
        values = np.empty((self.steps, self.sensors, self.channels), np.float32)
        at = 0
        for block in self:
            values[at : at + len(block)] = block
            at += len(block)
        return replace(Signal.from_readings(values, *self.graph(), name=self.name), calendar=self.calendar)


def _profile(day: Int64, time: np.ndarray) -> Float32:
    """Return the strengths of free flow and of the two dips, float32 [steps, 3]."""
    weekday = day % 7 < 5
    dips = [np.exp(-(((time * 24 - hour) / width) ** 2)) * weekday for hour, width in _RUSH]
    return np.stack([np.ones(len(time)), *dips], axis=1).astype(np.float32)
