"""Session: what commands that fill a run do first and last. It needs no torch; those that execute begin by `execution_session`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from chronoscale.harness.cli.output import err, print_table
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.content import digests
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import as_started, python_files, start
from chronoscale.modules import fingerprints
from chronoscale.strategies.registry import versions


def begin(command: str, experiment: Experiment, file: Path, root: Path, machine: Mapping[str, str]) -> tuple[Experiment, Run, bool]:
    """Begin a command's run of an experiment, or take up one that was left incomplete; return the experiment as the run was started, the
    run, and whether it was taken up.

    file: the experiment's. root: folder of runs. machine: facts of hardware and software that the run records, and has to share with one
    that is taken up, beside the content of the files that the experiment names.
    """
    files = [*experiment.dataset.sources, experiment.cluster, experiment.costs]  # names that are of no file are left out
    here = dict(machine) | fingerprints(python_files(experiment)) | versions(experiment.strategies) | digests(files)
    run, before = start(root, command, experiment, file.read_text(), here)
    if before:
        err.print(f"taking up {run.folder}, which {before}")
    return as_started(run, experiment), run, bool(before)


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
