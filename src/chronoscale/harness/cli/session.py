"""Session: what commands that fill a run do first and last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from chronoscale.harness.cli.output import err, say
from chronoscale.harness.content import of_data
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.experiments import load
from chronoscale.harness.machine import seated, this_device
from chronoscale.harness.runs import Run
from chronoscale.harness.started import files, start
from chronoscale.modules import fingerprints
from chronoscale.real_exec.environment import fingerprint
from chronoscale.strategies.registry import versions


def asked(file: Path, seed: int | None, **changes: Any) -> Experiment:
    """The experiment of a file, with what the command line says instead."""
    return load(file, changes if seed is None else {**changes, "seed": seed})


def begin(command: str, file: Path, root: Path, seed: int | None, executes: bool = True, **changes: Any) -> tuple[Experiment, Run]:
    """The experiment, and a run of it: a new one, or one that was left incomplete. Where it `executes`, on as many ranks as find a device
    here, unless the command line says how many."""
    experiment = asked(file, seed, **changes)
    if executes and "ranks" not in changes:
        experiment = seated(experiment)
    here = fingerprint(this_device(experiment)) | fingerprints(files(experiment)) | versions(experiment.strategies) | of_data(experiment)
    run, resumed = start(root, command, experiment, file.read_text(), here)
    if resumed:
        err.print(f"taking up {run.folder}, which was left incomplete")
    return experiment, run


def end(run: Run, frame: pd.DataFrame, title: str, as_json: bool, notes: Sequence[str] = ()) -> None:
    """Mark the run as complete, and say what came out of it."""
    run.finish()
    say(frame, title, as_json)
    for note in notes:
        err.print(note, highlight=False, markup=False)
    err.print(f"run: {run.folder}")
