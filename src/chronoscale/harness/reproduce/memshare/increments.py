"""Increments: how far a node's memory moves at an update, by the node's degree (Figure 5), executed on one rank."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from chronoscale.batching.streams.description import statistics_of
from chronoscale.batching.streams.prepared import Prepared
from chronoscale.datasets import store
from chronoscale.datasets.arrays import Float64, Int64
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.execute.jobs import item
from chronoscale.harness.reproduce.memshare.executed import HEADS, RATE, WIDTH
from chronoscale.harness.reproduce.memshare.stand_ins import CUT, QUICK, at_hand, degrees, notes, stream
from chronoscale.harness.study.findings import NOT_PRINTED, Findings, Told, row
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.programs import bound
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.streams.shapes import shape_for
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, Workload

BATCH, FANOUT, EPOCHS, PROTOCOL = 3_000, 10, 2, Protocol(ranked=1)
EVENTS, QUICK_EVENTS, QUICK_BATCH = 300_000, 5_000, 500
DATASETS = ("stackof", "gdelt")


def increments(events: EventStream, epochs: int, batch: int) -> tuple[Int64, Float64]:
    """Of every update of a node's memory in the last epoch's training, the node's degree and the squared length of what the update adds:
    int64 and float64 [n]. A first update, from empty memory, is one, too."""
    choice = ModelChoice("tgn", WIDTH, 1, WIDTH, heads=HEADS, time=WIDTH, clock="both")
    hyper = Hyper(batch_size=batch, fanout=(FANOUT,), validate=False, events=EventHyper(PROTOCOL))
    node, length = [np.empty(0, np.int64)], [np.empty(0)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store.save(folder / "stream", events)
        data = Prepared.make(folder / "prepared", Path("..") / "stream", PROTOCOL)
        work = Workload(events.name, statistics_of(data), shape_for(choice, statistics_of(data), hyper), hyper)
        schedule = strategy("tgl-unique").plan(work, 1, UNUSED)
        one = item(folder, "epoch", schedule, folder / "prepared", hyper)
        program = bound(one, schedule, choice, Context(Settings(1, RATE, device="cpu")))
        assert isinstance(program, EventProgram)
        for epoch in range(epochs):
            program.begin()
            for task in program.tasks:
                before = program.state.memory.clone() if task.op == Op.MEMORY_WRITE and epoch == epochs - 1 else None
                program.run(task)
                if before is not None:
                    added = (program.state.memory - before).square().sum(1).double().numpy()
                    node.append(np.flatnonzero(added))
                    length.append(added[node[-1]])
            program.finish()
    return degrees(events)[np.concatenate(node)], np.concatenate(length)


def run(told: Told, quick: bool) -> Findings:
    """Mean increments by degree, ten degrees at a time on a logarithmic scale."""
    real, absent = at_hand(told, quick)
    divisors, most = QUICK if quick else CUT, QUICK_EVENTS if quick else EVENTS
    streams = {name: stream(name, divisors[name]) for name in DATASETS[: 1 if quick else None]}
    rows, lined, panels = [], [], []
    for name, found in {**streams, **real}.items():
        told(name)
        degree, added = increments(found.span(0, min(most, len(found))), 1 if quick else EPOCHS, QUICK_BATCH if quick else BATCH)
        kinds, at = np.unique(np.floor(2 * np.log10(degree)).astype(np.int64), return_inverse=True)
        means, many = np.bincount(at, added) / np.bincount(at), np.bincount(at)
        lined += [{"dataset": name, "degree from": float(10 ** (kind / 2)), "updates": int(count), "increment": float(mean)}
                  for kind, mean, count in zip(kinds, means, many, strict=True)]  # fmt: skip
        hot, cold = degree > np.quantile(degree, 0.9), degree <= np.quantile(degree, 0.1)
        panels.append(Panel(name, "degree", "mean squared increment", {"increment": ([float(10 ** (k / 2)) for k in kinds], list(means))},
                            scale=("log", "log")))  # fmt: skip
        over = [float(added[hot].mean() / added[cold].mean())] if hot.any() else []
        why = f"a tenth of {len(added):,} updates each; {NOT_PRINTED}"
        rows.append(row(f"{name}, updates of highest degrees over those of lowest, mean increment", None, over, why))
        together = float(np.corrcoef(np.log(degree), np.log(added))[0, 1])
        why = "below 0 nodes of high degree move less, as the text has it; above 0 they move more"
        rows.append(row(f"{name}, correlation of log degree and log increment", None, [together], why))
    drawn = lines("memshare-figure-5", "Increments of memory by degree", "TGN on one rank, executed.", panels[:4])
    said = (
        *((f"Quick: the first {QUICK_EVENTS:,} events, batches of {QUICK_BATCH}, one epoch.",) if quick else ()),
        f"TGN of width {WIDTH} on one rank, learning rate {RATE:g}, batches of {QUICK_BATCH if quick else BATCH:,}, up to {most:,} events; "
        "updates of the last epoch, each from what was there before. Degrees are of these events' ends.",
        *notes({name: divisors[name] for name in streams}, absent),
    )
    return Findings(pd.DataFrame(rows), (drawn,), {"increments": pd.DataFrame(lined)}, said)
