"""Epoch setting: what is planned and replayed of one strategy on one number of GPUs of a comparison, here or on another machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.keys.uncertainty import UncertaintyKeys
from chronoscale.harness.planning.schedules import plan_preparation
from chronoscale.harness.runs.passes import PREPARATION, SCHEDULE
from chronoscale.harness.simulate.plan_and_replay import plan_and_replay
from chronoscale.simulator.engine import Engine, replaying_with
from chronoscale.strategies.cluster import Cluster
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


@dataclass(frozen=True, slots=True)
class SimulatedEpoch:
    """Epoch of one strategy on the GPUs of one scale of `chronoscale compare`.

    seconds: in every draw of what is uncertain, one where nothing is. peak_bytes: of the fullest GPU. costs: by name. idle: GPUs without
    work. refused: why there is no such epoch, as the strategy cannot be planned for so many GPUs, or does not fit in their memory; ''
    where there is one.
    """

    seconds: tuple[float, ...] = ()
    peak_bytes: int = 0
    costs: str = ""
    idle: int = 0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class EpochSetting:
    """Input of the simulation of one strategy on the GPUs of one scale of `chronoscale compare`.

    work: counts of the data on which virtual ranks will train, cut as the strategy plans with them.
    """

    planner: Strategy
    work: Workload
    gpus: int
    cluster: Cluster
    costs: CostModel
    uncertainty: UncertaintyKeys
    seed: int
    engine: Engine

    def simulate(self, part: Path) -> SimulatedEpoch:
        """Plan and replay the epoch, and write its schedules to the folder `part`; that there is none is a result, too."""
        planner, work, gpus = self.planner, self.work, self.gpus
        try:
            with replaying_with(self.engine):
                result = plan_and_replay(planner, work, gpus, self.cluster, self.costs, self.uncertainty, self.seed)
        except UserError as error:
            return SimulatedEpoch(refused=str(error))
        if result.point.out_of_memory:
            return SimulatedEpoch(refused=result.point.out_of_memory)
        result.schedule.save(part / f"{planner.name}{SCHEDULE}")
        if planner.prepares:
            plan_preparation(planner, work, gpus, self.costs).save(part / f"{planner.name}{PREPARATION}")
        point = result.point
        return SimulatedEpoch(point.draws_s or (result.trace.span_ns / 1e9,), point.peak_bytes, point.costs, point.idle_ranks)
