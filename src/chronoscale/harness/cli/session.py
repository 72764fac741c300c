"""Session: what commands that fill a run do first and last."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.cli.output import err, print_table
from chronoscale.harness.execute.machine import fit_ranks_to_gpus, fit_ranks_to_processes, machines, processes, sharing, this_device
from chronoscale.harness.keys.elastic import Elastic
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.content import digests
from chronoscale.harness.runs.run_folder import MACHINES, Run
from chronoscale.harness.runs.start import python_files, start
from chronoscale.modules import fingerprints
from chronoscale.real_exec.measurement.environment import fingerprint
from chronoscale.real_exec.ranks.machines import describe
from chronoscale.strategies.registry import versions


def begin(
    command: str, experiment: Experiment, file: Path, root: Path, seats: bool = True, elastic: Elastic | None = None
) -> tuple[Experiment, Run]:
    """Begin a command's run of an experiment, or take up one that was left incomplete.

    Returns the experiment, on as many ranks as this machine has devices for if `seats`, and the run. file: the experiment's. root: folder
    of runs. elastic: the run is the same on any of these numbers of ranks, and machines; the experiment is on as many as there are.
    """
    if seats:
        experiment = fit_ranks_to_processes(fit_ranks_to_gpus(experiment))
    here = fingerprint(this_device(experiment.device)) | sharing(experiment)
    files = [*experiment.dataset.files, experiment.cluster, experiment.costs]  # names that are of no file are left out
    here |= fingerprints(python_files(experiment)) | versions(experiment.strategies) | digests(files)
    run, resumed = start(root, command, experiment, file.read_text(), here)
    if resumed:
        err.print(f"taking up {run.folder}, which was left incomplete")
    if (before := run.machines) != (there := describe(machines())):
        if resumed:
            names = [each.get("machines", "one machine") for each in (before, there)]
            warnings.warn(f"{run.folder}: what was done on {names[0]} goes on on {names[1]}", ChronoscaleWarning, stacklevel=2)
        run.write(MACHINES, there)
    if elastic:
        experiment = experiment.model_copy(update={"ranks": (elastic.of(processes(elastic.most)),)})
    return experiment, run


def end(run: Run, frame: pd.DataFrame, title: str, as_json: bool, notes: Sequence[str] = ()) -> None:
    """Mark a command's run as complete, and print its results: a table, notes, and where the run lies.

    frame, title: the table and its heading. as_json: print the table as JSON records. notes: sentences, printed to stderr.
    """
    print_table(frame, title, as_json)
    close(run, notes)


def close(run: Run, notes: Sequence[str]) -> None:
    """Mark a command's run as complete, and print notes, and where the run lies, to stderr."""
    run.finish()
    for note in notes:
        err.print(note, highlight=False, markup=False)
    err.print(f"run: {run.folder}")
