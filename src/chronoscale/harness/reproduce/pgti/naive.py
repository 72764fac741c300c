"""Naive: errors of what predicts without learning, to stand beside a model's in every table that has any."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from chronoscale.batching.signals.naive import naive_errors
from chronoscale.batching.signals.windows import Windows
from chronoscale.harness.reproduce.pgti.trained import Training, signal

TIE = 0.01  # of the naive error: neither is better
NAIVE = (
    "Naive errors are of the same windows and units as the model's: the last reading repeated, "
    "and each sensor's mean over the training period."
)
Errors = Mapping[str, float]  # by naive prediction


@cache
def _errors(dataset: str, horizon: int, phase: str, limit: int = 0) -> Mapping[str, tuple[float, float]]:
    data = signal(dataset)
    windows: range = getattr(whole := Windows(len(data), horizon, horizon), phase)
    found = naive_errors(data, whole, windows[:limit] if limit else windows)
    return {name: (scores["mae"], scores["rmse"] ** 2) for name, scores in found.items()}


def validation(one: Training, squared: bool = False) -> Errors:
    """MAE (mean square) over the windows that `one` validates, in units of the data. Raises UserError where readings are not at hand."""
    limit = one.batches * one.batch * one.ranks  # in order of time, as all strategies but those with local shuffling on several ranks
    return {name: found[squared] for name, found in _errors(one.dataset, one.horizon, "validation", limit).items()}


def training(one: Training) -> Errors:
    """MAE over all training windows. Raises UserError as `validation`."""
    return {name: found[0] for name, found in _errors(one.dataset, one.horizon, "train").items()}


def beside(best: float, naive: float) -> str:
    """What a model's best error is against a naive one, in words."""
    apart = best / naive - 1
    if abs(apart) < TIE:
        return f"a tie: the model's best, {best:.4g}, is within {TIE:.0%} of it"
    verdict, side = ("not beaten", "above") if apart > 0 else ("beaten", "below")
    return f"{verdict}: the model's best, {best:.4g}, is {abs(apart):.0%} {side} it"


def verdict(what: str, best: float, naive: Errors) -> str:
    """One sentence on a data set: whether the model has learnt more than a naive prediction knows."""
    least = min(naive, key=lambda name: naive[name])
    if best < naive[least] * (1 - TIE):
        return f"{what}: the model's {best:.4g} is below both naive errors ({least}: {naive[least]:.4g})."
    return (
        f"{what}: the model's {best:.4g} does not beat the {least} ({naive[least]:.4g}); "
        "its errors say that strategies train alike, not that they train well."
    )
