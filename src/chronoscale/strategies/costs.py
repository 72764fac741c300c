"""CostModel: how long a row takes, from a datasheet or fitted to a profile, and where that figure comes from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from chronoscale.errors import UserError
from chronoscale.records import read_json, reading
from chronoscale.strategies.cluster import Device, Link, PairLink, same_device
from chronoscale.strategies.costing.curves import DESCRIBED, RANGED, Curve, curves
from chronoscale.strategies.costing.device_scale import DeviceScale, missing_datasheets
from chronoscale.strategies.costing.predictor import Predictor
from chronoscale.strategies.costing.roofline import copy_seconds, occupied_shares
from chronoscale.strategies.costing.roofline import roofline_seconds as roofline_s
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Lane, Op, Schedule
from chronoscale.strategies.trace import Source

Floats = NDArray[np.float64]
Launch = Literal["eager", "graph"]
# Share of the peak that all kernels reach; neighbours/s that a host samples, B/s that it copies, ids/s that it looks through for repeated
# ones; s that a data engine takes for a request, B/s that it moves.
Assumed = Literal["efficiency", "sample", "gather", "distinct", "request", "engine"]


class CostModel(Protocol):
    """Estimator of how long the rows of a schedule take, asked by planners and by the simulator: for computation and copies; collectives
    are timed by the simulator's network model."""

    @property
    def name(self) -> str:
        """Where the durations come from, in words for reports: "fitted on NVIDIA H100"."""
        ...

    @property
    def launch_ns(self) -> int:
        """How long launching one kernel takes a rank's host thread, ns; 0: nothing is launched, or durations include it. The host launches
        the kernels of all streams one after another."""
        ...

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        """Return uncontended durations of rows of a schedule, int64 [len(rows)] ns, and where they come from (measured, fitted, a datasheet
        ...).

        rows: row numbers, all of the same operation; called once for each operation.
        """
        ...

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        """Return the shares of the device's memory bandwidth and of its SMs that rows of one operation occupy while they run uncontended;
        the simulator slows rows down that together want more.

        rows: row numbers; ns: their durations, int64 [len(rows)]. Both float64 [len(rows)], from 0 to 1; zeros where unknown.
        """
        ...


@runtime_checkable
class SpecifiedCosts(CostModel, Protocol):
    """Cost model whose durations follow from a device's figures, which nothing measured: it can be had of other figures."""

    def on_device(self, device: Device) -> SpecifiedCosts:
        """Return the cost model of a device with these figures, all else alike."""
        ...

    @property
    def assumed(self) -> Mapping[Assumed, float]:
        """What else than the device's figures it takes for granted, where it does: a share of the peak, rates, s."""
        ...

    def assuming(self, what: Assumed, value: float) -> SpecifiedCosts:
        """Return the cost model with another value of one thing that it assumes, all else alike. Raises ValueError where it assumes nothing
        of that."""
        ...


def launch_overlap_ns(kernels: Ints, ns: Ints, launch_ns: int | Ints) -> Ints:
    """Return how much of its own duration a row may already have behind it when the host has launched its last kernel, int64 [rows] ns; by
    it the simulator overlaps launching and running.

    kernels, ns: int64 [rows], the number of kernels and the duration; launch_ns: the time of one launch. A row of K kernels of w ns each,
    launched L ns apart, may start (K - 1) min(w, L) before its last kernel has been launched.
    """
    return np.asarray(np.maximum(kernels - 1, 0) * np.minimum(ns // np.maximum(kernels, 1), launch_ns), np.int64)


def durations(costs: CostModel, schedule: Schedule) -> tuple[Ints, NDArray[np.uint8]]:
    """Return a cost model's durations of all rows of a schedule (int64 [rows] ns), and their sources (uint8 [rows], a `Source` each); 0 for
    collectives, which the simulator's network model times."""
    ns = np.zeros(len(schedule), np.int64)
    source = np.zeros(len(schedule), np.uint8)
    for code in np.unique(schedule.op):
        if Op(code) not in COLLECTIVES:
            rows = schedule.tasks(Op(code))
            ns[rows], source[rows] = costs.predict(schedule, rows)
    return ns, source


@dataclass(frozen=True, slots=True)
class DatasheetCosts:
    """Cost model that needs no measurement: durations from the figures of a device's datasheet, by a roofline. Every figure's source is
    `specified`.

    launch: "eager", kernels are launched one by one; "graph", as CUDA graphs: the host launches nothing, and on the device every kernel
    takes the device's `graph_s` more. That flatters graphs that change from iteration to iteration: a captured one has fixed shapes.

    efficiency: one share of peak that all kernels are taken to reach, of whatever kind and size: max(flops / peak, bytes / bandwidth) /
    efficiency; it scales every strategy alike. None: each kind of work its own (`costing.roofline`).

    figures: where the device's figures come from, in words for `name`. reached: kinds of work that reach another share of peak than
    `costing.roofline` has.

    engine: the cluster's data engine, such as Dask: a fetch of data that lie with other ranks takes its latency for every request (the
    row's `edges`: one scheduler serves all) and moves its bytes.
    """

    device: Device
    efficiency: float | None = None
    engine: Link | None = None
    launch: Launch = "eager"
    figures: str = "datasheet"
    reached: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        how = "roofline by operation" if self.efficiency is None else f"{self.efficiency:.0%} of peak"
        return f"{self.device.name} {self.figures}, {how}{', CUDA graphs' * (self.launch == 'graph')}"

    @property
    def launch_ns(self) -> int:
        return round(self.device.launch_s * 1e9) if self.launch == "eager" else 0

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        op = Op(schedule.op[rows[0]]) if len(rows) else Op.AGGREGATE
        on_host = schedule.lane[rows] == Lane.HOST
        if op is Op.FETCH and len(rows) and not on_host.all():
            return self._fetch_ns(schedule, rows), Source.SPECIFIED
        on_bus = on_host | (op in (Op.H2D, Op.D2H))  # datasheets name no host memory: taken to keep up with the bus
        seconds = copy_seconds(self.device, schedule, rows)
        if not on_bus.all():
            starts = schedule.kernels[rows] * (self.device.graph_s if self.launch == "graph" else 0.0)
            seconds = np.where(on_bus, seconds, self._device_seconds(schedule, rows) + starts)
        return np.rint(seconds * 1e9).astype(np.int64), Source.SPECIFIED

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        return occupied_shares(self.device, schedule, rows, ns)

    def on_device(self, device: Device) -> DatasheetCosts:
        return replace(self, device=device)

    @property
    def assumed(self) -> Mapping[Assumed, float]:
        flat: dict[Assumed, float] = {} if self.efficiency is None else {"efficiency": self.efficiency}
        return flat | ({} if self.engine is None else {"request": self.engine.latency_s, "engine": self.engine.bandwidth})

    def assuming(self, what: Assumed, value: float) -> DatasheetCosts:
        if what not in self.assumed:
            raise ValueError(f"{self.name}: nothing is assumed of '{what}'")
        if what == "efficiency" or self.engine is None:
            return replace(self, efficiency=value)
        return replace(self, engine=replace(self.engine, **{"latency_s" if what == "request" else "bandwidth": value}))

    def _device_seconds(self, schedule: Schedule, rows: Ints) -> Floats:
        """Return the time of work on the device, float64 [rows] s, without launches."""
        if self.efficiency is None and len(rows):
            return roofline_s(self.device, schedule, rows, dict(self.reached))
        work = np.maximum(schedule.flops[rows] / self.device.flops, schedule.bytes[rows] / self.device.memory_bandwidth)
        return np.asarray(work / (self.efficiency or 1.0), np.float64)

    def _fetch_ns(self, schedule: Schedule, rows: Ints) -> Ints:
        """Return the time of fetches through the data engine, int64 [rows] ns. Raises UserError where the cluster has none."""
        if self.engine is None:
            raise UserError(
                f"schedule '{schedule.name}' fetches data from other ranks, and the cluster has no data engine: its file needs "
                "engine: {bandwidth, latency_s}"
            )
        seconds = self.engine.latency_s * schedule.edges[rows] + schedule.bytes[rows] / self.engine.rate
        return np.asarray(np.rint(seconds * 1e9), np.int64)


Described = Mapping[str, Floats]


class RegressionForm(NamedTuple):
    """Formula of a fitted cost curve: the descriptors that it reads ("rows", "bytes" ...), and a function that makes features [n, k] of
    them (float64 [n] each), for k fitted coefficients in ns."""

    reads: tuple[str, ...]
    features: Callable[[Described], Floats]


def _linear(*names: str) -> RegressionForm:
    """Return a form that is linear in the named descriptors, with a constant."""
    return RegressionForm(names, lambda row: np.stack([*(row[name] for name in names), np.ones_like(row[names[0]])], axis=1))


def _u_curve(row: Described) -> Floats:
    """Return the features of REAL's appendix B: rows, mean degree d, 1 / d, and 1."""
    degree = np.maximum(row["edges"], 1) / np.maximum(row["rows"], 1)
    return np.stack([row["rows"], degree, 1 / degree, np.ones_like(degree)], axis=1)


FORMS: Mapping[str, RegressionForm] = {
    "eq16": _linear("nodes", "edges"),  # REAL eq. 16: a1 N + a2 E + a3
    "rows-edges": _linear("rows", "edges"),  # eq. 16 on a difference map: the rows and edges that changed
    "u-curve": RegressionForm(("rows", "edges"), _u_curve),  # REAL appendix B: a0 N + a1 d + a2 / d + a3
    "bytes": _linear("bytes"),  # alpha-beta
    "rows-bytes": _linear("rows", "bytes"),
    "traffic": _linear("rows", "edges", "bytes"),
    "work": _linear("rows", "flops"),
    "kernels-bytes": _linear("kernels", "bytes"),  # what dispatching an operation takes, for each that a row consists of
    "kernels-work": _linear("kernels", "rows", "flops"),
}


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted cost curve: how long one operation at one input width takes by its sizes, with errors. op, width, lane and variant identify
    it.

    form: the name of its formula, a key of `FORMS`. low, high: the range of each size among the samples. The formula was chosen on samples
    that it was not fitted on, and its errors are computed on a third part. bias: signed error of the sum of those. spread: standard
    deviation of a row's time from repeat to repeat, relative to it, a repeat's drift left out.
    """

    op: str
    width: int
    form: str
    coefficients: tuple[float, ...]  # ns per feature
    low: Mapping[str, int]
    high: Mapping[str, int]
    held_out_error: float  # median |predicted - measured| / measured on samples neither fitted nor chosen by
    samples: int
    alternatives: Mapping[str, float] = field(default_factory=dict)  # error of the forms not chosen, on the samples chosen by
    lane: str = ""
    variant: int = 0
    bias: float | None = None  # predicted over measured time of all samples that errors are stated on, less 1; None: unknown (older files)
    spread: float = 0.0

    @property
    def curve(self) -> Curve:
        """The key of the curve that this is a fit of: operation, width, lane, implementation."""
        return Curve(self.op, self.width, self.lane, self.variant)

    def check(self) -> None:
        """Check a curve read from a cost model's file. Raises ValueError for an unknown formula, a missing range of a size, and
        coefficients that do not fit the formula."""
        if self.form not in FORMS:
            raise ValueError(f"{self.op}: no such form as '{self.form}'")
        reads = FORMS[self.form].reads
        if absent := [name for name in reads if name in RANGED and not (name in self.low and name in self.high)]:
            raise ValueError(f"{self.op}: no range of {', '.join(absent)}")
        wanted = FORMS[self.form].features({name: np.ones(1) for name in reads}).shape[1]
        if len(self.coefficients) != wanted or not np.isfinite(self.coefficients).all():
            raise ValueError(f"{self.op}: '{self.form}' has {wanted} finite coefficients, got {list(self.coefficients)}")


@dataclass(frozen=True, slots=True)
class FittedCosts:
    """Cost model made of curves fitted to a profile, which `chronoscale profile` measured on one device.

    Outside the range of sizes that a curve was fitted on it refuses with a UserError, unless `extrapolate`; then the durations' source says
    so. slack: the relative margin by which a size may leave the range before that.
    """

    device: str
    fits: tuple[Fit, ...]
    fingerprint: Mapping[str, str]
    collective: Link | None = None  # fitted all-reduce, per ring step
    gather: Link | None = None  # fitted all-gather, per ring step
    exchange: Link | None = None  # fitted all-to-all, per round
    extrapolate: bool = False
    slack: float = 0.1
    launch_ns: int = 0  # of a GPU, measured; 0 on a CPU, where nothing is launched
    predictor: Predictor | None = None  # of windows of blocks, where they were profiled
    sway: float = 0.0  # relative standard deviation of a rank's whole iteration from the other ranks', beyond its rows' own spread
    taken_for: str = ""  # another device: every duration is then `extrapolated`, whatever range it lies in
    scale: DeviceScale | None = None  # from the profiled device to that one: None where both are of one model
    pairs: tuple[PairLink, ...] = ()  # of machines, where ranks were on several
    pace: tuple[float, ...] = ()  # by rank, where machines differ: what its rows take, as a multiple of what the curves say
    peaks: Device | None = None  # of the GPU that was profiled, where they are known: what `occupies` is reckoned by

    @property
    def name(self) -> str:
        if self.scale is not None:
            return f"fitted on {self.device}, scaled to {self.taken_for} by roofline"
        return f"fitted on {self.device}" + (f", extrapolated to {self.taken_for}" if self.taken_for else "")

    @property
    def jitters(self) -> bool:
        """Whether the profile measured that rows or ranks vary from repeat to repeat."""
        return self.sway > 0 or any(fit.spread > 0 for fit in self.fits)

    @property
    def inside(self) -> Link | None:
        """The slowest link between two ranks of one machine, where ranks were on several; None where it was not measured."""
        return min((pair.link for pair in self.pairs if pair.first == pair.second), key=lambda link: link.bandwidth, default=None)

    @property
    def machines_in_words(self) -> str:
        """The links between machines and inside them, and what rows take on each; '' where all ranks were on one."""
        links = [
            f"{f'inside machine {pair.first}' if pair.first == pair.second else f'between machines {pair.first} and {pair.second}'} "
            f"{pair.link.bandwidth / 1e6:.3g} MB/s, {pair.link.latency_s * 1e6:.3g} µs"
            for pair in self.pairs
        ]
        paces = ", ".join(f"{pace:.3g}" for pace in self.pace)
        return "; ".join([*links, f"rows take, by rank, {paces} times what the curves say"]) if links else ""

    def for_device(self, device: str, profiled: Device | None = None, target: Device | None = None) -> FittedCosts:
        """Return these costs for use on another device (its name): themselves where it is the profiled model, or, where they may
        `extrapolate`, costs whose every duration is scaled by the rooflines of both devices and marked as extrapolated.

        profiled, target: the datasheets of the profiled device, unless the costs know its `peaks`, and of the other; None where unknown.
        What was learned of whole windows, and what rows take by rank, does not hold there and is left out.

        Raises UserError for another device where they may not, or where either datasheet is unknown.
        """
        if same_device(self.device, device):
            return self
        scale = DeviceScale.between(origin := self.peaks or profiled, target)
        if scale is not None and self.extrapolate:
            launch_ns = round(self.launch_ns * scale.launch_factor)
            return replace(self, taken_for=device, scale=scale, launch_ns=launch_ns, predictor=None, pace=(), peaks=target)
        remedy = "set extrapolate: true (times are then scaled by both datasheets, and every number says so)"
        if scale is None:
            without = missing_datasheets(((self.device, origin), (device, target)))
            remedy = f"add a device file of {without} (simulator/devices): only datasheets of both scale times of one to the other"
        reason = f"fitted on {self.device or 'a device without a name'}, not on {device}"
        raise UserError(f"{reason}; name a profile of that device, take costs: datasheet, or {remedy}")

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        ns = np.zeros(len(rows), np.int64)
        source = Source.EXTRAPOLATED if self.taken_for else Source.FITTED
        for curve, chosen in curves(schedule, rows):
            fit = self.of(curve)
            if self._outside(fit, schedule, rows[chosen]):
                source = Source.EXTRAPOLATED
            described = {name: getattr(schedule, name)[rows[chosen]].astype(np.float64) for name in DESCRIBED}
            values = FORMS[fit.form].features(described) @ np.asarray(fit.coefficients)
            if len(self.pace) == schedule.ranks:  # as many ranks as were profiled; on others, nothing is known of each
                values = values * np.asarray(self.pace)[schedule.rank[rows[chosen]]]
            if self.scale is not None:
                values = values * self.scale.row_factors(schedule, rows[chosen])
            ns[chosen] = np.rint(np.maximum(values, 0)).astype(np.int64)
        return ns, source

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        if self.peaks is None or not self.launch_ns:  # on a CPU, ranks that are busy side by side are fitted for themselves
            return np.zeros(len(rows)), np.zeros(len(rows))
        return occupied_shares(self.peaks, schedule, rows, ns)

    def of(self, curve: Curve) -> Fit:
        """Return the fitted cost curve with this key. Raises UserError, with the widths that were profiled, where there is none."""
        for fit in self.fits:
            if fit.curve == curve:
                return fit
        same = sorted(fit.width for fit in self.fits if fit.curve._replace(width=curve.width) == curve)
        known = f"was profiled at width {', '.join(map(str, same))}" if same else "was not profiled"
        raise UserError(f"costs {self.name}: no fit for {curve} ({curve.op} {known}); profile this experiment first")

    def _outside(self, fit: Fit, schedule: Schedule, rows: Ints) -> bool:
        """Return whether rows leave the range of a fit. Raises UserError where they do and extrapolation is not allowed."""
        for name in set(FORMS[fit.form].reads) & set(RANGED):
            column = getattr(schedule, name)[rows]
            low, high = fit.low[name] * (1 - self.slack), fit.high[name] * (1 + self.slack)
            if len(column) and (column.min() < low or column.max() > high):
                if not self.extrapolate:
                    raise UserError(
                        f"costs {self.name}: {fit.curve} was fitted on {name} {fit.low[name]}..{fit.high[name]}, "
                        f"asked for {int(column.min())}..{int(column.max())}; profile that range, or set extrapolate: true"
                    )
                return True
        return False

    def save(self, path: Path) -> None:
        """Write the costs as a cost model file (JSON), which experiments name by its path."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path, extrapolate: bool = False) -> FittedCosts:
        """Read a cost model file (JSON) that `save` wrote. extrapolate: whether it may predict beyond what was profiled. Raises UserError
        when it is missing or not a cost model."""
        remedy = "`chronoscale profile` makes one"
        costs = read_json(path, cls, "cost model", remedy)
        with reading(path, "cost model", remedy):
            if not costs.fits:
                raise ValueError("no curves in it")
            for fit in costs.fits:
                fit.check()
        return replace(costs, extrapolate=extrapolate)


UNUSED = DatasheetCosts(Device("none", 1, 1, 1, Link(1, 0), 0))  # of plans that ask for no costs
