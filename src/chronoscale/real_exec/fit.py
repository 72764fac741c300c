"""Fit: from a profile to a cost model, with the error on samples that were not fitted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.real_exec.interpreter import Pass, medians
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import FORMS, PLACED, RANGED, Fit, FittedCosts, Floats
from chronoscale.strategies.flaredtdg.predictor import flags
from chronoscale.strategies.schedule import COLLECTIVES, Lane, Op, Schedule

# Forms tried for each operation; the one with the least held-out error stays.
CANDIDATES: Mapping[Op, tuple[str, ...]] = {
    Op.H2D: ("bytes", "rows-bytes"),
    Op.FETCH: ("bytes", "traffic"),
    Op.REMAP: ("bytes", "rows-edges", "traffic"),
    Op.AGGREGATE: ("eq16", "u-curve", "traffic"),
    Op.SAMPLE: ("rows-edges", "traffic", "bytes"),
    Op.INCREMENT: ("rows-edges", "u-curve", "traffic"),
    Op.RECONSTRUCT: ("eq16", "rows-edges"),
}
DENSE = ("work", "bytes")
LEAST = 4  # samples of a curve
HELD_OUT = 0.25  # share of samples
WIDE = 0.10  # relative standard deviation over repeats that draws a warning (REAL's profiler rejects such noise)


def tabulate(items: Sequence[tuple[Schedule, Sequence[Pass]]]) -> pd.DataFrame:
    """One row a task: descriptors, `ns` (median of repeats, outliers rejected), `spread` (relative standard deviation), whether its
    schedule held nothing but collectives (`alone`), that schedule's kind, and what a predictor reads (`place`: its lane)."""
    frames = []
    for schedule, passes in items:
        times = np.stack([p.trace.duration_ns for p in passes])
        ns = medians(passes)
        columns = {name: getattr(schedule, name) for name in (*RANGED, "width", "alloc", "collective")} | flags(schedule)
        spread = times.std(0) / np.maximum(ns, 1)
        lanes = [Lane(lane).name if Op(code) in PLACED else "" for code, lane in zip(schedule.op, schedule.lane, strict=True)]
        names, alone = [Op(code).name for code in schedule.op], all(Op(code) in COLLECTIVES for code in schedule.op)
        columns |= {"place": [Lane(lane).name for lane in schedule.lane], "schedule": schedule.kind}
        rest = {"ranks": schedule.ranks, "alone": alone, "ns": ns, "spread": spread}
        frames.append(pd.DataFrame({"op": names, "lane": lanes, **columns, **rest}))
    table = pd.concat(frames, ignore_index=True)
    spread = table.groupby("op")["spread"].median()
    wide = [f"{op} {100 * value:.0f} %" for op, value in spread.items() if value >= WIDE]
    if wide:
        message = f"profile: repeats vary (median standard deviation), so treat these fits with care: {', '.join(wide)}"
        warnings.warn(message, ChronoscaleWarning, stacklevel=2)
    return table


def fit(table: pd.DataFrame, device: str, fingerprint: Mapping[str, str], seed: int = 0, launch_ns: int = 0) -> FittedCosts:
    """Curves for every (operation, width) of a profile, and alpha and beta of all-reduce, all-gather and all-to-all where it has any.

    Non-negative least squares on relative error. Held-out error is the median relative error on a quarter of the samples, from a fit on
    the others; the stored curve is then fitted on all. `launch_ns`: as in `CostModel`. Raises UserError when an operation has too few
    samples.
    """
    fits = []
    for (name, lane, width), part in table.groupby(["op", "lane", "width"], sort=True):
        if Op[str(name)] not in COLLECTIVES:
            fits.append(_fit_one(Op[str(name)], str(lane), int(str(width)), part, seed))
    reduced, gathered, exchanged = (table[table["op"] == op.name] for op in (Op.ALLREDUCE, Op.ALLGATHER, Op.ALLTOALL))
    link, gather = _fit_link(reduced) if len(reduced) else None, _fit_gather(gathered) if gathered["bytes"].any() else None
    exchange = _fit_exchange(exchanged) if exchanged["bytes"].any() else None
    return FittedCosts(device, tuple(fits), dict(fingerprint), link, gather, exchange, launch_ns=launch_ns)


def _fit_one(op: Op, lane: str, width: int, part: pd.DataFrame, seed: int) -> Fit:
    distinct = pd.DataFrame(part.groupby([*RANGED], as_index=False)["ns"].median())
    if len(part) < LEAST:
        raise UserError(f"profile: {op.name} at width {width} has {len(part)} samples, at least {LEAST} are needed")
    sample = distinct if len(distinct) >= 8 else part
    order = np.random.default_rng(seed).permutation(len(sample))
    cut = max(int(len(sample) * HELD_OUT), 1)
    held, train = order[:cut], order[cut:]
    ns = sample["ns"].to_numpy(np.float64)
    errors: dict[str, float] = {}
    for form in CANDIDATES.get(op, DENSE):
        features = _features(form, sample)
        predicted = features[held] @ _solve(features[train], ns[train])
        errors[form] = float(np.median(np.abs(predicted - ns[held]) / np.maximum(ns[held], 1)))
    best = min(errors, key=lambda form: errors[form])
    bounds = {name: (int(part[name].min()), int(part[name].max())) for name in RANGED}
    return Fit(
        op=op.name,
        width=width,
        form=best,
        coefficients=tuple(_solve(_features(best, sample), ns).tolist()),
        low={name: low for name, (low, _) in bounds.items()},
        high={name: high for name, (_, high) in bounds.items()},
        held_out_error=errors[best],
        samples=len(sample),
        alternatives={form: error for form, error in errors.items() if form != best},
        lane=lane,
    )


def _features(form: str, sample: pd.DataFrame) -> Floats:
    return FORMS[form].features({name: sample[name].to_numpy(np.float64) for name in RANGED})


def _solve(features: Floats, ns: Floats) -> Floats:
    """Non-negative coefficients, least squares on relative error; columns scaled so that the solver sees like numbers."""
    scale = np.maximum(np.abs(features).max(0), 1e-12)
    weight = 1 / np.maximum(ns, 1) ** 2
    model = LinearRegression(fit_intercept=False, positive=True).fit(features / scale, ns, sample_weight=weight)
    return np.asarray(model.coef_ / scale, np.float64)


def _fit_link(part: pd.DataFrame) -> Link:
    """Alpha and beta of a ring: T = 2(P-1) alpha + 2(P-1)/P n / B (MG-WFBP, Shi et al. 2021, which REAL §7.5 follows).

    Beta comes from all-reduces of many sizes back to back. Alpha comes from those that end an iteration, where there are any: after
    computing, ranks have to be woken, and that is the latency that training sees.
    """
    one = part.groupby(["alone", "ranks", "bytes"], as_index=False)["ns"].median()
    ranks, size, ns = (one[name].to_numpy(np.float64) for name in ("ranks", "bytes", "ns"))
    steps, moved, alone = 2 * (ranks - 1), 2 * (ranks - 1) / ranks * size, one["alone"].to_numpy(bool)
    alpha, beta = _solve(np.stack([steps, moved], axis=1)[alone], ns[alone]) if alone.any() else (0.0, 0.0)
    if not alone.all():
        alpha = float(np.median(np.maximum(ns - moved * beta, 0)[~alone] / steps[~alone]))
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
