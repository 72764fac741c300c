"""Export of a run's traces in the formats of other tools."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.passes import load_schedules
from chronoscale.harness.runs.points import SimulatedPoint
from chronoscale.harness.runs.run_folder import Run, write_text
from chronoscale.harness.runs.start import load_experiment
from chronoscale.harness.runs.training_record import FOLDER
from chronoscale.real_exec.execution.device_lanes import DeviceLanes
from chronoscale.real_exec.execution.lanes import CpuLanes, Threads
from chronoscale.records import read_text
from chronoscale.simulator import presets
from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.costs import FittedCosts
from chronoscale.strategies.formats import simgrid
from chronoscale.strategies.formats.chakra import writer as chakra_writer
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.trace import Trace

GROUPS = "comm_groups.json"  # beside Chakra's files


class ExportedTrace(NamedTuple):
    """Trace that `chronoscale trace` exports, with its schedule.

    name: of its files. cluster: called for the machine that it ran on or was simulated for.
    """

    name: str
    trace: Trace
    schedule: Schedule
    cluster: Callable[[], Cluster]


def export(run: Run, form: str, out: Path) -> list[Path]:
    """Write a run's traces in another tool's format, for `chronoscale trace`; return the files, which lie in `out`.

    These are the first repeat of everything executed, and everything simulated. form: "chakra", "perfetto" or "simgrid". Raises UserError
    for a folder that is no run, an unknown form, and a run without traces.
    """
    if form not in FORMS:
        raise UserError(f"--format: unknown format '{form}'; valid: {', '.join(FORMS)}")
    experiment = load_experiment(run)
    out.mkdir(parents=True, exist_ok=True)
    written = [path for timed in (*_executed(run, experiment), *_simulated(run, experiment)) for path in FORMS[form](timed, out)]
    timeline = run.folder / FOLDER / "timeline.json"
    if form == "perfetto" and timeline.exists():
        write_text(out / "stages.json", read_text(timeline, "timeline"))
        written.append(out / "stages.json")
    if not written:
        raise UserError(f"{run.folder}: no traces to export")
    return written


def _executed(run: Run, experiment: Experiment) -> Iterator[ExportedTrace]:
    for _, folder in run.numbered("ranks-"):
        for name, schedule in load_schedules(folder).items():
            trace = Trace.load(folder / f"{name}-r0.parquet")
            yield ExportedTrace(f"{name}-{folder.name}", trace, schedule, partial(_here, run, experiment, schedule, trace.device))


def _simulated(run: Run, experiment: Experiment) -> Iterator[ExportedTrace]:
    for folder in run.pieces("sim-"):
        if not (folder / "trace.parquet").exists() and SimulatedPoint.load(folder).summary is not None:
            warnings.warn(f"{folder.name} was streamed, no trace of it was kept", ChronoscaleWarning, stacklevel=2)
            continue
        trace, schedule = Trace.load(folder / "trace.parquet"), Schedule.load(folder / "schedule.parquet")
        yield ExportedTrace(folder.name, trace, schedule, partial(_there, experiment.cluster, schedule.ranks))


def _there(name: str, gpus: int) -> Cluster:
    """The cluster that was simulated."""
    return presets.scaled(presets.cluster(name), gpus)


def _here(run: Run, experiment: Experiment, schedule: Schedule, device: str) -> Cluster:
    """The machine that a run was executed on, which need not be this one: its lanes as the interpreter ran them, its link as a profile
    fitted it. Raises UserError for several ranks without a profile."""
    threads, link = Threads.of(schedule, experiment.transfer_thread), None
    streams = DeviceLanes.streams if "cuda" in run.environment else CpuLanes(threads.host, 0.0, threads.communication).streams
    if schedule.ranks > 1:
        profile = run.folder / "profile" / f"costs-{schedule.ranks}.json"
        link = FittedCosts.load(profile if profile.exists() else Path(experiment.costs)).collective
    cluster = presets.local_cpu(schedule.ranks, 1.0, link or Link(bandwidth=1e9, latency_s=0.0))  # one rank meets nobody
    return replace(cluster, device=replace(cluster.device, name=device, streams=streams))


def _perfetto(timed: ExportedTrace, out: Path) -> list[Path]:
    path = out / f"{timed.name}.json"
    write_text(path, timed.trace.chrome(timed.schedule))
    return [path]


def _hidden(timed: ExportedTrace) -> bool:
    """Whether rows ran within CUDA graphs, where nothing timed them; a warning says so."""
    if hidden := bool((timed.trace.op == Op.GRAPH).any()):
        message = f"{timed.name} ran as CUDA graphs, whose rows have no times of their own: it is left out; format perfetto has it"
        warnings.warn(message, ChronoscaleWarning, stacklevel=2)
    return hidden


def _chakra(timed: ExportedTrace, out: Path) -> list[Path]:
    if _hidden(timed):
        return []
    folder = out / timed.name
    folder.mkdir(exist_ok=True)
    paths = chakra_writer.write(timed.trace, timed.schedule, timed.cluster().device.streams, folder, timed.name)
    write_text(folder / GROUPS, chakra_writer.groups_json(timed.schedule))
    return [*paths, folder / GROUPS]


def _simgrid(timed: ExportedTrace, out: Path) -> list[Path]:
    return [] if _hidden(timed) else simgrid.write(timed.trace, timed.schedule, timed.cluster(), out / f"{timed.name}-simgrid")


FORMS: Mapping[str, Callable[[ExportedTrace, Path], list[Path]]] = {"chakra": _chakra, "perfetto": _perfetto, "simgrid": _simgrid}
