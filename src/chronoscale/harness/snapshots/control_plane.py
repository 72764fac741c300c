"""ControlPlane: REAL's three stages of training. Ranks train while it prepares, profiles and schedules (REAL §3.3, §5.4, appendix A)."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from chronoscale.errors import ChronoscaleWarning, MachineError, UserError
from chronoscale.harness.execute.jobs import job
from chronoscale.harness.execute.machine import admit, machine_for, sharing, this_device
from chronoscale.harness.planners import planned, planners
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.harness.runs.training_record import CONTROL, FOLDER, JOB, Control, control
from chronoscale.harness.snapshots.data import kept, stored
from chronoscale.harness.snapshots.experiment import SnapshotExperiment
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.measurement.environment import device_name, fingerprint
from chronoscale.real_exec.measurement.estimate import means
from chronoscale.real_exec.measurement.fit import enough, fit, tabulate
from chronoscale.real_exec.measurement.kernels import launch_ns
from chronoscale.real_exec.ranks.handle import Ranks
from chronoscale.real_exec.ranks.launch import start, stop, wait
from chronoscale.real_exec.ranks.supervision import Patience
from chronoscale.real_exec.snapshots.material import material_of
from chronoscale.real_exec.snapshots.model import learner_of
from chronoscale.real_exec.snapshots.plans import PLAN, Published, newest, plan_folder
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.shipment import ship
from chronoscale.real_exec.training.checkpoint import EpochRecord, records
from chronoscale.real_exec.training.epoch_loop import ENTRY
from chronoscale.reports.training_run import WAITING, Activity
from chronoscale.strategies.baselines.snapshots.whole_groups import PSG
from chronoscale.strategies.costing.calibrated import CalibratedCosts, scale_factor
from chronoscale.strategies.costs import CostModel, DatasheetCosts, FittedCosts
from chronoscale.strategies.planning.time_limit import LOW, plan_within
from chronoscale.strategies.real.greedy_plus import REAL_G_PLUS
from chronoscale.strategies.real.reuse import REAL_TYPE1
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Workload

STAGES = ("cold start", "profiling", "optimised")
COLD, REUSING, GREEDY = PSG, REAL_TYPE1, REAL_G_PLUS
TAU = 2.0  # estimated epochs that a strategy which solves gets (REAL §5.4)
MARGIN_S = 15.0  # beyond them: a solver that keeps to tau by itself builds its model first, and answers
FIRST = 2  # epochs of the first stage that the second one's forms are chosen by, one of them to warm up
PROFILED = 3  # epochs that runtime statistics are taken from, after one to warm up
ENOUGH = 8  # rows of an operation that a curve is fitted to
LOOK_S = 0.02


def serves(planner: Strategy, experiment: SnapshotExperiment) -> bool:
    """Whether the stages before the last can train what the strategy does: whole groups on a rank, features that do not change."""
    return planner.kind == COLD.kind and not any(stage.refuses(experiment.hyper) for stage in (COLD, REUSING, GREEDY))


def train(experiment: SnapshotExperiment, run: Run, rough: Callable[[], CostModel]) -> None:
    """Train `experiment.epochs` epochs on the largest of its rank counts, ending with its first strategy.

    A run that was killed goes on after its last whole epoch.

    `rough()`: costs before anything is measured.

    Raises UserError before anything starts when the first schedule does not fit in memory.
    What the control plane cannot do later is warned of, and training goes on with the schedule it has.
    """
    (planner,) = planners(experiment, executed=True).values()
    data, ranks = kept(experiment, run), max(experiment.ranks)
    work, folder = stored(experiment, data)[0], run.folder / FOLDER
    for part in ("plans", "epochs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    item = Item("train", str(plan_folder(folder, 0) / "schedule.parquet"), str(data), experiment.hyper)
    whole = replace(job(experiment, "train", [item], folder), repeats=experiment.epochs, warmup=0)
    plane = ControlPlane(experiment, planner, work, whole, ranks, rough())
    if newest(folder) < 0:
        plane.publish(0, COLD.plan(work, ranks, plane.rough))
    whole.save(folder / JOB)
    worker = start(ENTRY, folder / JOB, ranks, whole.settings.threads)
    thread = threading.Thread(target=plane.run, args=(worker,), daemon=True)
    thread.start()
    try:
        wait(worker, whole.name, Patience(experiment.hang_after))
    except MachineError:
        if plane.failure is None:
            raise
    finally:
        plane.over.set()
    thread.join()
    if plane.failure is not None:
        raise plane.failure
    plane.close()


class Over(Exception):
    """Training has ended before the control plane."""


class ControlPlane:
    """Prepares the next plan while ranks train, at low priority, and publishes it as files that appear whole."""

    def __init__(self, experiment: SnapshotExperiment, planner: Strategy, work: Workload, job: Job, ranks: int, rough: CostModel) -> None:
        self.experiment, self.planner, self.work, self.job, self.ranks, self.rough = experiment, planner, work, job, ranks, rough
        self.folder = Path(job.out)
        self.over = threading.Event()
        self.failure: BaseException | None = None
        left = control(self.folder)
        self.activities, self.notes = left.activities, left.notes
        self.missed: tuple[str, str] | None = None
        self._stopped = ""  # why it gave up
        self._context = Context(job.settings)
        self._material, self._shipped = material_of(job.items[0], job.model, self._context), dict[str, set[int]]()
        self._records: dict[int, EpochRecord] = {}

    def run(self, worker: Ranks) -> None:
        """From where the files say it stopped, to the last plan or the end of training."""
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW)  # of this thread alone, on Linux
        try:
            if newest(self.folder) < 1:
                self._preprocess()
            if newest(self.folder) < 2:
                self._optimise(self._statistics(1, PROFILED + 1))
        except Over:
            pass  # `close` says what that came to
        except (UserError, MachineError) as error:
            self._stopped = str(error)
            stage = STAGES[newest(self.folder) + 1]
            self._note(f"stage '{stage}' was not reached, training went on with the schedule it had: {error}")
        except BaseException as error:  # handed to the thread that waits for the ranks
            self.failure = error
            stop(worker)

    def close(self) -> None:
        """After the last epoch: say so where the strategy that was asked for has trained none."""
        last = len(STAGES) - 1
        if self._epochs(last):
            return
        *_, end = self._epochs()
        busy = sum(a.end_ns - a.start_ns for a in self.activities if a.what != WAITING) / 1e9
        each = (end.end_ns - end.start_ns) / 1e9
        why = (
            "see why above"
            if self._stopped
            else f"its schedule comes after {PROFILED + 1} epochs of stage '{STAGES[1]}' and {busy:.3g} s of preparing, an epoch takes "
            f"{each:.3g} s: give it more epochs (--epochs, or epochs: in the file)"
        )
        ended = f"training ended after {end.epoch + 1} epochs in stage '{end.stage}'; {why}"
        if end.strategy == self.planner.name:
            return self._note(f"strategy '{end.strategy}' was not planned anew from what was measured: {ended}")
        self.missed = (STAGES[last], self.planner.name)
        self._note(f"strategy '{self.planner.name}' has not trained a single epoch, '{end.strategy}' has trained the last: {ended}")

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
        (draft / PLAN).write_text(json.dumps(asdict(Published(STAGES[number], schedule.name, number < len(STAGES) - 1))))
        if number:
            with self._doing("difference maps" if number == 1 else "further forms"):
                self._build(schedule)
                stores = self._material.stores()
                ship(draft / "forms", stores, self._shipped)
                self._shipped = {kind: set(store) for kind, store in stores.items()}
        draft.rename(final)

    def _build(self, schedule: Schedule) -> None:
        """What each rank's program would prepare, by the very code that would."""
        learner = learner_of(self.job.model, self._context, self._material.objective.outputs)
        for rank in range(self.ranks):
            self._continue()
            SnapshotProgram(schedule, self._material, learner, self.experiment.hyper, replace(self._context, rank=rank))

    def _preprocess(self) -> None:
        """The second stage's plan. Where nothing was measured before, its forms are chosen by what the first epochs took: a datasheet is of
        another machine."""
        costs: CostModel = self.rough
        if isinstance(self.rough, DatasheetCosts) and self.experiment.costs != "datasheet":
            seen = self._statistics(0, FIRST)
            with self._doing("fit"):
                costs = self._fit(seen)
        with self._doing("choice of forms"):
            schedule = REUSING.plan(self.work, self.ranks, costs)
        self.publish(1, schedule)

    def _statistics(self, last: int, epochs: int) -> list[tuple[Schedule, list[Pass]]]:
        """Traces of the stages up to `last`, without the first epoch of each where there are more; waits for `epochs` of the last."""
        with self._doing(WAITING):
            while len(self._epochs(last)) < epochs:
                self._continue(LOOK_S)
        seen = []
        for plan in range(last + 1):
            traced = [e for e in self._epochs(plan) if self._trace(e).exists()]
            kept = traced[1 : PROFILED + 1] or traced
            if kept:
                schedule = Schedule.load(plan_folder(self.folder, plan) / "schedule.parquet")
                seen.append((schedule, [Pass(Trace.load(self._trace(e)), np.array(e.losses)) for e in kept]))
        return seen

    def _optimise(self, seen: list[tuple[Schedule, list[Pass]]]) -> None:
        planner, name = self.planner, self.planner.name
        with self._doing("fit"):
            costs = self._fit(seen)
        seconds = MARGIN_S + TAU * float(np.median([e.end_ns - e.start_ns for e in self._epochs(1)[1:]])) / 1e9
        with self._doing(f"scheduling by {name}"):
            if planner.solves:
                schedule = plan_within(seconds, planner, self.work, self.ranks, costs)
            else:
                schedule = planned(planner, self.work, self.ranks, costs)
        if schedule is None:
            self._note(
                f"{name} had no schedule after {seconds:.3g} s ({TAU:g} epochs and {MARGIN_S:g} s): {GREEDY.name} instead (REAL §5.4)"
            )
            with self._doing(f"scheduling by {GREEDY.name}"):
                schedule = GREEDY.plan(self.work, self.ranks, costs)
        if schedule.note:
            self._note(schedule.note, warn=False)  # the planner itself warns where there is reason to
        self.publish(2, schedule)

    def _fit(self, seen: list[tuple[Schedule, list[Pass]]]) -> CostModel:
        table = tabulate(seen)
        device = this_device(self.experiment)
        here = fingerprint(device) | sharing(self.experiment)
        fitted = fit(enough(table, ENOUGH), device_name(device), here, self.experiment.seed, launch_ns(device))
        fitted.save(self.folder / "costs.json")
        times = [(schedule, means(passes)) for schedule, passes in seen]
        return CalibratedCosts(replace(fitted, extrapolate=True), self.rough, scale_factor(times, self.rough))

    def _epochs(self, plan: int | None = None) -> list[EpochRecord]:
        """Of a plan, or all."""
        self._records |= {record.epoch: record for record in records(self.folder, self._records.keys())}
        return [record for _, record in sorted(self._records.items()) if plan in (None, record.plan)]

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
        left = Control(self.activities, self.notes, self.missed)
        write_text(self.folder / CONTROL, json.dumps(asdict(left), indent=1))
