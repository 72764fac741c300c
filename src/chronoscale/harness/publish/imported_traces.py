"""Traces of other tools, replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.runs.run_folder import write_text
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.evaluation.fidelity import fidelity
from chronoscale.strategies.formats.chakra import reader as chakra_reader

RENAMED = {"predicted_ms": "replayed_ms", "measured_ms": "recorded_ms", "error_pct": "change_pct"}


def replay_chakra(paths: Sequence[Path], cluster: str, out: Path) -> pd.DataFrame:
    """Replay a Chakra execution trace of another tool on a cluster, for `chronoscale replay`; return ms by operation, as recorded and
    replayed.

    paths: a file a rank. cluster: a preset's name, or a file. Computation keeps its durations and the gaps before it; the network is the
    cluster's. Writes `schedule.parquet`, `trace.parquet` and `timeline.json` to `out`. Raises UserError as `chakra_reader.read` and
    `engine.replay`.
    """
    recording = chakra_reader.read(paths)
    schedule, costs = recording.schedule, recording.costs
    if not len(schedule):
        raise UserError(f"{paths[0]}: a trace without nodes, there is nothing to replay")
    machines = replace(presets.scaled(presets.cluster(cluster), schedule.ranks), contention=False)  # what was recorded has it in
    trace = costs.without_gaps(schedule, replay(schedule, machines, costs))
    out.mkdir(parents=True, exist_ok=True)
    schedule.save(out / "schedule.parquet")
    trace.save(out / "trace.parquet")
    write_text(out / "timeline.json", trace.chrome(schedule))
    table = fidelity(trace, [recording.trace]).rename(columns=RENAMED)
    return table[["op", *RENAMED.values(), "tasks"]]
