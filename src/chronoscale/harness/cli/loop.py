"""The loop: profile, bench, validate, simulate."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from chronoscale.harness import curves, execution, publish, simulation
from chronoscale.harness.calibration import measure
from chronoscale.harness.cli.dry import dry
from chronoscale.harness.cli.options import RUNS, AsJson, Dry, File, Root, Seed
from chronoscale.harness.cli.output import PARTS, say, stage
from chronoscale.harness.cli.session import begin, end
from chronoscale.harness.runs import Run
from chronoscale.harness.started import of_run
from chronoscale.harness.validated import Validated


def profile(file: File, root: Root = RUNS, as_json: AsJson = False, seed: Seed = None, dry_run: Dry = False) -> None:
    """Measure operations on this device, fit cost curves, report their held-out error."""
    if dry_run:
        return dry("profile", file, seed, as_json, ranks=(1,))
    experiment, run = begin("profile", file, root, seed)
    with stage("profiling") as told, run.watched():
        run.piece("profile", partial(measure, experiment, run, told=told))
    end(run, curves.profile(run), "fitted costs", as_json)


def bench(file: File, root: Root = RUNS, as_json: AsJson = False, seed: Seed = None, dry_run: Dry = False) -> None:
    """Train with every strategy for real, on every rank count."""
    if run := _executed("bench", file, root, as_json, seed, dry_run):
        table, parts = publish.compared(run), publish.parts(run)
        if not as_json:
            say(parts, PARTS, as_json)
        end(run, publish.beside(table, parts) if as_json else table, "executed", as_json)


def validate(file: File, root: Root = RUNS, as_json: AsJson = False, seed: Seed = None, dry_run: Dry = False) -> None:
    """Execute and replay the same schedules; print the error per operation, iteration and in total, beside the spread of the repeats."""
    if run := _executed("validate", file, root, as_json, seed, dry_run, replayed=True):
        with stage("replaying"):
            execution.rehearse(of_run(run), run)
        found = Validated.of(run)
        if not as_json:
            say(found.coverage, "what was compared", as_json)
            if len(found.order):
                say(found.order, "pairs of strategies, the one that is measured to be faster first", as_json)
        end(run, found.records() if as_json else found.table, "predicted against measured", as_json, [found.said] if found.said else [])


def _executed(command: str, file: Path, root: Path, as_json: bool, seed: int | None, dry_run: bool, replayed: bool = False) -> Run | None:
    """A run in which every strategy has been executed; None where the command only says what it would do."""
    if dry_run:
        dry(command, file, seed, as_json, executed=True)
        return None
    experiment, run = begin(command, file, root, seed)
    with stage("executing") as told, run.watched():
        execution.execute(experiment, run, replayed, told)
    return run


def simulate(file: File, root: Root = RUNS, as_json: AsJson = False, seed: Seed = None, dry_run: Dry = False) -> None:
    """Replay every strategy on every number of GPUs of the cluster."""
    if dry_run:
        return dry("simulate", file, seed, as_json)
    experiment, run = begin("simulate", file, root, seed, executes=False)
    with stage("simulating") as told:
        simulation.simulate(experiment, run, told)
    table, resting = publish.compared(run), publish.resting(run)
    if not as_json and len(resting):
        which = f"what the answers on {max(experiment.gpus)} GPUs rest on"
        say(resting, f"{which}: the epoch, without what is uncertain, at both ends of an assumption", as_json)
    shown = publish.assumed(table, resting) if as_json else table
    end(run, shown, f"simulated on {experiment.cluster}", as_json, [*simulation.streamed(run), *simulation.refused(run)])
