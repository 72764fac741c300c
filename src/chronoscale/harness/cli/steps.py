"""Steps of the loop, for an experiment that has been read: what profile, bench, validate and simulate do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from chronoscale.harness.cli.output import PARTS, print_table, stage
from chronoscale.harness.cli.session import begin, close, end
from chronoscale.harness.execute.calibration import measure_profile
from chronoscale.harness.execute.execution import execute
from chronoscale.harness.execute.profiles import FOLDER
from chronoscale.harness.execute.replaying import replay_executed
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.publish import tables
from chronoscale.harness.publish.validation import ValidationTables
from chronoscale.harness.runs.assumed import conclusion_sentences
from chronoscale.harness.runs.passes import clock_sentences, planning_sentences
from chronoscale.harness.runs.points import left_out_sentences, refused_sentences, streamed_sentences
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.simulate.assumed import simulate_assumed
from chronoscale.harness.simulate.simulation import assumed_setting
from chronoscale.harness.simulate.simulation import simulate as run_simulation
from chronoscale.harness.workflows.registry import workflow_of


def profile(experiment: Experiment, file: Path, root: Path, as_json: bool) -> None:
    """Do what `chronoscale profile` does, with an experiment that has been read: measure operations, fit costs, print how well they fit.

    file: the experiment's. root: folder of runs.
    """
    from chronoscale.harness.publish import curves  # noqa: PLC0415 (scikit-learn)

    experiment, run = begin("profile", experiment, file, root)
    with stage("profiling", resumes=True) as on_progress, run.recording_not_finite():
        run.piece(FOLDER, partial(measure_profile, workflow_of(experiment), experiment, run, on_progress=on_progress))
    end(run, curves.profile_table(run), "fitted costs", as_json, curves.machine_sentences(run))


def bench(experiment: Experiment, file: Path, root: Path, as_json: bool) -> None:
    """Do what `chronoscale bench` does, with an experiment that has been read: train with all strategies, print how long what took.

    file: the experiment's. root: folder of runs.
    """
    experiment, run = _execute("bench", experiment, file, root)
    table, parts = tables.comparison_table(run), tables.breakdown_table(run)
    if not as_json:
        print_table(parts, PARTS, as_json)
    shown = tables.with_breakdowns(tables.with_planning(run, table), parts) if as_json else table
    end(run, shown, "executed", as_json, [*_remarks(run), *workflow_of(experiment).notes(experiment, run)])


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
    experiment, run = begin(command, experiment, file, root)
    with stage("executing", resumes=True) as on_progress, run.recording_not_finite():
        execute(experiment, run, replayed, on_progress)
    return experiment, run


def simulate(experiment: Experiment, file: Path, root: Path, as_json: bool, dask: str | None = None, tornado: bool = False) -> None:
    """Do what `chronoscale simulate` does, with an experiment that has been read: replay every strategy on every number of GPUs, print
    how long each takes, and then what holds under joint assumptions.

    file: the experiment's. root: folder of runs. dask: address of a scheduler whose workers replay. tornado: print each assumption alone.
    """
    experiment, run = begin("simulate", experiment, file, root, seats=False)
    title = f"simulated on {experiment.cluster}"
    with stage("simulating", resumes=True) as on_progress:
        run_simulation(experiment, run, on_progress, dask)
    if not as_json:
        print_table(tables.comparison_table(run), title, as_json)
    with stage("drawing assumptions", resumes=True) as on_progress:
        simulate_assumed(assumed_setting(experiment), run, on_progress)
    assumptions = tables.assumption_table(run)
    if as_json:
        print_table(tables.with_conclusions(run, tables.with_assumptions(tables.comparison_table(run), assumptions)), title, as_json)
    elif tornado and len(assumptions):
        which = f"what the answers on {max(experiment.gpus)} GPUs rest on"
        print_table(assumptions, f"{which}: the epoch, without what is uncertain, at both ends of an assumption", as_json)
    close(run, [*conclusion_sentences(run), *left_out_sentences(run), *streamed_sentences(run), *refused_sentences(run)])
