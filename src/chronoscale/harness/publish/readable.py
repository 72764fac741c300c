"""Readable runs: a report over what can be read of runs, with a sentence for each file that is damaged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from chronoscale.errors import DamagedFileError, UserError
from chronoscale.harness.publish.collect import collect
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import load_experiment
from chronoscale.reports.report import Report


@dataclass(slots=True)
class ReadableRun:
    """Run of which damaged files are left out: `view` is the run itself while there are none, else a folder of links to its other files.

    left_out: path within the run -> what is wrong with it.
    """

    run: Run
    scratch: Path
    view: Run = field(init=False)
    left_out: dict[Path, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.view = self.run

    def leave_out(self, error: DamagedFileError) -> bool:
        """Leave out the file that an error is about, or, where that was not enough, the folder that it is in; False for a file of another
        run, and where all of the run would go."""
        if not error.path.is_relative_to(self.view.folder):
            return False
        inside = error.path.relative_to(self.view.folder)
        while inside in self.left_out:
            inside = inside.parent
        if inside == Path():
            return False
        self.left_out[inside] = error.reason
        target = self.scratch / str(len(self.left_out)) / self.run.folder.name
        _link(self.run.folder, target, {self.run.folder / path for path in self.left_out})
        self.view = Run(target)
        return True

    @property
    def notes(self) -> list[str]:
        """A sentence for each file that is left out."""
        files = {self.run.folder / path: reason for path, reason in self.left_out.items()}
        return [f"{file} is damaged, {reason}; it is left out, and the rest is shown." for file, reason in files.items()]


def collect_readable(given: Sequence[Run]) -> Report:
    """Gather runs into one report as `collect`, without files that are damaged and, of several runs, without those that are no readable
    run; each of these gets a sentence, which stands first.

    Raises UserError for the first of them where nothing else is left to show, and as `collect`.
    """
    refused = {run.folder: reason for run in given if (reason := _unreadable(run))}
    runs = [run for run in given if run.folder not in refused]
    if not runs:
        raise refused[given[0].folder]
    with TemporaryDirectory(prefix="chronoscale-report-") as scratch:
        readable = [ReadableRun(run, Path(scratch, str(number))) for number, run in enumerate(runs)]
        first: DamagedFileError | None = None
        while True:
            try:
                report = collect([each.view for each in readable])
                break
            except DamagedFileError as error:
                first = first or error
                if not any(each.leave_out(error) for each in readable):
                    raise first from None
            except UserError:
                if first is not None:
                    raise first from None
                raise
    notes = [f"{folder} is left out: {error}." for folder, error in refused.items()] + [note for each in readable for note in each.notes]
    return replace(report, notes=(*notes, *report.notes))


def _unreadable(run: Run) -> UserError | None:
    """Why nothing of a run can be read."""
    try:
        load_experiment(run)
        run.environment  # noqa: B018 (refuses what is damaged)
    except UserError as error:
        return error
    return None


def _link(source: Path, target: Path, left_out: set[Path]) -> None:
    """Make a folder of links to all files of another, but for those that are left out, or in folders that are."""
    for folder, folders, files in os.walk(source):
        here = target / Path(folder).relative_to(source)
        here.mkdir(parents=True)
        folders[:] = [name for name in folders if Path(folder, name) not in left_out]
        for name in files:
            if (file := Path(folder, name)) not in left_out:
                (here / name).symlink_to(file.absolute())
