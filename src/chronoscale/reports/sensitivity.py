"""Sensitivity: what the answers of a simulation rest on, by how far each assumption moves them."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from chronoscale.reports.section import Section
from chronoscale.reports.strategy_result import StrategyResult
from chronoscale.simulator.uncertainty.effect import Effect

SHOWN = 5  # assumptions, those that matter most
NAN = float("nan")
Ends = tuple[float, float, float]  # as simulated, and at the two ends of a range


class StrategyEffect(NamedTuple):
    """Effect of one assumption of a simulation on one strategy, as a report shows it.

    epoch_s: seconds, as simulated and with the assumption at the low and at the high end of its range; speedup: over the baseline, the same
    three, NaN for the baseline itself.
    """

    strategy: str
    epoch_s: Ends
    speedup: Ends

    def times(self) -> Ends:
        """Return the seconds of the epoch: as simulated, at the low end and at the high end of the assumption's range."""
        return self.epoch_s

    def gains(self) -> Ends:
        """Return the speed-up over the baseline: as simulated, at the low end and at the high end of the assumption's range."""
        return self.speedup

    @property
    def largest_change(self) -> float:
        """Return the largest relative change of the epoch or of the speed-up at either end of the assumption's range."""
        changes = [abs(end / middle - 1) for middle, *ends in (self.epoch_s, self.speedup) if middle > 0 for end in ends]
        return max(changes, default=0.0)


class AssumptionEffect(NamedTuple):
    """Effect of one assumption of a simulation on every strategy on `ranks` ranks, as a report shows it.

    low, high: the ends of its range in words; source: where the range is from.
    """

    assumption: str
    low: str
    high: str
    source: str
    ranks: int
    strategies: tuple[StrategyEffect, ...]


def largest_effects(section: Section) -> list[AssumptionEffect]:
    """Return the assumptions that move the answers of a report's simulations most, at most SHOWN, the largest change first.

    On the largest number of ranks on which they were tried.
    """
    tried = [run for run in section.comparable if run.effects]
    ranks = max((run.ranks for run in tried), default=0)
    runs = [run for run in tried if run.ranks == ranks]
    by_assumption: dict[str, tuple[Effect, list[StrategyEffect]]] = {}
    for run in runs:
        base = section.base(run)
        for effect in run.effects:
            by_assumption.setdefault(effect.assumption, (effect, []))[1].append(_strategy_effect(section, run, effect, base))
    effects = [
        AssumptionEffect(effect.assumption, effect.low, effect.high, effect.source, ranks, tuple(moved))
        for effect, moved in by_assumption.values()
    ]
    return sorted(effects, key=lambda rest: -max(moved.largest_change for moved in rest.strategies))[:SHOWN]


def _strategy_effect(section: Section, run: StrategyResult, effect: Effect, base: StrategyResult | None) -> StrategyEffect:
    """Return the effect of an assumption on one result. base: that of the baseline on as many ranks."""
    epoch_s = (effect.epoch_s, effect.low_s, effect.high_s)
    if base is None or base is run or not base.effects or not min(epoch_s) > 0:
        return StrategyEffect(section.label(run), epoch_s, (NAN, NAN, NAN))
    other = next((other_effect for other_effect in base.effects if other_effect.assumption == effect.assumption), None)
    usual = base.effects[0].epoch_s  # what does not move the baseline is not among its effects
    base_epoch_s = (usual, usual, usual) if other is None else (other.epoch_s, other.low_s, other.high_s)
    return StrategyEffect(
        section.label(run), epoch_s, (base_epoch_s[0] / epoch_s[0], base_epoch_s[1] / epoch_s[1], base_epoch_s[2] / epoch_s[2])
    )


def assumptions(section: Section) -> pd.DataFrame:
    """Return a report's table of what its simulations rest on: one row an assumption and strategy, those that matter most first.

    Epochs in s, without jitter except where jitter is what is assumed.
    """
    rows = [
        {
            "assumption": effect.assumption,
            "from": effect.low,
            "to": effect.high,
            "strategy": strategy_effect.strategy,
            "ranks": effect.ranks,
            **dict(zip(("epoch_s", "epoch_at_from_s", "epoch_at_to_s"), strategy_effect.epoch_s, strict=True)),
            **dict(zip(("speedup", "speedup_at_from", "speedup_at_to"), strategy_effect.speedup, strict=True)),
            "range": effect.source,
        }
        for effect in largest_effects(section)
        for strategy_effect in effect.strategies
    ]
    return pd.DataFrame(rows)
