"""Execution session: what commands that execute on this machine, and on others, do first."""

from __future__ import annotations

import warnings
from pathlib import Path

from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.cli.sessions.session import begin
from chronoscale.harness.execute.machine import fit_ranks_to_gpus, fit_ranks_to_processes, machines, processes, sharing, this_device
from chronoscale.harness.keys.elastic import Elastic
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.run_folder import MACHINES, Run
from chronoscale.real_exec.measurement.environment import fingerprint
from chronoscale.real_exec.ranks.machines import describe


def begin_execution(
    command: str, experiment: Experiment, file: Path, root: Path, seats: bool = True, elastic: Elastic | None = None
) -> tuple[Experiment, Run]:
    """Begin the run of a command that executes, or take up one that was left incomplete.

    Returns the experiment, on as many ranks as this machine has devices for if `seats`, and the run. file: the experiment's. root: folder
    of runs. elastic: the run is the same on any of these numbers of ranks, and machines; the experiment is on as many as there are.
    """
    if seats:
        experiment = fit_ranks_to_processes(fit_ranks_to_gpus(experiment))
    machine = fingerprint(this_device(experiment.device)) | sharing(experiment)
    experiment, run, resumed = begin(command, experiment, file, root, machine)
    if (before := run.machines) != (there := describe(machines())):
        if resumed:
            names = [each.get("machines", "one machine") for each in (before, there)]
            warnings.warn(f"{run.folder}: what was done on {names[0]} goes on on {names[1]}", ChronoscaleWarning, stacklevel=2)
        run.write(MACHINES, there)
    if elastic:
        experiment = experiment.model_copy(update={"ranks": (elastic.of(processes(elastic.most)),)})
    return experiment, run
