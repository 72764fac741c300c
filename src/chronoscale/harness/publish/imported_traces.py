"""Traces of other tools, replayed or taken as a profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.display.cell import Cell
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.real_exec.measurement.fit import fit
from chronoscale.real_exec.measurement.profile_samples import copy_samples, fittable_samples, match_rows
from chronoscale.reports.numbers import number
from chronoscale.reports.strategy_result import EXTRAPOLATED
from chronoscale.reports.table_formats import MARK
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.costs import FittedCosts
from chronoscale.strategies.evaluation.fidelity import TOTAL, fidelity
from chronoscale.strategies.formats import kineto
from chronoscale.strategies.formats.chakra import reader as chakra_reader
from chronoscale.strategies.formats.chakra.foreign import NO_DEVICE
from chronoscale.strategies.schedule import Op, Schedule

RENAMED = {"predicted_ms": "replayed_ms", "measured_ms": "recorded_ms", "error_pct": "change_pct"}


def replay_chakra(paths: Sequence[Path], cluster: str, device: str, out: Path) -> pd.DataFrame:
    """Replay a Chakra execution trace on a cluster, for `chronoscale replay`; return ms by operation, as recorded and replayed, and where
    the replayed ones come from.

    paths: a file a rank. cluster: a preset's name, or a file. device: what was traced, '' for what the trace says. Computation keeps its
    durations and the gaps before it on that device, and is scaled to another by the rooflines of both (`Recording.costs_on`); the network
    is the cluster's. Writes `schedule.parquet`, `trace.parquet` and `timeline.json` to `out`.

    Raises UserError for a trace of which nobody says what device it is of, and as `chakra_reader.read`, `Recording.costs_on` and
    `engine.replay`.
    """
    recording = chakra_reader.read(paths)
    schedule = recording.schedule
    if not len(schedule):
        raise UserError(f"{paths[0]}: a trace without nodes, there is nothing to replay")
    machines = replace(presets.scaled(presets.cluster(cluster), schedule.ranks), contention=False)  # what was recorded has it in
    if device:
        recording = replace(recording, trace=replace(recording.trace, device=device))
    elif recording.trace.device.startswith(NO_DEVICE):
        raise UserError(f"{paths[0]}: another tool's trace does not say which device it is of; name it: --device '{machines.device.name}'")
    costs = recording.costs_on(machines.device, presets.known_device(recording.trace.device_name))
    trace = costs.without_gaps(schedule, replay(schedule, machines, costs))
    out.mkdir(parents=True, exist_ok=True)
    schedule.save(out / "schedule.parquet")
    trace.save(out / "trace.parquet")
    write_text(out / "timeline.json", trace.chrome(schedule))
    table = fidelity(trace, [recording.trace]).rename(columns=RENAMED)
    of_op = [trace if name == TOTAL else trace.take(np.flatnonzero(trace.op == Op[name])) for name in table["op"]]
    table = table[["op", *RENAMED.values(), "tasks"]].assign(sources=[", ".join(entries.sources) for entries in of_op])
    if EXTRAPOLATED not in trace.sources:
        return table
    marks = [MARK * (EXTRAPOLATED in sources) for sources in table["sources"]]
    for name in ("replayed_ms", "change_pct"):
        cells = [Cell(value, f"{number(value)}{mark}") for value, mark in zip(table[name].tolist(), marks, strict=True)]
        table[name] = pd.Series(cells, dtype=object)
    return table


class ProfiledTraces(NamedTuple):
    """Result of reading torch.profiler's traces, which `chronoscale kineto` prints.

    names: times, a row a name and rank. costs: fitted curves, None where no curve has enough samples. notes: sentences on the samples.
    """

    names: pd.DataFrame
    costs: FittedCosts | None
    notes: list[str]


def read_profiles(paths: Sequence[Path], schedule: Path | None, device: str, out: Path) -> ProfiledTraces:
    """Read traces of torch.profiler, one a rank, and fit cost curves to them, for `chronoscale kineto`.

    schedule: file of what was executed, whose rows are then the samples; None: samples are copies between host and device. device: the name
    that costs get, '' for the GPU's own. Writes to `out` `<name>.parquet`, `<name>-r<repeat>.parquet`, `samples.parquet`, and `costs.json`
    where samples suffice. Raises UserError as `kineto.read` and `profile_samples.match_rows`.
    """
    profiles = [kineto.read(path) for path in paths]
    planned = None if schedule is None else Schedule.load(schedule)
    out.mkdir(parents=True, exist_ok=True)
    frames, sentences = [copy_samples(profiles)] if planned is None else [], []
    for profile in profiles:
        name = profile.path.name.partition(".")[0]
        kineto.as_trace(profile).save(out / f"{name}.parquet")
        if planned is not None:
            joined = match_rows(profile, planned)
            for k, trace in enumerate(joined.traces):
                trace.save(out / f"{name}-r{k}.parquet")
            frames.append(joined.samples)
            repeats = len(joined.traces)
            sentences.append(
                f"{profile.path}: {len(joined.traces[0]):,} rows of rank {profile.rank}, {repeats} repeat{'s' * (repeats > 1)}"
            )
            if joined.missed:
                sentences[-1] += f"; {joined.missed:,} rows not seen as often"
    samples, few = fittable_samples(pd.concat(frames, ignore_index=True))
    if few:
        sentences.append(f"too few samples for a curve: {', '.join(few)}")
    names = pd.concat([kineto.time_by_name(profile).assign(rank=profile.rank) for profile in profiles], ignore_index=True)
    if not len(samples):
        return ProfiledTraces(
            names, None, [*sentences, "no samples for a fit: name the schedule, or profile a program that copies to and from a GPU"]
        )
    samples.to_parquet(out / "samples.parquet")
    costs = fit(samples, device or profiles[0].device or "CPU", {})
    costs.save(out / "costs.json")
    return ProfiledTraces(names, costs, sentences)
