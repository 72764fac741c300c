"""Fit: from a profile to a cost model, with the error on samples that were not fitted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.real_exec.measurement import jitter
from chronoscale.real_exec.measurement.estimate import means, times
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costing.curves import DESCRIBED, PLACED, RANGED, Curve
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
HELD_OUT = 0.25  # share of samples that errors are told on, and share of them that a form is chosen by
LEAST = 4  # samples of a curve
WIDE = 0.10  # relative standard deviation over repeats that draws a warning (REAL's profiler rejects such noise)
ROUNDS, SETTLED = 50, 1e-10  # of the fit of one curve: until its values change by less, relatively


def tabulate(items: Sequence[tuple[Schedule, Sequence[Pass]]]) -> pd.DataFrame:
    """One row a task: descriptors, `ns` (its mean, over the passes that count: `estimate.means`), `spread` (relative standard deviation,
    each pass's drift left out), whether its schedule held nothing but collectives (`alone`), that schedule's kind, and what a predictor
    reads (`place`: its lane)."""
    frames = []
    for schedule, passes in items:
        ns, spread = means(passes), jitter.spread(times(passes))
        columns = {name: getattr(schedule, name) for name in (*DESCRIBED, "width", "variant", "alloc", "collective")} | row_flags(schedule)
        lanes = [Lane(lane).name if Op(code) in PLACED else "" for code, lane in zip(schedule.op, schedule.lane, strict=True)]
        names, alone = [Op(code).name for code in schedule.op], all(Op(code) in COLLECTIVES for code in schedule.op)
        columns |= {"place": [Lane(lane).name for lane in schedule.lane], "schedule": schedule.kind}
        rest = {"ranks": schedule.ranks, "alone": alone, "ns": ns, "spread": spread}
        frames.append(pd.DataFrame({"op": names, "lane": lanes, **columns, **rest}))
    table = pd.concat(frames, ignore_index=True)
    deviation = table.groupby("op")["spread"].median()
    wide = [f"{op} {100 * value:.0f} %" for op, value in deviation.items() if value >= WIDE]
    if wide:
        message = f"profile: repeats vary (median standard deviation), so treat these fits with care: {', '.join(wide)}"
        warnings.warn(message, ChronoscaleWarning, stacklevel=2)
    return table


def enough(table: pd.DataFrame, least: int = LEAST) -> pd.DataFrame:
    """The rows of those curves that have at least so many samples, and of collectives."""
    together = table["op"].isin([op.name for op in COLLECTIVES])
    return table[together | (table.groupby(CURVE)["ns"].transform("size") >= least)]


def fit(
    table: pd.DataFrame, device: str, fingerprint: Mapping[str, str], seed: int = 0, launch_ns: int = 0, sway: float = 0.0
) -> FittedCosts:
    """Fits of every curve of a profile (`costing.curves`), and alpha and beta of all-reduce, all-gather and all-to-all where it has any.

    Non-negative least squares, weighted so that what is predicted of all samples adds up to what was measured of them (`_solve`). A form is
    chosen on a quarter of the samples, fitted on half of them; its errors are told on the last quarter, from a fit on the others; the
    stored fit is then of all. `launch_ns`: as in `CostModel`; `sway`: as in `FittedCosts`. Raises UserError when a curve has too few
    samples.
    """
    fits = []
    for (name, width, lane, variant), part in table.groupby(CURVE, sort=True):
        if Op[str(name)] not in COLLECTIVES:
            fits.append(_fit_one(Curve(str(name), int(str(width)), str(lane), int(str(variant))), part, seed))
    reduced, gathered, exchanged = (table[table["op"] == op.name] for op in (Op.ALLREDUCE, Op.ALLGATHER, Op.ALLTOALL))
    link, gather = _fit_link(reduced) if len(reduced) else None, _fit_gather(gathered) if gathered["bytes"].any() else None
    exchange = _fit_exchange(exchanged) if exchanged["bytes"].any() else None
    return FittedCosts(device, tuple(fits), dict(fingerprint), link, gather, exchange, launch_ns=launch_ns, sway=sway)


CURVE = list(Curve._fields)  # columns of a table of tasks


class _Samples(NamedTuple):
    """Tasks that are described alike are one, of their mean time; `many` of them."""

    described: pd.DataFrame
    ns: Floats
    many: Floats

    @classmethod
    def of(cls, part: pd.DataFrame) -> _Samples:
        """Where there are too few different ones to be left out, every task is one."""
        alike = part.groupby([*DESCRIBED], as_index=False).agg(ns=("ns", "mean"), many=("ns", "size"))
        if len(alike) < 2 * LEAST:
            alike = part.assign(many=1)
        return cls(alike, alike["ns"].to_numpy(np.float64), alike["many"].to_numpy(np.float64))

    def take(self, places: Ints) -> _Samples:
        return _Samples(self.described.iloc[places], self.ns[places], self.many[places])

    def features(self, form: str) -> Floats:
        return FORMS[form].features({name: self.described[name].to_numpy(np.float64) for name in DESCRIBED})

    def error(self, predicted: Floats) -> float:
        """Median |predicted - measured| / measured."""
        return float(np.median(np.abs(predicted - self.ns) / np.maximum(self.ns, 1)))

    def fitted(self, form: str) -> Floats:
        return _solve(self.features(form), self.ns, self.many)


def _fit_one(curve: Curve, part: pd.DataFrame, seed: int) -> Fit:
    if len(part) < LEAST:
        raise UserError(f"profile: {curve} has {len(part)} samples, at least {LEAST} are needed")
    samples = _Samples.of(part)
    order = np.random.default_rng(seed).permutation(len(samples.ns))
    cut = max(int(len(order) * HELD_OUT), 1)
    told, by, rest = samples.take(order[:cut]), samples.take(order[cut : 2 * cut]), samples.take(order[2 * cut :])
    errors = {form: by.error(by.features(form) @ rest.fitted(form)) for form in CANDIDATES.get(Op[curve.op], DENSE)}
    best = min(errors, key=lambda form: errors[form])
    predicted = told.features(best) @ samples.take(order[cut:]).fitted(best)
    bounds = {name: (int(part[name].min()), int(part[name].max())) for name in RANGED}
    return Fit(
        op=curve.op,
        width=curve.width,
        form=best,
        coefficients=tuple(samples.fitted(best).tolist()),
        low={name: low for name, (low, _) in bounds.items()},
        high={name: high for name, (_, high) in bounds.items()},
        held_out_error=told.error(predicted),
        samples=len(samples.ns),
        alternatives={form: error for form, error in errors.items() if form != best},
        lane=curve.lane,
        variant=curve.variant,
        bias=float(predicted @ told.many) / max(float(told.ns @ told.many), 1.0) - 1,
        spread=_spread(part),
    )


def _spread(part: pd.DataFrame) -> float:
    """One relative deviation for all rows, such that the variance of their sum is that of all of theirs."""
    ns = part["ns"].to_numpy(np.float64)
    return float(np.sqrt(((part["spread"].to_numpy(np.float64) * ns) ** 2).sum() / max((ns**2).sum(), 1e-12)))


def _solve(features: Floats, ns: Floats, many: Floats | None = None) -> Floats:
    """Non-negative coefficients; columns scaled so that the solver sees like numbers.

    Weights are 1 over what is *predicted*, found in rounds: the quasi-likelihood of a variance in proportion to the mean with an identity
    link (McCullagh, Nelder; Generalized Linear Models, 1989, §9.2). Its equations, sum of x_j (y - m) / m = 0 for every feature j in use,
    weighted by their coefficients add up to sum of (y - m) = 0, since m is the sum of those: the samples' predicted times add up to their
    measured ones, whatever noise they have. Weights of 1 over the square of what was *measured* favour the samples that noise made small.
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
    """Alpha and beta of a ring: T = 2(P-1) alpha + 2(P-1)/P n / B (MG-WFBP, Shi et al. 2021, which REAL §7.5 follows).

    Beta comes from all-reduces of many sizes back to back, but is no more than what those that end an iteration take. Alpha comes from
    the latter, where there are any: after computing, ranks have to be woken, and that is the latency that training sees. Together they
    take as long as they were measured to.
    """
    ranks, size, ns = (part[name].to_numpy(np.float64) for name in ("ranks", "bytes", "ns"))
    steps, moved, alone = 2 * (ranks - 1), 2 * (ranks - 1) / ranks * size, part["alone"].to_numpy(bool)
    alpha, beta = _solve(np.stack([steps, moved], axis=1)[alone], ns[alone]) if alone.any() else (0.0, 0.0)
    if not alone.all():
        beta = min(beta, float(ns[~alone].sum() / max(moved[~alone].sum(), 1)))
        alpha = max(float((ns - moved * beta)[~alone].sum() / steps[~alone].sum()), 0.0)
    return Link(bandwidth=1e9 / max(beta, 1e-12), latency_s=alpha / 1e9)


def _fit_gather(part: pd.DataFrame) -> Link:
    """Alpha and beta of a ring's second half: T = (P-1) alpha + (P-1) n / B of a rank's share n, ranks having about as much each. One that
    has nothing waits for the others', and says nothing."""
    shares = part[part["bytes"] > 0]
    ranks, size, ns = (shares[name].to_numpy(np.float64) for name in ("ranks", "bytes", "ns"))
    alpha, beta = _solve(np.stack([ranks - 1, (ranks - 1) * size], axis=1), ns)
    return Link(bandwidth=1e9 / max(beta, 1e-12), latency_s=alpha / 1e9)


def _fit_exchange(part: pd.DataFrame) -> Link:
    """Alpha and beta of pairwise exchange: T = (P-1) alpha + n / B of what a rank sends or receives."""
    shares = part[part["bytes"] > 0]
    ranks, size, ns = (shares[name].to_numpy(np.float64) for name in ("ranks", "bytes", "ns"))
    alpha, beta = _solve(np.stack([ranks - 1, size], axis=1), ns)
    return Link(bandwidth=1e9 / max(beta, 1e-12), latency_s=alpha / 1e9)
