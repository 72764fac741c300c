"""Transfers on a second thread against in line, on CPU: `python benchmarks/bench_lanes.py` prints medians and spread per operation."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from chronoscale.harness.execute.execution import execute
from chronoscale.harness.execute.machine import this_device
from chronoscale.harness.keys.experiment_files import as_yaml, check
from chronoscale.harness.runs.passes import passes_of
from chronoscale.harness.runs.start import start
from chronoscale.real_exec.measurement.environment import fingerprint
from chronoscale.strategies.schedule import Op

SETTINGS = {
    "dataset": "growth_small",
    "model": {"name": "wd-gcn", "hidden": 32, "inputs": 32},
    "strategies": ["psg", "real-type1"],
    "ranks": [1],
    "repeats": 15,
    "device": "cpu",
}


def main() -> None:
    print("| strategy | operation | in line, ms | thread, ms | thread / in line |")
    print("|---|---|---|---|---|")
    times: dict[tuple[str, str], list[np.ndarray]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for threaded in (False, True):
            experiment = check({**SETTINGS, "transfer_thread": threaded}, "bench")
            print_to = fingerprint(this_device(experiment.device))
            run, _ = start(Path(folder), "bench", experiment, as_yaml(experiment), print_to)
            execute(experiment, run)
            for name in experiment.strategies:
                traces = [done.trace for done in passes_of(run, 1, name)]
                for op in (Op.H2D, Op.AGGREGATE, Op.INCREMENT, Op.TEMPORAL):
                    if (traces[0].op == op).any():
                        times.setdefault((name, op.name), []).append(np.array([t.duration_ns[t.op == op].mean() / 1e6 for t in traces]))
                times.setdefault((name, "epoch"), []).append(np.array([t.span_ns / 1e6 for t in traces]))
    for (name, op), (inline, thread) in times.items():
        cells = [f"{np.median(v):.3f} (±{np.subtract(*np.quantile(v, [0.75, 0.25])) / 2 / np.median(v):.0%})" for v in (inline, thread)]
        print(f"| {name} | {op} | {' | '.join(cells)} | {np.median(thread) / np.median(inline):.2f} |")
    machine = f"{print_to['device']}, {print_to['cores']} cores, torch {print_to['torch']}"
    print(f"\n{machine}; a task's mean in each of {SETTINGS['repeats']} passes")


if __name__ == "__main__":
    main()
