"""JobPacker: what `chronoscale bench` would send to other machines, as jobs that are never run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from chronoscale.harness.execute.jobs import add_data, make_item, make_job
from chronoscale.harness.execute.machine import this_device
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.cost_models import costs_of_file, datasheet_costs, names_cost_file
from chronoscale.harness.planning.schedules import plan_with_costs_on_demand
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.strategies.costing.request import CostsNeeded, UnmeasuredCosts
from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Workload


@dataclass
class JobPacker:
    """Maker of the jobs of `chronoscale bench` with all files that their ranks read, below a run's folder, where nothing is executed.

    unplanned: strategies whose items have no schedule, since their plans wait for measured costs.
    """

    experiment: Experiment
    run: Run
    unplanned: set[str] = field(default_factory=set)

    def job(self, ranks: int) -> Job:
        """Make the job on a number of ranks. Raises UserError as planning does."""
        workflow = workflow_of(self.experiment.family)
        data = workflow.store(self.experiment, self.run)
        work = workflow.stored(self.experiment, data)
        (folder := self.run.folder / f"ranks-{ranks}").mkdir()
        items = []
        for name, planner in planners(self.experiment, executed=True).items():
            partition, counted = workflow.partition(self.experiment, self.run, data, work, ranks, planner)
            item = self._item(name, planner, counted, ranks, data, folder)
            items.append(add_data(item, folder, planner, counted, ranks, partition))
        return make_job(self.experiment, folder.name, items, folder)

    def _item(self, name: str, planner: Strategy, work: Workload, ranks: int, data: Path, folder: Path) -> Item:
        try:
            schedule, _ = plan_with_costs_on_demand(planner, work, ranks, self._known_costs)
        except CostsNeeded:
            self.unplanned.add(name)
            return Item(name, "", str(data), self.experiment.hyper)
        return make_item(folder, name, schedule, data, self.experiment.hyper)

    def _known_costs(self) -> CostModel:
        """The costs that are known before anything is measured; where there are none, planning raises CostsNeeded."""
        if self.experiment.costs == "datasheet":
            return datasheet_costs(self.experiment.cluster)
        if names_cost_file(self.experiment):
            return costs_of_file(self.experiment, device_name(this_device(self.experiment.device)))
        return UnmeasuredCosts()
