"""Steps of the loop, for an experiment that has been read: what profile, bench and validate do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from chronoscale.harness.cli.output import PARTS, print_table, stage
from chronoscale.harness.cli.sessions.execution_session import begin_execution
from chronoscale.harness.cli.sessions.session import end
from chronoscale.harness.execute.calibration import measure_profile
from chronoscale.harness.execute.execution import execute
from chronoscale.harness.execute.machine import check_seats, fit_ranks_to_gpus
from chronoscale.harness.execute.profiles import FOLDER
from chronoscale.harness.execute.replaying import replay_executed
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.publish import tables
from chronoscale.harness.publish.collect import collect
from chronoscale.harness.publish.validation import ValidationTables
from chronoscale.harness.runs.passes import clock_sentences, planning_sentences
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.execution_registry import execution_of
from chronoscale.harness.workflows.registry import workflow_of


def seated(experiment: Experiment) -> Experiment:
    """Return an experiment on those of its numbers of ranks that find a device here, for `--dry-run` of what executes.

    Raises UserError where none does.
    """
    experiment = fit_ranks_to_gpus(experiment)
    check_seats(experiment, experiment.ranks)
    return experiment


def profile(experiment: Experiment, file: Path, root: Path, as_json: bool) -> None:
    """Do what `chronoscale profile` does, with an experiment that has been read: measure operations, fit costs, print how well they fit.

    file: the experiment's. root: folder of runs.
    """
    from chronoscale.harness.publish import curves  # noqa: PLC0415 (scikit-learn)

    experiment, run = begin_execution("profile", experiment, file, root)
    with stage("profiling", resumes=True) as on_progress, run.recording_not_finite():
        run.piece(FOLDER, partial(measure_profile, execution_of(experiment.family), experiment, run, on_progress=on_progress))
    end(run, curves.profile_table(run), "fitted costs", as_json, curves.machine_sentences(run))


def bench(experiment: Experiment, file: Path, root: Path, as_json: bool) -> None:
    """Do what `chronoscale bench` does, with an experiment that has been read: train with all strategies, print how long what took.

    file: the experiment's. root: folder of runs.
    """
    experiment, run = _execute("bench", experiment, file, root)
    report = collect([run])
    table, parts = tables.comparison_table(run, report), tables.breakdown_table(report)
    if not as_json:
        print_table(parts, PARTS, as_json)
    shown = tables.with_breakdowns(tables.with_planning(run, table), parts) if as_json else table
    end(run, shown, "executed", as_json, [*_remarks(run), *workflow_of(experiment.family).notes(experiment, run)])


def validate(experiment: Experiment, file: Path, root: Path, as_json: bool) -> None:
    """Do what `chronoscale validate` does, with an experiment that has been read: execute and replay the same schedules, print how far
    apart they are.

    file: the experiment's. root: folder of runs.
    """
    experiment, run = _execute("validate", experiment, file, root, replayed=True)
    with stage("replaying", resumes=True):
        replay_executed(experiment, run)
    validation = ValidationTables.of(run)
    if not as_json:
        print_table(validation.coverage, "what was compared", as_json)
        if len(validation.order):
            print_table(validation.order, "pairs of strategies, the one that is measured to be faster first", as_json)
    table = validation.records() if as_json else validation.table
    end(run, table, "predicted against measured", as_json, [*_remarks(run), *filter(None, [validation.verdict])])


def _remarks(run: Run) -> list[str]:
    return [*planning_sentences(run), *clock_sentences(run)]


def _execute(command: str, experiment: Experiment, file: Path, root: Path, replayed: bool = False) -> tuple[Experiment, Run]:
    """Execute every strategy in a run, new or taken up again; also returns the experiment on as many ranks as find a device here."""
    experiment, run = begin_execution(command, experiment, file, root)
    with stage("executing", resumes=True) as on_progress, run.recording_not_finite():
        execute(experiment, run, replayed, on_progress)
    return experiment, run
