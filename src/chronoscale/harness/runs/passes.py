"""Passes that a run has executed: schedules, traces and losses, and how far they can be believed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from chronoscale.datasets.scores import Scores
from chronoscale.harness.runs.idle import Idle
from chronoscale.harness.runs.noise import Noise
from chronoscale.harness.runs.run_folder import Run
from chronoscale.real_exec.execution.launch_summary import LaunchSummary
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.records import read_array, read_json, reading
from chronoscale.strategies.evaluation.fidelity import TOTAL
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace

HINT = "; `costs: fitted` measures a profile of this experiment instead"
SCHEDULE = ".schedule.parquet"
PREPARATION = ".prepare.parquet"  # what a strategy does once before the first epoch
PLANNED = "planned.json"  # of a run's `ranks-<n>`: strategies whose plans asked for durations, and the name of the costs that said them
COSTS = "costs.json"  # of a `ranks-<n>` whose strategies are replayed: fitted to the probes beside them
SPANS = ".spans.json"  # beside a replay: epochs of its draws, ns


def load_schedules(folder: Path) -> dict[str, Schedule]:
    """Load the schedules that a run has executed on one number of ranks, by strategy. folder: the run's `ranks-<n>`."""
    return {path.name.removesuffix(SCHEDULE): Schedule.load(path) for path in sorted(folder.glob(f"*{SCHEDULE}"))}


def load_passes(folder: Path, label: str) -> list[Pass]:
    """Load the passes (timed repetitions) that ranks have saved of one strategy or probe: its traces, losses and scores.

    label: of the item of the job, of which the files are named. Raises UserError for a file that is missing or damaged.
    """
    losses = read_array(folder / f"{label}-losses.npy", np.float64, (None, None), "losses")
    scores = read_json(path := folder / f"{label}-scores.json", list[Scores], "scores")
    with reading(path, "scores"):
        if len(scores) != len(losses):
            raise ValueError(f"expected {len(losses)} repeats, got {len(scores)}")
    path = folder / f"{label}-counts.json"
    counts = read_json(path, list[dict[str, int]], "counts") if path.exists() else [{} for _ in scores]
    with reading(path, "counts"):
        if len(counts) != len(losses):
            raise ValueError(f"expected {len(losses)} repeats, got {len(counts)}")
    path = folder / f"{label}-launched.json"
    launched = read_json(path, list[LaunchSummary], "record of launches") if path.exists() else [None for _ in scores]
    with reading(path, "record of launches"):
        if len(launched) != len(losses):
            raise ValueError(f"expected {len(losses)} repeats, got {len(launched)}")
    repeats = enumerate(zip(losses, scores, counts, launched, strict=True))
    return [Pass(Trace.load(folder / f"{label}-r{repeat}.parquet"), *columns) for repeat, columns in repeats]


def passes_of(run: Run, ranks: int, strategy: str) -> list[Pass]:
    """Load the passes (timed repetitions) that a run has executed of one strategy on `ranks` ranks, for reports and tables."""
    return load_passes(run.folder / f"ranks-{ranks}", strategy)


def predicted_epoch_ns(run: Run, ranks: int, strategy: str) -> float | None:
    """Return the epoch, ns, that `chronoscale validate` has predicted of ranks that wait for the slowest: the median over random jitter.

    None where the run has no such replays.
    """
    path = run.folder / f"replay-{ranks}" / f"{strategy}{SPANS}"
    return float(np.median(read_json(path, list[int], "record of drawn epochs"))) if path.exists() else None


def noise_sentences(run: Run) -> dict[int, str]:
    """Return warnings that a run's measured times are unreliable, by number of ranks; none where the machine was quiet."""
    noises = {ranks: Noise.load_from(folder) for ranks, folder in run.numbered("ranks-")}
    doubts = {ranks: noise.sentence for ranks, noise in noises.items() if noise is not None and noise.sentence}
    return {ranks: f"on {ranks} rank{'s' * (ranks > 1)}: {doubt}" for ranks, doubt in doubts.items()}


def with_noise(run: Run, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of a run's results, a row a strategy and number of ranks, with a column `noise`: why its times are not to be believed.

    In a table by operation, rows of totals alone say so. Without any noise the table is returned as it is.
    """
    sentences = noise_sentences(run)
    if not sentences:
        return table
    whole = table["op"] == TOTAL if "op" in table else pd.Series(True, index=table.index)
    noise = [sentences.get(int(ranks), "").partition(": ")[2] * bool(total) for ranks, total in zip(table["ranks"], whole, strict=True)]
    return table.assign(noise=noise)


def launch_sentences(run: Run) -> list[str]:
    """Return a line for each strategy that a run was to launch as CUDA graphs and did not, and why, by number of ranks."""
    lines = []
    for ranks, folder in run.numbered("ranks-"):
        for name in load_schedules(folder):
            launched = load_passes(folder, name)[-1].launched
            if launched is not None and launched.why:
                lines.append(f"launch: graph: strategy '{name}' on {ranks} rank{'s' * (ranks > 1)} was {launched}")
    return lines


def clock_sentences(run: Run) -> list[str]:
    """Return a line for each number of ranks that were on several machines, by how much their clocks may differ (`Trace.clock_ns`)."""
    noises = [(ranks, Noise.load_from(folder)) for ranks, folder in run.numbered("ranks-")]
    return [
        f"on {ranks} ranks: clocks of the machines may differ by {noise.clock_ns / 1e3:.0f} µs; shorter times between them mean nothing"
        for ranks, noise in noises
        if noise is not None and noise.clock_ns
    ]


def planning_costs(run: Run) -> dict[tuple[str, int], str]:
    """Return which costs the plans of a run were made with that asked for durations: (strategy, number of ranks) -> name of the costs."""
    pieces = [(ranks, folder / PLANNED) for ranks, folder in run.numbered("ranks-") if (folder / PLANNED).exists()]
    records = [(ranks, read_json(path, dict[str, str], "record of planning")) for ranks, path in pieces]
    return {(name, ranks): costs for ranks, record in records for name, costs in record.items()}


def planning_sentences(run: Run) -> list[str]:
    """Return a sentence for each cost model that plans of a run were made with, for its table and report; [] where no plan asked."""
    strategies: dict[str, dict[str, None]] = {}
    for (name, _), costs in planning_costs(run).items():
        strategies.setdefault(costs, {})[name] = None
    return [
        f"{', '.join(names)} asked, to plan, how long operations take: by {costs}{HINT * (not costs.startswith('fitted'))}"
        for costs, names in strategies.items()
    ]


def idle_ranks(run: Run) -> Idle:
    """Count the ranks that train nothing in what a run has executed: (strategy, number of ranks) -> count."""
    pieces = run.numbered("ranks-")
    return {(name, ranks): schedule.idle for ranks, folder in pieces for name, schedule in load_schedules(folder).items()}
