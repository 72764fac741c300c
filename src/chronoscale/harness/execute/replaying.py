"""Replaying: executed schedules replayed on a model of this machine, to see how well the simulator predicts them."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.execute.machine import machine_for, machines, this_device
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.planning.cost_models import costs_of_file, names_cost_file
from chronoscale.harness.runs.passes import COSTS, SPANS, load_passes, load_schedules
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import check
from chronoscale.simulator.uncertainty.draws import epoch_spans
from chronoscale.simulator.uncertainty.spec import Uncertainty
from chronoscale.strategies.costs import FittedCosts
from chronoscale.strategies.planning.cuda_graphs import serialise_graphs

DRAWS = 31  # of jitter
JITTER = Uncertainty("fitted", "fitted")  # as repeats have shown it


def replay_executed(experiment: Experiment, run: Run) -> None:
    """Replay, on a model of this machine, the schedules that a run has executed, for `chronoscale validate`.

    Fills a piece `replay-<n>` for every rank count with traces. Costs are those that the experiment names, or those fitted to the probes
    that ran in turn with the strategies. On several ranks, which wait for the slowest, it also writes the epochs, ns, of `DRAWS` replays
    with random jitter as fitted: their median is the prediction.

    Raises UserError when a schedule leaves the range that the costs were fitted on, or the machine's memory.
    """
    device = device_name(this_device(experiment.device))
    if len({machine.of(max(experiment.ranks)) for machine in machines()} - {0}) > 1:
        warning = "validate: machines have different numbers of ranks, and are replayed as if each but the last had as many as the largest"
        warnings.warn(warning, ChronoscaleWarning, stacklevel=2)

    def make(ranks: int, part: Path) -> None:
        folder = run.folder / f"ranks-{ranks}"
        if names_cost_file(experiment):
            known = costs_of_file(experiment, device)
        else:
            known = FittedCosts.load(folder / COSTS, experiment.extrapolate)
        for name, schedule in load_schedules(folder).items():
            cluster = machine_for(experiment, known, schedule)
            last = load_passes(folder, name)[-1]
            schedule = serialise_graphs(schedule, last.trace)
            costs = costs_as_launched(known, last)
            trace = replay(schedule, cluster, costs)
            check(schedule, trace, cluster)
            trace.save(part / f"{name}.parquet")
            if ranks > 1 and costs.jitters:
                drawn = epoch_spans(schedule, cluster, costs, JITTER, DRAWS, experiment.seed)
                write_text(part / f"{name}{SPANS}", json.dumps(drawn.tolist()))

    for ranks in experiment.ranks:
        if not (run.folder / f"ranks-{ranks}").exists():
            raise UserError(f"{run.folder}: nothing was executed on {ranks} ranks")
        run.piece(f"replay-{ranks}", partial(make, ranks))


def costs_as_launched(costs: FittedCosts, executed: Pass) -> FittedCosts:
    """Return the costs to replay an executed pass with: without time for launching kernels, where it ran as CUDA graphs.

    Rows then still take what they took one by one, which is too much for those that waited for their launches.
    """
    return costs if executed.launched is None or executed.launched.why else replace(costs, launch_ns=0)
