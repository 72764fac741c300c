"""REAL-G+ against PSG and every baseline, trained for real on CPU ranks: `python benchmarks/bench_strategies.py` (CHRONOSCALE_DATA set).

Real snapshots: as sliding windows of 12 months, whose neighbours overlap, and as they come, a month each, which hardly do. All
strategies of a line run in one job, repeat by repeat in turn; a ratio is taken repeat by repeat, its spread is half the range between
the quartiles.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from chronoscale.harness.execute.execution import execute
from chronoscale.harness.execute.machine import this_device
from chronoscale.harness.keys.experiment_files import as_yaml, check
from chronoscale.harness.runs.passes import load_schedules, passes_of
from chronoscale.harness.runs.start import start
from chronoscale.real_exec.measurement.environment import fingerprint
from chronoscale.strategies.schedule import Op

OURS = "real-g+"
RIVALS = ("psg", "esdg", "distdgl", "blad", "real-reuse", "real-g")
CASES = {  # name: dataset, months a window, groups
    "math": ("math_overflow_monthly", 12, 12),
    "enron": ("enron_monthly", 12, 8),
    "math-months": ("math_overflow_monthly", None, 12),
    "enron-months": ("enron_monthly", None, 8),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--models", nargs="+", default=["wd-gcn", "evolvegcn-o"])
    parser.add_argument("--layers", type=int, nargs="+", default=[1])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--inputs", type=int, default=128, help="width of the features: REAL's Table 3")
    parser.add_argument("--hidden", type=int, default=64)
    arguments = parser.parse_args()
    print(f"| dataset | model | {OURS}, s | " + " | ".join(f"over {name}" for name in RIVALS) + " | maps, increments |")
    print("|---|---|---:|" + "---:|" * (len(RIVALS) + 1))
    for layers in arguments.layers:
        for model in arguments.models:
            for dataset, window, groups in (CASES[case] for case in arguments.cases):
                settings = {
                    "dataset": {"name": dataset, "window": window},
                    "model": {"name": model, "hidden": arguments.hidden, "inputs": arguments.inputs, "layers": layers},
                    "strategies": [*RIVALS, OURS],
                    "ranks": [arguments.ranks],
                    "repeats": arguments.repeats,
                    "groups": groups,
                    "device": "cpu",
                }
                title = f"{dataset}{f', windows of {window}' if window else ', months'}"
                print(_line(settings, title, f"{model}, {layers} layer{'s' * (layers > 1)}"), flush=True)
    machine = fingerprint(this_device(check(settings, "bench")))
    print(
        f"\n{machine['device']}, {machine['cores']} cores, torch {machine['torch']}; {arguments.ranks} ranks, {arguments.repeats} repeats"
    )


def _line(settings: dict[str, object], title: str, model: str) -> str:
    experiment = check(settings, "bench")
    ranks = experiment.ranks[0]
    with tempfile.TemporaryDirectory() as folder:
        run, _ = start(Path(folder), "bench", experiment, as_yaml(experiment), fingerprint(this_device(experiment.device)))
        execute(experiment, run)
        spans = {name: np.array([one.trace.span_ns for one in passes_of(run, ranks, name)]) / 1e9 for name in experiment.strategies}
        ours = load_schedules(run.folder / f"ranks-{ranks}")[OURS]
    cells = []
    for name in RIVALS:
        ratio = spans[name] / spans[OURS]
        low, high = np.quantile(ratio, [0.25, 0.75])
        cells.append(f"{np.median(ratio):.2f}x ± {(high - low) / 2:.2f}")
    arrived = (ours.op == Op.H2D).sum()
    share = f"{len(ours.tasks(Op.RECONSTRUCT))}, {len(ours.tasks(Op.INCREMENT))} of {arrived}"
    return f"| {title} | {model} | {np.median(spans[OURS]):.2f} | {' | '.join(cells)} | {share} |"


if __name__ == "__main__":
    main()
