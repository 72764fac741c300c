"""Fit: from a profile to a cost model, with its error on samples that it was not fitted to."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.measurement import repeats as jitter
from chronoscale.real_exec.measurement.repeats import mean_durations, row_durations
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costing.curves import DESCRIBED, PLACED, RANGED, Curve, curves
from chronoscale.strategies.costing.predictor import row_flags
from chronoscale.strategies.costs import FORMS, Fit, FittedCosts, Floats
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Lane, Op, Schedule

# Forms tried for each operation; the one with the least error on samples that it was not fitted on stays.
CANDIDATES: Mapping[Op, tuple[str, ...]] = {
    Op.H2D: ("bytes", "rows-bytes"),
    Op.FETCH: ("bytes", "traffic"),
    Op.REMAP: ("bytes", "rows-edges", "traffic"),
    Op.AGGREGATE: ("eq16", "u-curve", "traffic"),
    Op.SAMPLE: ("rows-edges", "traffic", "bytes"),
    Op.INCREMENT: ("rows-edges", "u-curve", "traffic"),
    Op.RECONSTRUCT: ("eq16", "rows-edges"),
    Op.BACKWARD: ("work", "bytes", "kernels-bytes", "kernels-work"),
}
DENSE = ("work", "bytes")
HELD_OUT = 0.25  # share of the samples in the test set, and in the validation set
LEAST = 4  # samples of a curve
WIDE = 0.10  # relative standard deviation over repeats that draws a warning (REAL's profiler rejects such noise)
ROUNDS, SETTLED = 50, 1e-10  # of the fit of one curve: until its values change by less, relatively


def tabulate_samples(items: Sequence[tuple[Schedule, Sequence[Pass]]]) -> pd.DataFrame:
    """Return measured passes as a table with one row a task, the samples that `fit` makes a cost model of.

    items: schedules with the passes that executed them. Columns: descriptors of the task's size; `ns`, the mean duration
    (`repeats.mean_durations`); `spread`, its relative standard deviation without the drift of whole passes; `alone`, whether the schedule
    holds nothing but collectives; the schedule's kind; `clock_ns`, as of the traces; and what a predictor reads (`place`: the lane). Warns
    where repeats vary much.
    """
    frames = []
    for schedule, passes in items:
        ns, spread = mean_durations(passes), jitter.row_spread(row_durations(passes))
        columns = {name: getattr(schedule, name) for name in (*DESCRIBED, "width", "variant", "alloc", "collective")} | row_flags(schedule)
        lanes = [Lane(lane).name if Op(code) in PLACED else "" for code, lane in zip(schedule.op, schedule.lane, strict=True)]
        names, collectives_only = [Op(code).name for code in schedule.op], all(Op(code) in COLLECTIVES for code in schedule.op)
        columns |= {"place": [Lane(lane).name for lane in schedule.lane], "schedule": schedule.kind}
        clock_ns = max(each.trace.clock_ns for each in passes)
        measured = {"ranks": schedule.ranks, "alone": collectives_only, "ns": ns, "spread": spread, "clock_ns": clock_ns}
        frames.append(pd.DataFrame({"op": names, "lane": lanes, **columns, **measured}))
    table = pd.concat(frames, ignore_index=True)
    deviation = table.groupby("op")["spread"].median()
    wide = [f"{op} {100 * value:.0f} %" for op, value in deviation.items() if value >= WIDE]
    if wide:
        message = f"profile: repeats vary (median standard deviation), so treat these fits with care: {', '.join(wide)}"
        warnings.warn(message, ChronoscaleWarning, stacklevel=2)
    return table


def with_enough_samples(table: pd.DataFrame, least: int = LEAST) -> pd.DataFrame:
    """Return the rows of a table of measured tasks that `fit` can use: those of curves (operation, width, …) with at least `least` samples,
    and all collectives that took longer than clocks of several machines are known against each other (`Trace.clock_ns`). Warns of shorter
    ones.
    """
    together = table["op"].isin([op.name for op in COLLECTIVES])
    vague = together & (table["ns"] < table["clock_ns"])
    if vague.any():
        shorter = f"{vague.sum()} of {together.sum()} collectives took less than the {table['clock_ns'].max() / 1e3:.0f} µs"
        warnings.warn(f"profile: {shorter} by which clocks of machines may differ, and are left out", ChronoscaleWarning, stacklevel=2)
    return table[(together & ~vague) | (~together & (table.groupby(CURVE_COLUMNS)["ns"].transform("size") >= least))]


def fit(
    table: pd.DataFrame, device: str, fingerprint: Mapping[str, str], seed: int = 0, launch_ns: int = 0, sway: float = 0.0
) -> FittedCosts:
    """Fit a cost model to a profile, tasks that were timed on this machine: a curve for each kind of operation, and the network's latency
    and bandwidth.

    table: as of `tabulate_samples`. Non-negative least squares, weighted so that predictions of all samples add up to their measured times
    (`solve`). A quarter of the samples is the test set, a quarter the validation set, the others train. A curve's formula (`CANDIDATES`)
    is chosen by the validation error; its error is that on the test set after a fit to the others; the stored fit is of all samples.

    device, fingerprint: recorded with it. launch_ns: as in `CostModel`; sway: as in `FittedCosts`. Raises UserError when a curve has too
    few samples.
    """
    fits = []
    for (name, width, lane, variant), part in table.groupby(CURVE_COLUMNS, sort=True):
        if Op[str(name)] not in COLLECTIVES:
            fits.append(_fit_one(Curve(str(name), int(str(width)), str(lane), int(str(variant))), part, seed))
    reduced, gathered, exchanged = (table[table["op"] == op.name] for op in (Op.ALLREDUCE, Op.ALLGATHER, Op.ALLTOALL))
    link, gather = _fit_link(reduced) if len(reduced) else None, _fit_gather(gathered) if gathered["bytes"].any() else None
    exchange = _fit_exchange(exchanged) if exchanged["bytes"].any() else None
    return FittedCosts(device, tuple(fits), dict(fingerprint), link, gather, exchange, launch_ns=launch_ns, sway=sway)


def fit_pace(
    costs: FittedCosts, measured: Sequence[tuple[Schedule, Sequence[Pass]]], ranks_of_machines: Sequence[range]
) -> tuple[float, ...]:
    """Return what rows of each rank take as a multiple of what costs that were fitted to all ranks say, one figure a machine.

    measured: schedules with their passes, to which the costs were fitted.
    """
    unbounded, fitted = replace(costs, extrapolate=True), {fit.curve for fit in costs.fits}
    measured_ns, predicted_ns = np.zeros(ranks_of_machines[-1].stop), np.zeros(ranks_of_machines[-1].stop)
    for schedule, passes in measured:
        ns = mean_durations(passes)
        for code in set(np.unique(schedule.op).tolist()) - set(COLLECTIVES):
            of_op = schedule.tasks(Op(code))
            for rows in (of_op[chosen] for curve, chosen in curves(schedule, of_op) if curve in fitted):
                np.add.at(measured_ns, schedule.rank[rows], ns[rows])
                np.add.at(predicted_ns, schedule.rank[rows], unbounded.predict(schedule, rows)[0])
    paces = [
        measured_ns[ranks.start : ranks.stop].sum() / max(predicted_ns[ranks.start : ranks.stop].sum(), 1.0) for ranks in ranks_of_machines
    ]
    return tuple(float(pace) for pace, ranks in zip(paces, ranks_of_machines, strict=True) for _ in ranks)


CURVE_COLUMNS = list(Curve._fields)  # columns of a table of tasks


class _Samples(NamedTuple):
    """Samples of one curve: tasks with equal descriptors are one sample, of their mean time; `many` of them."""

    described: pd.DataFrame
    ns: Floats
    many: Floats

    @classmethod
    def of(cls, part: pd.DataFrame) -> _Samples:
        """Group tasks with equal descriptors; where too few would be left to set any aside, every task is a sample."""
        alike = part.groupby([*DESCRIBED], as_index=False).agg(ns=("ns", "mean"), many=("ns", "size"))
        if len(alike) < 2 * LEAST:
            alike = part.assign(many=1)
        return cls(alike, alike["ns"].to_numpy(np.float64), alike["many"].to_numpy(np.float64))

    def take(self, places: Ints) -> _Samples:
        """Return the samples at these places."""
        return _Samples(self.described.iloc[places], self.ns[places], self.many[places])

    def features(self, form: str) -> Floats:
        """Return the features of a form, float64 [samples, features]."""
        return FORMS[form].features({name: self.described[name].to_numpy(np.float64) for name in DESCRIBED})

    def error(self, predicted: Floats) -> float:
        """Return the median of |predicted - measured| / measured."""
        return float(np.median(np.abs(predicted - self.ns) / np.maximum(self.ns, 1)))

    def coefficients(self, form: str) -> Floats:
        """Return coefficients of a form that is fitted to these samples."""
        return solve(self.features(form), self.ns, self.many)


def _fit_one(curve: Curve, part: pd.DataFrame, seed: int) -> Fit:
    """Fit one curve. Raises UserError when it has too few samples."""
    if len(part) < LEAST:
        raise UserError(f"profile: {curve} has {len(part)} samples, at least {LEAST} are needed")
    samples = _Samples.of(part)
    order = np.random.default_rng(seed).permutation(len(samples.ns))
    cut = max(int(len(order) * HELD_OUT), 1)
    test = samples.take(order[:cut])
    validation = samples.take(order[cut : 2 * cut])
    train = samples.take(order[2 * cut :])
    errors = {form: validation.error(validation.features(form) @ train.coefficients(form)) for form in CANDIDATES.get(Op[curve.op], DENSE)}
    best = min(errors, key=lambda form: errors[form])
    predicted = test.features(best) @ samples.take(order[cut:]).coefficients(best)
    bounds = {name: (int(part[name].min()), int(part[name].max())) for name in RANGED}
    return Fit(
        op=curve.op,
        width=curve.width,
        form=best,
        coefficients=tuple(samples.coefficients(best).tolist()),
        low={name: low for name, (low, _) in bounds.items()},
        high={name: high for name, (_, high) in bounds.items()},
        held_out_error=test.error(predicted),
        samples=len(samples.ns),
        alternatives={form: error for form, error in errors.items() if form != best},
        lane=curve.lane,
        variant=curve.variant,
        bias=float(predicted @ test.many) / max(float(test.ns @ test.many), 1.0) - 1,
        spread=_spread(part),
    )


def _spread(part: pd.DataFrame) -> float:
    """Return one relative deviation for all rows, such that the variance of their sum is that of all of theirs."""
    ns = part["ns"].to_numpy(np.float64)
    return float(np.sqrt(((part["spread"].to_numpy(np.float64) * ns) ** 2).sum() / max((ns**2).sum(), 1e-12)))


def solve(features: Floats, ns: Floats, many: Floats | None = None) -> Floats:
    """Return non-negative coefficients of a least-squares fit; columns are scaled so that the solver sees numbers of like size.

    Weights are 1 over the *predicted* time, computed in rounds: the quasi-likelihood of a variance in proportion to the mean with an
    identity link (McCullagh, Nelder; Generalized Linear Models, 1989, §9.2). Its equations, sum of x_j (y - m) / m = 0 for every feature j
    in use, weighted by their coefficients add up to sum of (y - m) = 0, since m is the sum of those: the samples' predicted times add up to
    their measured ones, whatever noise they have. Weights of 1 over the square of the *measured* time would favour the samples that noise
    made small.
    """
    from sklearn.linear_model import LinearRegression  # noqa: PLC0415 (imports for half a second, for those who fit)

    weight = np.ones(len(ns)) if many is None else many
    scale = np.maximum(np.abs(features).max(0), 1e-12)
    scaled, middle = features / scale, max(float(np.average(ns, weights=weight)), 1e-12)
    predicted, coefficients = np.full(len(ns), middle), np.zeros(features.shape[1])
    for _ in range(ROUNDS):
        model = LinearRegression(fit_intercept=False, positive=True)
        coefficients = model.fit(scaled, ns, sample_weight=weight / np.maximum(predicted, 1e-6 * middle)).coef_
        before, predicted = predicted, scaled @ coefficients
        if np.allclose(predicted, before, rtol=SETTLED, atol=0):
            break
    left = float(ns @ weight) / max(float(predicted @ weight), 1e-12)  # 1 but for what the rounds have not settled
    return np.asarray(coefficients / scale * left, np.float64)


def _fit_link(part: pd.DataFrame) -> Link:
    """Fit latency and bandwidth of a ring all-reduce: T = 2(P-1) alpha + 2(P-1)/P n / B (MG-WFBP, Shi et al. 2021, as in REAL §7.5).

    B comes from all-reduces of many sizes back to back, but its time is no more than that of those that end an iteration. Alpha comes from
    the latter, where there are any: after computing, ranks have to be woken, and that is the latency that training sees. Together they take
    as long as was measured.
    """
    ranks, size, ns = (part[name].to_numpy(np.float64) for name in ("ranks", "bytes", "ns"))
    steps = 2 * (ranks - 1)
    moved = 2 * (ranks - 1) / ranks * size
    isolated = part["alone"].to_numpy(bool)
    alpha, beta = solve(np.stack([steps, moved], axis=1)[isolated], ns[isolated]) if isolated.any() else (0.0, 0.0)
    if not isolated.all():
        beta = min(beta, float(ns[~isolated].sum() / max(moved[~isolated].sum(), 1)))
        alpha = max(float((ns - moved * beta)[~isolated].sum() / steps[~isolated].sum()), 0.0)
    return Link(bandwidth=1e9 / max(beta, 1e-12), latency_s=alpha / 1e9)


def _fit_gather(part: pd.DataFrame) -> Link:
    """Fit latency and bandwidth of a ring all-gather: T = (P-1) alpha + (P-1) n / B for a rank's share n, all shares about equal.

    Rows without bytes are left out: a rank that has nothing waits for the others'.
    """
    shares = part[part["bytes"] > 0]
    ranks, size, ns = (shares[name].to_numpy(np.float64) for name in ("ranks", "bytes", "ns"))
    alpha, beta = solve(np.stack([ranks - 1, (ranks - 1) * size], axis=1), ns)
    return Link(bandwidth=1e9 / max(beta, 1e-12), latency_s=alpha / 1e9)


def _fit_exchange(part: pd.DataFrame) -> Link:
    """Fit latency and bandwidth of a pairwise all-to-all: T = (P-1) alpha + n / B for the n bytes that a rank sends or receives."""
    shares = part[part["bytes"] > 0]
    ranks, size, ns = (shares[name].to_numpy(np.float64) for name in ("ranks", "bytes", "ns"))
    alpha, beta = solve(np.stack([ranks - 1, size], axis=1), ns)
    return Link(bandwidth=1e9 / max(beta, 1e-12), latency_s=alpha / 1e9)
