"""Traces of other tools, replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.display.cell import Cell
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.reports.numbers import number
from chronoscale.reports.strategy_result import EXTRAPOLATED
from chronoscale.reports.table_formats import MARK
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.evaluation.fidelity import TOTAL, fidelity
from chronoscale.strategies.formats.chakra import reader as chakra_reader
from chronoscale.strategies.formats.chakra.foreign import NO_DEVICE
from chronoscale.strategies.schedule import Op

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
