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

from chronoscale.harness import execution, runs
from chronoscale.harness.experiment import check
from chronoscale.harness.prepare import schedules, this_device
from chronoscale.real_exec.environment import fingerprint
from chronoscale.strategies.schedule import Op

OURS = "real-g+"
RIVALS = ("psg", "esdg", "distdgl", "blad", "real-reuse", "real-g")
CASES = (
    ("math_overflow_monthly", 12, 24),
    ("enron_monthly", 12, 12),
    ("math_overflow_monthly", None, 24),
    ("enron_monthly", None, 12),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["wd-gcn", "t-gcn", "gat-lstm", "evolvegcn-o"])
    parser.add_argument("--layers", type=int, nargs="+", default=[1])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--hidden", type=int, default=64)
    arguments = parser.parse_args()
    print(f"| dataset | model | {OURS}, s | " + " | ".join(f"over {name}" for name in RIVALS) + " | increments |")
    print("|---|---|---:|" + "---:|" * (len(RIVALS) + 1))
    for layers in arguments.layers:
        for model in arguments.models:
            for dataset, window, groups in CASES:
                settings = {
                    "dataset": {"name": dataset, "window": window},
                    "model": {"name": model, "hidden": arguments.hidden, "inputs": arguments.hidden, "layers": layers},
                    "strategies": [*RIVALS, OURS],
                    "ranks": [arguments.ranks],
                    "repeats": arguments.repeats,
                    "groups": groups,
                    "device": "cpu",
                }
                print(_line(settings, f"{dataset}{f', windows of {window}' if window else ''}", f"{model}, {layers} layers"), flush=True)
    machine = fingerprint(this_device(check(settings, "bench")))
    print(
        f"\n{machine['device']}, {machine['cores']} cores, torch {machine['torch']}; {arguments.ranks} ranks, {arguments.repeats} repeats"
    )


def _line(settings: dict[str, object], title: str, model: str) -> str:
    experiment = check(settings, "bench")
    ranks = experiment.ranks[0]
    with tempfile.TemporaryDirectory() as folder:
        run, _ = runs.start(Path(folder), "bench", experiment, runs.as_given(experiment), fingerprint(this_device(experiment)))
        execution.execute(experiment, run)
        spans = {name: np.array([one.trace.span_ns for one in execution.passes(run, ranks, name)]) / 1e9 for name in experiment.strategies}
        ours = schedules(run.folder / f"ranks-{ranks}")[OURS]
    cells = []
    for name in RIVALS:
        ratio = spans[name] / spans[OURS]
        low, high = np.quantile(ratio, [0.25, 0.75])
        cells.append(f"{np.median(ratio):.2f}x ± {(high - low) / 2:.2f}")
    arrived = (ours.op == Op.H2D).sum()
    share = f"{len(ours.tasks(Op.INCREMENT))} of {arrived}"
    return f"| {title} | {model} | {np.median(spans[OURS]):.2f} | {' | '.join(cells)} | {share} |"


if __name__ == "__main__":
    main()
