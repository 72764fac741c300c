"""Steps of the loop, of an experiment that has been read: what profile, bench, validate and simulate do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from chronoscale.harness.cli.output import PARTS, say, stage
from chronoscale.harness.cli.session import begin, end
from chronoscale.harness.execute import execution
from chronoscale.harness.execute.calibration import measure
from chronoscale.harness.execute.validation import Validated
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs import publish
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import of_run
from chronoscale.harness.simulate import simulation


def profile(experiment: Experiment, file: Path, root: Path, as_json: bool) -> None:
    """Measure, fit, and say how well."""
    from chronoscale.harness import curves  # noqa: PLC0415 (scikit-learn)

    experiment, run = begin("profile", experiment, file, root)
    with stage("profiling", resumes=True) as told, run.watched():
        run.piece("profile", partial(measure, experiment, run, told=told))
    end(run, curves.profile(run), "fitted costs", as_json)


def bench(experiment: Experiment, file: Path, root: Path, as_json: bool) -> None:
    """Execute, and say how long what took."""
    run = _executed("bench", experiment, file, root)
    table, parts = publish.compared(run), publish.parts(run)
    if not as_json:
        say(parts, PARTS, as_json)
    end(run, publish.beside(table, parts) if as_json else table, "executed", as_json)


def validate(experiment: Experiment, file: Path, root: Path, as_json: bool) -> None:
    """Execute and replay, and say how far apart they are."""
    run = _executed("validate", experiment, file, root, replayed=True)
    with stage("replaying", resumes=True):
        execution.rehearse(of_run(run), run)
    found = Validated.of(run)
    if not as_json:
        say(found.coverage, "what was compared", as_json)
        if len(found.order):
            say(found.order, "pairs of strategies, the one that is measured to be faster first", as_json)
    end(run, found.records() if as_json else found.table, "predicted against measured", as_json, [found.said] if found.said else [])


def _executed(command: str, experiment: Experiment, file: Path, root: Path, replayed: bool = False) -> Run:
    """A run in which every strategy has been executed."""
    experiment, run = begin(command, experiment, file, root)
    with stage("executing", resumes=True) as told, run.watched():
        execution.execute(experiment, run, replayed, told)
    return run


def simulate(experiment: Experiment, file: Path, root: Path, as_json: bool) -> None:
    """Replay, and say what the answers rest on."""
    experiment, run = begin("simulate", experiment, file, root, seats=False)
    with stage("simulating", resumes=True) as told:
        simulation.simulate(experiment, run, told)
    table, resting = publish.compared(run), publish.resting(run)
    if not as_json and len(resting):
        which = f"what the answers on {max(experiment.gpus)} GPUs rest on"
        say(resting, f"{which}: the epoch, without what is uncertain, at both ends of an assumption", as_json)
    shown = publish.assumed(table, resting) if as_json else table
    end(run, shown, f"simulated on {experiment.cluster}", as_json, [*simulation.streamed(run), *simulation.refused(run)])
