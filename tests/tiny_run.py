"""A run with a piece of every kind, made in this process within a second: what is left of a bench, a simulation, a profile, a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from one_rank import here

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.harness.execute.jobs import make_item, make_job
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import as_yaml, check
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.schedules import plan_epoch
from chronoscale.harness.runs.passes import load_schedules
from chronoscale.harness.runs.rival_record import NAIVE
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import start
from chronoscale.harness.runs.training_record import CONTROL, FOLDER, JOB
from chronoscale.harness.simulate.simulation import simulate
from chronoscale.harness.workflows.snapshots.data import store_snapshots, stored_workload
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.snapshots.model import SnapshotModel, learner_of
from chronoscale.real_exec.training.checkpoint import save_epoch
from chronoscale.real_exec.training.epoch_record import EpochRecord
from chronoscale.real_exec.training.learner import Learner
from chronoscale.real_exec.training.plans import Plans
from chronoscale.real_exec.training.training_end import TEST
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.costs import DatasheetCosts, Fit, FittedCosts

STRATEGY = "psg"
SCORED: tuple[dict[str, float], ...] = ({"mrr": 0.25, "ap": 0.9}, {"mrr": 0.5, "ap": 0.8})  # invented, an epoch each; higher is better
TESTED = {"ap": 0.75, "mrr": 0.5, "accuracy": 0.625}
KNOWN = {"better": {"ap": 0.8, "mrr": 0.1}, "equal": {"ap": 0.75}, "worse": {"ap": 0.7, "mrr": 0.9}}  # what naive predictions have
BUSY = {"edges": 10, "rows": 10}


def experiment(folder: Path) -> Experiment:
    """On 8 snapshots in `folder`, which is made."""
    store.save(folder / "graphs", GrowthGraph.rmat(32, 100, 8, 0.1, 1).sequence())
    return check(
        {"name": "tiny", "dataset": {"path": str(folder / "graphs")}, "model": {"name": "t-gcn", "hidden": 4, "inputs": 4}, "groups": 2}
        | {"strategies": [STRATEGY], "ranks": [1], "gpus": [2], "repeats": 2, "warmup": 0, "device": "cpu", "epochs": 2},
        "tiny",
    )


def learner(settings: Experiment) -> Learner[SnapshotModel]:
    """Untrained."""
    return learner_of(settings.model.choice, Context())


class Held(Plans):
    """A learner that a checkpoint is brought back to, and nothing to train it by."""

    def __init__(self, learner: Learner[Any]) -> None:
        self.learner = learner


def make(folder: Path) -> Run:
    """The run `folder`/runs/tiny-bench-1, incomplete as a run is while it works."""
    settings = experiment(folder)
    run, _ = start(folder / "runs", "bench", settings, as_yaml(settings), {"device": "test"})
    simulate(settings, run)
    costs = DatasheetCosts(presets.cluster("h200").device)
    schedule = plan_epoch(planners(settings)[STRATEGY], stored_workload(settings, data := store_snapshots(settings, run))[0], 1, costs)

    def execute(part: Path) -> None:
        here(make_job(settings, "ranks-1", [make_item(part, STRATEGY, schedule, data, settings.hyper)], part), 1, part)

    def rehearse(part: Path) -> None:
        for name, one in load_schedules(run.folder / "ranks-1").items():
            replay(one, presets.cluster("h200"), costs).save(part / f"{name}.parquet")

    def profile(part: Path) -> None:
        fit = Fit("AGGREGATE", 4, "rows-edges", (1.0, 2.0, 3.0), BUSY, BUSY, 0.1, 5)
        FittedCosts("test", (fit,), {"device": "test"}).save(part / "costs-1.json")

    run.piece("ranks-1", execute)
    run.piece("replay-1", rehearse)
    run.piece("profile", profile)
    (run.folder / FOLDER / "epochs").mkdir(parents=True)
    trained = learner(settings)
    for parameter in trained.model.parameters():
        parameter.grad.fill_(1.0)
    trained.optimizer.step()
    for epoch, scores in enumerate(SCORED):
        record = EpochRecord(epoch, 0, "cold start", STRATEGY, 5, 10 + 100 * epoch, 90 + 100 * epoch, (2.0, 1.5), scores)
        save_epoch(run.folder / FOLDER, record, trained, {})
    make_job(settings, "train", [], run.folder / FOLDER).save(run.folder / FOLDER / JOB)
    run.write(f"{FOLDER}/{TEST}", TESTED)
    run.write(f"{FOLDER}/{NAIVE}", KNOWN)
    run.write(f"{FOLDER}/{CONTROL}", {"activities": [{"what": "fit", "start_ns": 10, "end_ns": 60}], "notes": ["a note"]})
    run.write(f"{FOLDER}/timeline.json", {"traceEvents": []})
    return run
