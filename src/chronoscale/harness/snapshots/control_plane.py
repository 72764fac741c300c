"""Training: REAL's three stages. Ranks train while the control plane prepares, profiles and schedules (REAL §3.3, §5.4, appendix A)."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from subprocess import Popen

import numpy as np

from chronoscale.datasets import store
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import ChronoscaleWarning, MachineError, UserError
from chronoscale.harness.execution import admit
from chronoscale.harness.experiment import Experiment
from chronoscale.harness.prepare import job, known, machine_for, this_device
from chronoscale.harness.runs import Run, write_text
from chronoscale.harness.snapshots.data import snapshots
from chronoscale.real_exec.checkpoint import EpochRecord, records
from chronoscale.real_exec.context import Context
from chronoscale.real_exec.environment import device_name, fingerprint
from chronoscale.real_exec.fit import fit, tabulate
from chronoscale.real_exec.interpreter import Pass, medians
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.launch import start, stop, wait
from chronoscale.real_exec.signals.plans import TEST
from chronoscale.real_exec.snapshots.material import material_of
from chronoscale.real_exec.snapshots.model import learner_of
from chronoscale.real_exec.snapshots.plans import newest, plan_folder
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.shipment import ship
from chronoscale.real_exec.training import ENTRY
from chronoscale.reports.stages import WAITING, Activity, Epoch, Staged
from chronoscale.simulator import presets
from chronoscale.strategies.calibrated import Calibrated, factor
from chronoscale.strategies.costs import CostModel, DatasheetCosts, FittedCosts
from chronoscale.strategies.limited import LOW, plan_within
from chronoscale.strategies.registry import executable, staged
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Family, Workload

STAGES = ("cold start", "profiling", "optimised")
COLD, REUSING, GREEDY = "psg", "real-type1", "real-g+"
PREFERRED = {Family.DTDG: "real-l", Family.ST: "dist-index"}  # unless the user names another; of REAL, for the last stage
SOLVED = frozenset({"real-l"})  # planned within TAU epochs, or not at all (REAL §5.4)
TAU = 2.0  # estimated epochs
MARGIN_S = 15.0  # beyond them: a solver that keeps to tau by itself builds its model first, and answers
PROFILED = 3  # epochs that runtime statistics are taken from, after one to warm up
ENOUGH = 8  # rows of an operation that a curve is fitted to
LOOK_S = 0.02


def train(experiment: Experiment, run: Run) -> Staged:
    """Train `experiment.epochs` epochs on the largest of its rank counts, ending with its first strategy.

    A run that was killed goes on after its last whole epoch.

    Raises UserError before anything starts for a strategy that can only be simulated or does not keep whole groups on a rank, and when the
    first schedule does not fit in memory.
    What the control plane cannot do later is warned of, and training goes on with the schedule it has.
    """
    staged(experiment.strategies[0])
    sequence, model, ranks = snapshots(experiment), experiment.model, max(experiment.ranks)
    shape = model_shape(model.name, model.inputs, model.hidden, model.layers)
    work = Workload(experiment.dataset.label, statistics_of(sequence), shape, experiment.hyper)
    data = run.piece("data", lambda part: store.save(part / "snapshots", sequence)) / "snapshots"
    folder = run.folder / "train"
    for part in ("plans", "epochs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    item = Item("train", str(plan_folder(folder, 0) / "schedule.parquet"), str(data), experiment.hyper)
    whole = replace(job(experiment, "train", [item], folder), repeats=experiment.epochs, warmup=0)
    control = ControlPlane(experiment, run, work, whole, ranks)
    if newest(folder) < 0:
        control.publish(0, executable(COLD).plan(work, ranks, control.rough))
    whole.save(folder / "train.job.json")
    worker = start(ENTRY, folder / "train.job.json", ranks, whole.settings.threads)
    thread = threading.Thread(target=control.run, args=(worker,), daemon=True)
    thread.start()
    try:
        wait(worker, whole.name)
    except MachineError:
        if control.failure is None:
            raise
    finally:
        control.over.set()
    thread.join()
    if control.failure is not None:
        raise control.failure
    write_text(folder / "timeline.json", result(run).chrome())
    return result(run)


def result(run: Run) -> Staged:
    """What a training run has done so far."""
    folder = run.folder / "train"
    epochs = tuple(Epoch(r.epoch, r.stage, r.strategy, r.switch_ns, r.start_ns, r.end_ns, r.loss, *r.errors) for r in records(folder))
    activities, notes = _control(folder)
    return Staged(run.folder.name, max(run.experiment.ranks), epochs, tuple(activities), (*notes, *_tested(folder)))


def _tested(folder: Path) -> list[str]:
    """The errors of the test windows in words, if training has come to its end."""
    if not (folder / TEST).exists():
        return []
    mae, rmse, mape = json.loads((folder / TEST).read_text())
    return [f"Test windows, after the last epoch: MAE {mae:.4g}, RMSE {rmse:.4g}, MAPE {mape:.2%}."]


def _control(folder: Path) -> tuple[list[Activity], list[str]]:
    path = folder / "control.json"
    data = json.loads(path.read_text()) if path.exists() else {"activities": [], "notes": []}
    return [Activity(**activity) for activity in data["activities"]], data["notes"]


class Over(Exception):
    """Training has ended before the control plane."""


class ControlPlane:
    """Prepares the next plan while ranks train, at low priority, and publishes it as files that appear whole."""

    def __init__(self, experiment: Experiment, run: Run, work: Workload, job: Job, ranks: int) -> None:
        self.experiment, self.work, self.job, self.ranks, self.folder = experiment, work, job, ranks, Path(job.out)
        self.rough = _rough(experiment, run, ranks)
        self.over = threading.Event()
        self.failure: BaseException | None = None
        self.activities, self.notes = _control(self.folder)
        self._context = Context(job.settings)
        self._material, self._shipped = material_of(job.items[0], job.model, self._context), dict[str, set[int]]()
        self._records: dict[int, EpochRecord] = {}

    def run(self, worker: Popen[str]) -> None:
        """From where the files say it stopped, to the last plan or the end of training."""
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW)  # of this thread alone, on Linux
        try:
            if newest(self.folder) < 1:
                self._preprocess()
            if newest(self.folder) < 2:
                self._optimise(self._statistics())
        except Over:
            self._note(f"training ended in stage '{STAGES[newest(self.folder)]}', before the next one was ready")
        except (UserError, MachineError) as error:
            stage = STAGES[newest(self.folder) + 1]
            self._note(f"stage '{stage}' was not reached, training went on with the schedule it had: {error}")
        except BaseException as error:  # handed to the thread that waits for the ranks
            self.failure = error
            stop(worker)

    def publish(self, number: int, schedule: Schedule) -> None:
        """Make a plan visible, with the forms of snapshots that ranks need and no earlier plan brought. The first brings none: ranks start
        at once and build their own.

        Raises UserError when it does not fit in a rank's memory.
        """
        here = FittedCosts(device_name(this_device(self.experiment)), (), {})
        admit(schedule, machine_for(self.experiment, here, schedule), self.rough)
        final = plan_folder(self.folder, number)
        draft = final.with_name(f".{final.name}")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        schedule.save(draft / "schedule.parquet")
        (draft / "plan.json").write_text(json.dumps({"stage": STAGES[number], "strategy": schedule.name}))
        if number:
            with self._doing("difference maps" if number == 1 else "further forms"):
                self._build(schedule)
                stores = self._material.stores()
                ship(draft / "forms", stores, self._shipped)
                self._shipped = {kind: set(store) for kind, store in stores.items()}
        draft.rename(final)

    def _build(self, schedule: Schedule) -> None:
        """What each rank's program would prepare, by the very code that would."""
        learner = learner_of(self.job.model, self._context)
        for rank in range(self.ranks):
            self._continue()
            SnapshotProgram(schedule, self._material, learner, self.experiment.hyper, replace(self._context, rank=rank))

    def _preprocess(self) -> None:
        with self._doing("choice of forms"):
            schedule = executable(REUSING).plan(self.work, self.ranks, self.rough)
        self.publish(1, schedule)

    def _statistics(self) -> list[tuple[Schedule, list[Pass]]]:
        """Traces of the first two stages, without the first epoch of each where there are more."""
        with self._doing(WAITING):
            while len(self._epochs(1)) <= PROFILED:
                self._continue(LOOK_S)
        seen = []
        for plan in (0, 1):
            traced = [e for e in self._epochs(plan) if self._trace(e).exists()]
            kept = traced[1 : PROFILED + 1] or traced
            if kept:
                schedule = Schedule.load(plan_folder(self.folder, plan) / "schedule.parquet")
                seen.append((schedule, [Pass(Trace.load(self._trace(e)), np.array(e.losses)) for e in kept]))
        return seen

    def _optimise(self, seen: list[tuple[Schedule, list[Pass]]]) -> None:
        name = self.experiment.strategies[0]
        with self._doing("fit"):
            costs = self._fit(seen)
        seconds = MARGIN_S + TAU * float(np.median([e.end_ns - e.start_ns for e in self._epochs(1)[1:]])) / 1e9
        with self._doing(f"scheduling by {name}"):
            if name in SOLVED:
                schedule = plan_within(seconds, executable(name), self.work, self.ranks, costs)
            else:
                schedule = executable(name).plan(self.work, self.ranks, costs)
        if schedule is None:
            self._note(f"{name} had no schedule after {seconds:.3g} s ({TAU:g} epochs and {MARGIN_S:g} s): {GREEDY} instead (REAL §5.4)")
            with self._doing(f"scheduling by {GREEDY}"):
                schedule = executable(GREEDY).plan(self.work, self.ranks, costs)
        if schedule.note:
            self._note(schedule.note, warn=False)  # the planner itself warns where there is reason to
        self.publish(2, schedule)

    def _fit(self, seen: list[tuple[Schedule, list[Pass]]]) -> CostModel:
        table = tabulate(seen)
        enough = table.groupby(["op", "width"])["ns"].transform("size") >= ENOUGH
        device = this_device(self.experiment)
        fitted = fit(table[enough], device_name(device), fingerprint(device), self.experiment.seed)
        fitted.save(self.folder / "costs.json")
        times = [(schedule, medians(passes)) for schedule, passes in seen]
        return Calibrated(replace(fitted, extrapolate=True), self.rough, factor(times, self.rough))

    def _epochs(self, plan: int) -> list[EpochRecord]:
        self._records |= {record.epoch: record for record in records(self.folder, self._records.keys())}
        return [record for _, record in sorted(self._records.items()) if record.plan == plan]

    def _trace(self, epoch: EpochRecord) -> Path:
        return self.folder / "epochs" / f"{epoch.epoch:06d}.parquet"

    def _continue(self, seconds: float = 0.0) -> None:
        if self.over.wait(seconds) if seconds else self.over.is_set():
            raise Over

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        begin = time.time_ns()
        try:
            yield
        finally:
            self.activities.append(Activity(what, begin, time.time_ns()))
            self._save()

    def _note(self, text: str, warn: bool = True) -> None:
        if warn:
            warnings.warn(text, ChronoscaleWarning, stacklevel=2)
        self.notes.append(text)
        self._save()

    def _save(self) -> None:
        data = {"activities": [asdict(activity) for activity in self.activities], "notes": self.notes}
        write_text(self.folder / "control.json", json.dumps(data, indent=1))


def _rough(experiment: Experiment, run: Run, ranks: int) -> CostModel:
    """Costs before anything is measured: those that the experiment names, of an earlier profile of it, or a datasheet's."""
    if experiment.costs not in ("auto", "fitted", "datasheet"):
        return FittedCosts.load(Path(experiment.costs), extrapolate=True)
    earlier = None if experiment.costs == "datasheet" else known(experiment, run.folder.parent)
    if earlier is not None:
        return FittedCosts.load(earlier.folder / "profile" / f"costs-{ranks}.json", extrapolate=True)
    return DatasheetCosts(presets.cluster(experiment.cluster).device)
