"""Demonstration: the whole loop on generated data, small enough for two cores and a few minutes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from chronoscale.harness.execute import execution
from chronoscale.harness.execute.machine import seated, this_device
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.runs import publish, run_folder
from chronoscale.harness.runs.start import start
from chronoscale.harness.simulate import simulation
from chronoscale.real_exec.measurement.environment import fingerprint

MODEL = {"name": "wd-gcn", "hidden": 32, "inputs": 32}
STRATEGIES = ["psg", "blad", "real-type1", "real-reuse", "real-g+"]
EXECUTED: Mapping[str, object] = {
    "name": "demo",
    "dataset": "growth_small",
    "model": MODEL,
    "strategies": STRATEGIES,
    "repeats": 7,
}
SIMULATED: Mapping[str, object] = {
    "name": "demo",
    "dataset": "dygraph_1k",
    "model": {**MODEL, "hidden": 64, "inputs": 64},
    "strategies": STRATEGIES,
    "gpus": [1, 4, 16, 64, 256],
}


def run(root: Path, out: Path, console: Console) -> Path:
    """Profile, fit, execute and validate on this machine; simulate a cluster; write the report. Returns its index.html."""
    real = _stage("validate", EXECUTED, root, console)
    counts = real[0].ranks
    with console.status(f"measuring this machine, training on {' and '.join(map(str, counts))} rank{'s' * (counts != (1,))}"):
        execution.execute(real[0], real[1], replayed=True)
    with console.status("replaying the same schedules"):
        execution.rehearse(real[0], real[1])
    real[1].finish()
    large = _stage("simulate", SIMULATED, root, console)
    with console.status("simulating") as status:
        simulation.simulate(large[0], large[1], lambda what: status.update(f"simulating {what}"))
    large[1].finish()
    with console.status("drawing the report"):
        return publish.page([real[1], large[1]], out)


def _stage(command: str, data: Mapping[str, object], root: Path, console: Console) -> tuple[Experiment, run_folder.Run]:
    experiment = check(dict(data), "demo")
    if command != "simulate":
        experiment = seated(experiment)
    found, resumed = start(root, command, experiment, run_folder.as_given(experiment), fingerprint(this_device(experiment)))
    console.print(f"{'taking up' if resumed else 'starting'} {found.folder}")
    return experiment, found
