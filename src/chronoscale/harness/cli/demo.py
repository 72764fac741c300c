"""Demo: the whole loop on generated data, told step by step, small enough for two cores and two minutes."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.cli.options import RUNS, AsJson, Root
from chronoscale.harness.cli.output import err, print_table, stage
from chronoscale.harness.execute.execution import execute
from chronoscale.harness.execute.machine import fit_ranks_to_gpus, this_device
from chronoscale.harness.execute.replaying import replay_executed
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import as_yaml, check
from chronoscale.harness.publish.collect import collect
from chronoscale.harness.publish.page import write_page
from chronoscale.harness.publish.tables import comparison_table
from chronoscale.harness.publish.validation import ValidationTables
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import start
from chronoscale.harness.simulate.assumed import simulate_assumed
from chronoscale.harness.simulate.simulation import assumed_setting, simulate
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.real_exec.measurement.environment import fingerprint
from chronoscale.reports.numbers import seconds
from chronoscale.strategies.evaluation.fidelity import TOTAL

MODEL = {"name": "wd-gcn", "hidden": 32, "inputs": 32}
STRATEGIES = ["psg", "blad", "real-type1", "real-reuse", "real-g+"]
EXECUTED: Mapping[str, object] = {
    "name": "demo",
    "dataset": "growth_small",
    "model": MODEL,
    "strategies": STRATEGIES,
    "repeats": 7,
    "attempts": 1,
}
SIMULATED: Mapping[str, object] = {
    "name": "demo",
    "dataset": "dygraph_1k",
    "model": {**MODEL, "hidden": 64, "inputs": 64},
    "strategies": STRATEGIES,
    "gpus": [1, 4, 16, 64, 256],
}
STEPS = 4


def demo(
    root: Root = RUNS, out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("report"), as_json: AsJson = False
) -> None:
    """The whole loop on generated data: generate, measure, predict, report. Two minutes on two cores."""
    with collected_warnings() as doubts:
        executed, simulated, page = run_steps(root, out)
    if as_json:
        return typer.echo(json.dumps({"page": str(page)}))
    file = executed.folder / "experiment.yaml"
    typer.echo()
    print_table(measured_table(executed), "An epoch on this machine: measured, and as the simulator predicts it", as_json=False)
    typer.echo()
    print_table(simulated_table(simulated), "An epoch of a larger graph on H200 GPUs, simulated", as_json=False)
    typer.echo(f"\n{doubts_sentence(doubts, file)}\n\nReport: {page.resolve()}\n\nNext, with your own choices:")
    for command, purpose in (
        (f"cp {file} mine.yaml", "an experiment to change: its dataset, model, strategies"),
        ("chronoscale data list", "datasets by name"),
        ("chronoscale keys", "what an experiment file may say"),
        ("chronoscale validate mine.yaml", "measure and predict it"),
    ):
        typer.echo(f"  {command:<50}  # {purpose}")


def run_steps(root: Path, out: Path) -> tuple[Run, Run, Path]:
    """Generate, measure, predict and draw, for `chronoscale demo`.

    Returns the run that was executed, the one that was simulated, and the report's index.html. root: folder of runs. out: folder of the
    report.
    """
    experiment, executed = begin("validate", EXECUTED, root)
    with step(1, "generate a small dynamic graph"):
        workflow_of(experiment.family).store(experiment, executed)
    ranks = f"{' and '.join(map(str, experiment.ranks))} rank{'s' * (experiment.ranks != (1,))}"
    with step(2, f"measure {len(STRATEGIES)} strategies that train on it, on {ranks} of this machine") as on_progress:
        execute(experiment, executed, replayed=True, on_progress=on_progress)
    larger, simulated = begin("simulate", SIMULATED, root)
    with step(3, f"predict the same epochs, and those of a larger graph on 1 to {max(larger.gpus)} GPUs") as on_progress:
        replay_executed(experiment, executed)
        executed.finish()
        simulate(larger, simulated, on_progress)
        simulate_assumed(assumed_setting(larger), simulated, on_progress)
        simulated.finish()
    with step(4, "draw the report"):
        page = write_page([executed, simulated], out)
    return executed, simulated, page


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect this software's warnings as texts, each once, so that `chronoscale demo` can say them at its end.

    They are printed at once where an error ends it.
    """
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChronoscaleWarning)
        try:
            yield texts
        finally:
            texts += dict.fromkeys(str(warning.message) for warning in caught if issubclass(warning.category, ChronoscaleWarning))
            if sys.exc_info()[0] is not None:
                for text in texts:
                    err.print(f"[yellow]warning:[/] {text}", highlight=False)


def doubts_sentence(doubts: Sequence[str], file: Path) -> str:
    """Gather the warnings of `chronoscale demo` into one sentence.

    Warnings on the fit of single cost curves are only counted, and the command that prints them named. file: the experiment's, for that
    command.
    """
    fits = [text for text in doubts if text.startswith("profile: ")]
    others = [text.replace("not to be believed: ", "") for text in doubts if text not in fits]
    counted = f"{len(fits)} warning{'s' * (len(fits) > 1)} about single cost curves, which `chronoscale profile {file}` prints"
    if not doubts:
        return "Nothing was noticed that speaks against these numbers."
    if not others:
        return f"Nothing was noticed that speaks against these times, beside {counted}."
    return f"Take these times with care: {'; '.join(others)}{f'; and {counted}' * bool(fits)}."


def begin(command: str, keys: Mapping[str, object], root: Path) -> tuple[Experiment, Run]:
    """Begin a run of `chronoscale demo`, whose experiment comes from no file, or take up one that was interrupted.

    command: which the run is of. keys: the experiment's. root: folder of runs.
    """
    experiment = check(dict(keys), "demo")
    if command != "simulate":
        experiment = fit_ranks_to_gpus(experiment)
    run, _ = start(root, command, experiment, as_yaml(experiment), fingerprint(this_device(experiment.device)))
    return experiment, run


@contextmanager
def step(number: int, purpose: str) -> Iterator[Callable[[str], None]]:
    """Print what a step of `chronoscale demo` is for, show its progress while it lasts, and print how long it took. Raises as `stage`."""
    began = time.perf_counter()
    err.print(f"{number} of {STEPS}: {purpose}", highlight=False, soft_wrap=True)
    with stage(f"step {number} of {STEPS}", resumes=True) as on_progress:
        yield on_progress
    err.print(f"        done in {seconds(time.perf_counter() - began)}", style="dim", highlight=False)


def measured_table(run: Run) -> pd.DataFrame:
    """Return the table of measured epochs that `chronoscale demo` prints: a row a strategy and number of ranks, beside the prediction."""
    table = ValidationTables.of(run).table
    whole = table[table["op"] == TOTAL]
    rows = [
        {
            "strategy": row["strategy"],
            "ranks": row["ranks"],
            "measured": seconds(row["measured_ms"] / 1e3),
            "passes vary by": f"{row['spread_pct']:.0f} %",
            "predicted": seconds(row["predicted_ms"] / 1e3),
            "off by": f"{row['error_pct']:+.0f} %",
        }
        for row in whole.to_dict("records")
    ]
    return pd.DataFrame(rows)


def simulated_table(run: Run) -> pd.DataFrame:
    """Return the table of simulated epochs that `chronoscale demo` prints: a row a strategy, a column a number of GPUs."""
    table = comparison_table(run, collect([run]))
    rows: dict[str, dict[str, str]] = {}
    for row in table.to_dict("records"):
        ranks = int(row["ranks"])
        rows.setdefault(row["strategy"], {})[f"{ranks} GPU{'s' * (ranks > 1)}"] = seconds(row["epoch_s"])
    return pd.DataFrame([{"strategy": name, **columns} for name, columns in rows.items()])
