"""Joint assumptions: the strategies of a simulation under other values of all that it assumes, drawn together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from chronoscale.harness.runs.assumed import PIECE, AssumedRecord
from chronoscale.harness.runs.points import SimulatedPoint, points_of
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.simulate.trials import Trials, simulate_trials
from chronoscale.simulator.engine import Engine, replaying_with
from chronoscale.simulator.uncertainty.effect import Effect
from chronoscale.simulator.uncertainty.joint import Conclusion, JointResult
from chronoscale.simulator.uncertainty.scenario import Scenario
from chronoscale.simulator.uncertainty.spec import Uncertainty
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.schedule import Schedule


class AssumedSetting(NamedTuple):
    """What joint assumptions begin with: the machines of the most `gpus`, costs, and the uncertainty that is stated.

    draws: how many; seed: theirs; engine: that replays.
    """

    gpus: int
    machines: Cluster
    costs: CostModel
    uncertainty: Uncertainty
    draws: int
    seed: int
    engine: Engine


def simulate_assumed(setting: AssumedSetting, run: Run, on_progress: Callable[[str], None] = lambda _: None) -> None:
    """Simulate the strategies of a run of `chronoscale simulate` under joint assumptions, in the piece `assumed-<gpus>`.

    Nothing where no draws are wanted, or no strategy has a schedule on as many GPUs. on_progress: called with a line of text now and then.
    Raises UserError as a replay.
    """
    gpus = setting.gpus
    points = [point for point in points_of(run) if point.gpus == gpus and not point.out_of_memory and point.summary is None]
    if setting.draws and points:
        with replaying_with(setting.engine):
            run.piece(f"{PIECE}{gpus:05d}", partial(_simulate, setting, run, points, on_progress))


def _simulate(setting: AssumedSetting, run: Run, points: list[SimulatedPoint], on_progress: Callable[[str], None], part: Path) -> None:
    scenarios = {
        point.strategy: Scenario(
            Schedule.load(run.folder / f"sim-{setting.gpus:05d}-{point.strategy}" / "schedule.parquet"),
            setting.machines,
            setting.costs,
            setting.uncertainty,
            point.constant_bytes,
        ).explicit
        for point in points
    }
    pairs = [
        pair
        for pair in combinations(points, 2)
        if pair[0].targets == pair[1].targets and all(len(scenarios[each.strategy].schedule) for each in pair)
    ]
    trials = Trials.of(scenarios, setting.draws if pairs else 0, setting.seed)
    result, conclusions = simulate_trials(trials, [(one.strategy, other.strategy) for one, other in pairs], on_progress)
    caveated = tuple(_caveated(conclusion, *pair) for conclusion, pair in zip(conclusions, pairs, strict=True))
    effects = {name: tuple(effect for effect in _effects(result, name) if effect.size > 0) for name in scenarios}
    drawn = {name: tuple(epochs.tolist()) for name, epochs in result.drawn_s.items()}
    AssumedRecord(setting.gpus, drawn, effects, caveated).save(part)


def _caveated(conclusion: Conclusion, one: SimulatedPoint, other: SimulatedPoint) -> Conclusion:
    """Return a conclusion on two strategies that train on as many targets, with how they train otherwise."""
    if one.mathematics == other.mathematics:
        return conclusion
    steps = f"{one.steps:,} and {other.steps:,} steps an epoch" if one.steps != other.steps else "in another order, or by other formulas"
    return replace(conclusion, caveat=f"trained otherwise: {steps}")


def _effects(result: JointResult, name: str) -> Iterator[Effect]:
    for assumption, (low_s, high_s) in zip(result.assumptions, result.ends_s[name].tolist(), strict=True):
        ends = assumption.shown(assumption.low), assumption.shown(assumption.high)
        yield Effect(assumption.name, *ends, assumption.source, result.usual_s[name], low_s, high_s)
