"""Tuning: how many snapshots a window has whole, and how much of the oldest it keeps, by greedy search (FlareDTDG §3.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan

from chronoscale.batching.snapshots.retention import Decay
from chronoscale.errors import UserError

FULL, ALPHA = 2, 0.1  # where the search begins
TENTHS = 10  # alpha is counted in tenths, so that steps of 0.1 do not drift


@dataclass(frozen=True, slots=True)
class Trial:
    """Setting that FlareDTDG's search for what windows keep has looked at. full, alpha: the number of whole snapshots, and the share that
    the oldest retains. fits: in memory; loss: of validation, None where it does not fit and was not trained; step: of the search, from 0;
    taken: the search went on from it."""

    step: int
    full: int
    alpha: float
    fits: bool
    loss: float | None
    taken: bool


@dataclass(frozen=True, slots=True)
class TuningResult:
    """Result of FlareDTDG's search for what windows keep of older snapshots (§3.5): the best setting, its validation loss, and all trials
    in their order."""

    decay: Decay
    loss: float
    trials: tuple[Trial, ...]


def tune(start: Decay, loss: Callable[[Decay], float], fits: Callable[[Decay], bool]) -> TuningResult:
    """Search how much sliding windows should keep of older snapshots, for the lowest validation loss (FlareDTDG §3.5): K, the number of
    whole snapshots, and alpha, the share that the oldest retains.

    From (2, 0.1) it goes to the neighbour, K one more or less or alpha 0.1 more or less, whose loss falls the most, for as long as one
    falls. `start` gives the window's length, which stays, K + m. loss: called with a setting, trains and returns the validation loss; a NaN
    is worse than any number. fits: whether a setting fits the memory; one that does not fit is not trained. Both are called once a setting.

    Raises UserError where the first setting does not fit or has no loss, and for lags (single ages that are kept whole), which hold for one
    window length only.
    """
    if start.lags:
        raise UserError(f"training.tune: it looks for how much older snapshots keep; leave out training.lags, got {list(start.lags)}")
    trials_by_setting: dict[tuple[int, int], Trial] = {}

    def evaluate(full: int, tenths: int, step: int) -> Trial:
        """Train with a setting, unless it does not fit."""
        decay = _decay_of(start.window, full, tenths)
        fitting = fits(decay)
        value = loss(decay) if fitting else None
        return Trial(step, full, decay.alpha, fitting, value, False)

    at = min(FULL, start.window), round(ALPHA * TENTHS)
    trials_by_setting[at] = best = evaluate(*at, 0)
    if best.loss is None or isnan(best.loss):
        why = "has no validation loss" if best.fits else "does not fit in memory"
        raise UserError(
            f"training.tune: the first setting, full {best.full} and alpha {best.alpha:g}, {why}; nothing can be compared with it"
        )
    path, step = [at], 0
    while True:
        step += 1
        for other in _neighbours(*at, start.window):
            if other not in trials_by_setting:
                trials_by_setting[other] = evaluate(*other, step)
        losses = {
            other: value
            for other in _neighbours(*at, start.window)
            if (value := trials_by_setting[other].loss) is not None and not isnan(value)
        }
        best_neighbour = min(losses, key=lambda other: losses[other], default=None)
        if best_neighbour is None or losses[best_neighbour] >= _loss(trials_by_setting[at]):
            break
        at = best_neighbour
        path.append(at)
    trials = tuple(_mark(trial, place in path) for place, trial in trials_by_setting.items())
    return TuningResult(_decay_of(start.window, *at), _loss(trials_by_setting[at]), trials)


def _neighbours(full: int, tenths: int, window: int) -> list[tuple[int, int]]:
    """Return the settings next to (K, alpha in tenths): K - 1, K + 1, alpha - 0.1, alpha + 0.1, where valid. A window that is all whole has
    no alpha."""
    steps = [(full - 1, tenths), (full + 1, tenths)] + [(full, tenths - 1), (full, tenths + 1)] * (full < window)
    return [(k, a) for k, a in steps if 1 <= k <= window and 1 <= a <= TENTHS]


def _decay_of(window: int, full: int, tenths: int) -> Decay:
    """Return the retention of a setting (K, alpha in tenths)."""
    return Decay(full, window - full, tenths / TENTHS)


def _loss(trial: Trial) -> float:
    """Return the loss of a trial that has one."""
    assert trial.loss is not None
    return trial.loss


def _mark(trial: Trial, taken: bool) -> Trial:
    """Return a trial with whether the search went on from it."""
    return Trial(trial.step, trial.full, trial.alpha, trial.fits, trial.loss, taken)
