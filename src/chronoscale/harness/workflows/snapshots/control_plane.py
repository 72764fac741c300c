"""Control plane of REAL's three stages of training: it prepares, profiles and schedules while ranks train (REAL §3.3, §5.4, appendix A)."""

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
from chronoscale.harness.execute.epochs import telling_what_is_kept
from chronoscale.harness.execute.jobs import make_training
from chronoscale.harness.execute.machine import admit, sharing, this_device, unmeasured_machine
from chronoscale.harness.keys.snapshots import SnapshotExperiment
from chronoscale.harness.planning.schedules import plan_epoch
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.harness.runs.training_record import CONTROL, Control, control
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.job import Item, Job
from chronoscale.real_exec.measurement.environment import device_name, fingerprint
from chronoscale.real_exec.measurement.fit import fit, tabulate_samples, with_enough_samples
from chronoscale.real_exec.measurement.kernels import launch_ns
from chronoscale.real_exec.measurement.repeats import mean_durations
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.snapshots.material import FormKey, material_of
from chronoscale.real_exec.snapshots.material_files import write_material
from chronoscale.real_exec.snapshots.model import learner_of
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.published_plans import PLAN, PlanRecord, newest_plan, plan_folder
from chronoscale.real_exec.training.epoch_loop import ENTRY
from chronoscale.real_exec.training.epoch_record import EpochRecord, epoch_records
from chronoscale.reports.training_run import WAITING, Activity
from chronoscale.strategies.baselines.snapshots.whole_groups import PSG
from chronoscale.strategies.costing.calibrated import CalibratedCosts, scale_factor
from chronoscale.strategies.costs import CostModel, DatasheetCosts
from chronoscale.strategies.planning.time_limit import LOW, plan_within
from chronoscale.strategies.real.greedy_plus import REAL_G_PLUS_OWN
from chronoscale.strategies.real.reuse import REAL_TYPE1
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Workload

STAGES = ("cold start", "profiling", "optimised")
COLD, REUSING, GREEDY = PSG, REAL_TYPE1, REAL_G_PLUS_OWN
TAU = 2.0  # estimated epochs that a strategy which solves gets (REAL §5.4)
MARGIN_S = 15.0  # beyond them: a solver that keeps to tau by itself builds its model first, and answers
FIRST = 2  # epochs of the first stage that the second one's forms are chosen by, one of them to warm up
PROFILED = 3  # epochs that runtime statistics are taken from, after one to warm up
ENOUGH = 8  # rows of an operation that a curve is fitted to
LOOK_S = 0.02
PLANE = "control plane"  # the thread; where training fails it ends by itself, nobody waits for it, and it writes nothing more


def serves(planner: Strategy) -> bool:
    """Say whether `chronoscale train` can train a strategy in REAL's three stages: it keeps whole groups on a rank."""
    return planner.kind == COLD.kind


def train(
    experiment: SnapshotExperiment, planner: Strategy, work: Workload, data: Path, folder: Path, rough_costs: Callable[[], CostModel]
) -> None:
    """Train on snapshots in REAL's three stages (cold start, profiling, optimised) for `chronoscale train`, ending with the strategy
    `planner`.

    Trains `experiment.epochs` epochs on the largest of its rank counts into `folder`, while a thread here measures, fits and plans the next
    stage's schedule. A run that was killed goes on after its last whole epoch. data: folder of the stored snapshots. rough_costs: called
    for costs before anything is measured.

    Raises UserError before anything starts when the first schedule does not fit in memory. Of what fails later it warns, and training goes
    on with the schedule it has.
    """
    ranks = max(experiment.ranks)
    for part in ("plans", "epochs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    item = Item("train", str(plan_folder(folder, 0) / "schedule.parquet"), str(data), experiment.hyper)
    job = make_training(experiment, item, folder)
    for draft in (folder / "plans").glob(".*"):  # of a training that was killed or lost
        shutil.rmtree(draft, ignore_errors=True)
    plane = ControlPlane(experiment, planner, work, job, ranks, rough_costs())
    if newest_plan(folder) >= 0 and Schedule.load(plan_folder(folder, 0) / "schedule.parquet").ranks != ranks:
        shutil.rmtree(folder / "plans")  # the stages begin anew on another number of ranks
        (folder / "plans").mkdir()
    if newest_plan(folder) < 0:
        plane.publish(0, COLD.plan(work, ranks, plane.rough))
    thread = threading.Thread(target=plane.run, name=PLANE, daemon=True)
    thread.start()
    try:
        with telling_what_is_kept(job):
            launch(job, ranks, folder, entry=ENTRY, is_stopped=lambda: plane.failure is not None)
    except BaseException:  # whatever ends the ranks early, also Ctrl-C; it goes on
        plane.abandon()
        raise
    finally:
        plane.over.set()
    thread.join()
    if plane.failure is not None:
        raise plane.failure
    plane.close()


class TrainingEnded(Exception):
    """Signal, within the control plane of REAL's stages, that the ranks have finished training before it has finished planning."""


class ControlPlane:
    """Planner of REAL's later stages in a thread of `chronoscale train` (REAL §3.3): while ranks train, it measures, fits costs and plans
    the next schedule, at low priority, and publishes it as files that appear whole.
    """

    def __init__(self, experiment: SnapshotExperiment, planner: Strategy, work: Workload, job: Job, ranks: int, rough: CostModel) -> None:
        self.experiment, self.planner, self.work, self.job, self.ranks, self.rough = experiment, planner, work, job, ranks, rough
        self.folder = Path(job.out)
        self.over = threading.Event()
        self.failure: BaseException | None = None
        self._abandoned, self._writing = False, threading.Lock()
        left = control(self.folder)
        self.activities, self.notes = left.activities, left.notes
        self.missed: tuple[str, str] | None = None
        self._stopped = ""  # why it gave up
        self._context = Context(job.settings)
        self._material, self._shipped = material_of(job.items[0], job.model, self._context), dict[str, set[FormKey]]()
        self._records: dict[int, EpochRecord] = {}

    def run(self) -> None:
        """Plan the stages that no file has a plan for yet, until the last one or the end of training; the thread's whole work.

        A defect here is left in `failure`, for which whoever waits for the ranks ends them.
        """
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW)  # of this thread alone, on Linux
        try:
            if newest_plan(self.folder) < 1:
                self._preprocess()
            if newest_plan(self.folder) < 2:
                self._optimise(self._statistics(1, PROFILED + 1))
        except TrainingEnded:
            pass  # `close` says what that came to
        except (UserError, MachineError) as error:
            if self._abandoned:
                return
            self._stopped = str(error)
            stage = STAGES[newest_plan(self.folder) + 1]
            self._note(f"stage '{stage}' was not reached, training went on with the schedule it had: {error}")
        except BaseException as error:  # handed to the thread that waits for the ranks
            self.failure = error

    def abandon(self) -> None:
        """Write nothing more: the ranks have failed, and the folder may be another training's by now."""
        with self._writing:
            self._abandoned = True

    def close(self) -> None:
        """Note, after the last epoch, that the requested strategy has trained none, or not with a schedule from measurements, and why."""
        last = len(STAGES) - 1
        if self._epochs(last):
            return
        *_, end = self._epochs()
        busy = sum(a.end_ns - a.start_ns for a in self.activities if a.what != WAITING) / 1e9
        each = (end.end_ns - end.start_ns) / 1e9
        patience = "; training.patience may have ended it" if self.experiment.training.patience else ""
        why = (
            "see why above"
            if self._stopped
            else f"its schedule comes after {PROFILED + 1} epochs of stage '{STAGES[1]}' and {busy:.3g} s of preparing, an epoch takes "
            f"{each:.3g} s: give it more epochs (--epochs, or epochs: in the file{patience})"
        )
        ended = f"training ended after {end.epoch + 1} epochs in stage '{end.stage}'; {why}"
        if end.strategy == self.planner.name:
            return self._note(f"strategy '{end.strategy}' was not planned anew from what was measured: {ended}")
        self.missed = (STAGES[last], self.planner.name)
        self._note(f"strategy '{self.planner.name}' has not trained a single epoch, '{end.strategy}' has trained the last: {ended}")

    def publish(self, number: int, schedule: Schedule) -> None:
        """Write the plan of a stage (0, 1 or 2) where the ranks that train will find it.

        From stage 1 on, beside it lies what ranks need of the snapshots to transfer them as the plan says (in full, as an edge map, or as
        the changes since the snapshot before) and no earlier plan brought; in stage 0 ranks build that themselves and start at once. Raises
        UserError when the schedule does not fit in a rank's memory.
        """
        admit(schedule, unmeasured_machine(self.experiment, schedule), self.rough)
        final = plan_folder(self.folder, number)
        draft = final.with_name(f".{final.name}-{id(self):x}")
        draft.mkdir()
        schedule.save(draft / "schedule.parquet")
        (draft / PLAN).write_text(json.dumps(asdict(PlanRecord(STAGES[number], schedule.name, number < len(STAGES) - 1))))
        if number:
            with self._recording("difference maps" if number == 1 else "further forms"):
                self._build(schedule)
                stores = self._material.stores()
                write_material(draft / "forms", stores, self._shipped)
                self._shipped = {kind: set(store) for kind, store in stores.items()}
        self._write(lambda: draft.rename(final))

    def _build(self, schedule: Schedule) -> None:
        """Build what each rank's program would prepare, by the same code."""
        learner = learner_of(self.job.model, self._context, self._material.objective.outputs(self.job.model.hidden))
        for rank in range(self.ranks):
            self._continue()
            SnapshotProgram(schedule, self._material, learner, self.experiment.hyper, replace(self._context, rank=rank))

    def _preprocess(self) -> None:
        """The second stage's plan. Where nothing was measured before, its forms are chosen by what the first epochs took: a datasheet is of
        another machine."""
        costs: CostModel = self.rough
        if isinstance(self.rough, DatasheetCosts) and self.experiment.costs != "datasheet":
            seen = self._statistics(0, FIRST)
            with self._recording("fit"):
                costs = self._fit(seen)
        with self._recording("choice of forms"):
            schedule = REUSING.plan(self.work, self.ranks, costs)
        self.publish(1, schedule)

    def _statistics(self, last: int, epochs: int) -> list[tuple[Schedule, list[Pass]]]:
        """Traces of the stages up to `last`, without the first epoch of each where there are more; waits for `epochs` of the last."""
        with self._recording(WAITING):
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
        with self._recording("fit"):
            costs = self._fit(seen)
        seconds = MARGIN_S + TAU * float(np.median([e.end_ns - e.start_ns for e in self._epochs(1)[1:]])) / 1e9
        with self._recording(f"scheduling by {name}"):
            if planner.solves:
                schedule = plan_within(seconds, planner, self.work, self.ranks, costs)
            else:
                schedule = plan_epoch(planner, self.work, self.ranks, costs)
        if schedule is None:
            self._note(
                f"{name} had no schedule after {seconds:.3g} s ({TAU:g} epochs and {MARGIN_S:g} s): {GREEDY.name} instead (REAL §5.4)"
            )
            with self._recording(f"scheduling by {GREEDY.name}"):
                schedule = GREEDY.plan(self.work, self.ranks, costs)
        if schedule.note:
            self._note(schedule.note, warn=False)  # the planner itself warns where there is reason to
        self.publish(2, schedule)

    def _fit(self, seen: list[tuple[Schedule, list[Pass]]]) -> CostModel:
        table = tabulate_samples(seen)
        device = this_device(self.experiment.device)
        here = fingerprint(device) | sharing(self.experiment)
        fitted = fit(with_enough_samples(table, ENOUGH), device_name(device), here, self.experiment.seed, launch_ns(device))
        self._write(lambda: fitted.save(self.folder / "costs.json"))
        times = [(schedule, mean_durations(passes)) for schedule, passes in seen]
        return CalibratedCosts(replace(fitted, extrapolate=True), self.rough, scale_factor(times, self.rough))

    def _epochs(self, plan: int | None = None) -> list[EpochRecord]:
        """Epochs that were trained on this number of ranks, by a plan or by any."""
        self._records |= {record.epoch: record for record in epoch_records(self.folder, self._records.keys())}
        of_these = [record for _, record in sorted(self._records.items()) if record.ranks in (0, self.ranks)]
        return [record for record in of_these if plan in (None, record.plan)]

    def _trace(self, epoch: EpochRecord) -> Path:
        return self.folder / "epochs" / f"{epoch.epoch:06d}.parquet"

    def _continue(self, seconds: float = 0.0) -> None:
        if self.over.wait(seconds) if seconds else self.over.is_set():
            raise TrainingEnded

    @contextmanager
    def _recording(self, activity: str) -> Iterator[None]:
        begin = time.time_ns()
        try:
            yield
        finally:
            self.activities.append(Activity(activity, begin, time.time_ns()))
            self._save()

    def _note(self, text: str, warn: bool = True) -> None:
        if warn and not self._abandoned:
            warnings.warn(text, ChronoscaleWarning, stacklevel=2)
        self.notes.append(text)
        self._save()

    def _save(self) -> None:
        left = Control(self.activities, self.notes, self.missed)
        self._write(lambda: write_text(self.folder / CONTROL, json.dumps(asdict(left), indent=1)))

    def _write(self, write: Callable[[], object]) -> None:
        with self._writing:
            if not self._abandoned:
                write()
