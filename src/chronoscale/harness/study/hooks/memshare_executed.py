"""MemShare, executed: training on small streams on two ranks, for a few epochs in turn or to convergence; how far memories move."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets import store
from chronoscale.datasets.arrays import Float64, Int64
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.execute.jobs import make_item
from chronoscale.harness.study.execution import streams_in_turn, train
from chronoscale.harness.study.hooks.memshare import degrees, events_of
from chronoscale.harness.study.point import StudyPoint
from chronoscale.harness.study.testbeds.spread_streams import SHARING, sharing_of
from chronoscale.real_exec.binding import bind_program
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, Workload

PROTOCOL = Protocol(ranked=1)
DECAY = {"weight_cap": 0.0, "at_least_one": False}  # boundary decay as the paper has it


def cut_short(point: StudyPoint) -> EventStream:
    """Return the events that a point of MemShare's executed studies trains on: the first `events` (a setting), all where that is 0."""
    events = events_of(point.dataset, point.setting("divisor"))
    most = point.setting("events")
    return events.span(0, min(most, len(events))) if most else events


def summary(passes: list[Pass]) -> dict[str, Any]:
    """Return what executed epochs of one case come to: seconds, scores and what ranks sent, for MemShare's executed studies.

    passes: an epoch each, the last one tested. `seconds` by epoch and median `epoch_s`; `validation` AP of all epochs but the last, `test`
    AP of the last model; `counts`: name -> what ranks counted in the last epoch, such as 'shared_changes' (of shared nodes' memory);
    `spoken`: share of these that ranks sent each other, NaN where there are none.
    """
    *before, test = (float(one.scores["ap"]) for one in passes)
    seconds, counts = [one.trace.span_ns / 1e9 for one in passes], dict(passes[-1].counts)
    changed = counts.get("shared_changes", 0)
    spoken = counts["shared_spoken"] / changed if changed else float("nan")
    scores = {"validation": before, "test": test, "counts": counts, "spoken": spoken}
    return {"seconds": seconds, "epoch_s": float(np.median(seconds)), **scores}


def together(point: StudyPoint) -> dict[str, Any]:
    """Train a point's cases on this machine in turn, an epoch each, for MemShare's Figures 8, 11, 12 and 14.

    Setting `cases`, JSON: label -> {`strategy`, and settings of what its ranks share}. Returns by label what `summary` does: `seconds`,
    `epoch_s`, `validation`, `test`, `counts`, `spoken`. Raises UserError or MachineError with the failed rank's own line.
    """
    of, cases = dict(point.settings), json.loads(point.setting("cases"))
    choice = ModelChoice(point.model, of["width"], 1, of["width"], heads=of["heads"], time=of["width"], clock="both")
    hypers = [
        Hyper(batch_size=of["batch"], fanout=(of["fanout"],), events=EventHyper(PROTOCOL, sharing=sharing_of(c))) for c in cases.values()
    ]
    settings = Settings(1, of["rate"], device="cpu", network=of["network"], network_latency=of["latency"] * (of["network"] > 0))
    planned = {name: (case["strategy"], hyper) for (name, case), hyper in zip(cases.items(), hypers, strict=True)}
    executed = streams_in_turn(planned, cut_short(point), choice, point.gpus, of["epochs"], 0, settings)
    return {name: summary(passes) for name, passes in executed.items()}


def converged(point: StudyPoint) -> dict[str, Any]:
    """Train a point of MemShare's Tables 3 and 5 on this machine until its validation AP stops getting better.

    `test` AP of the best epoch's model, `naive` AP of predictions that learn nothing, by name; `settled`: epochs up to the best; `ended`:
    whether training ended before its most epochs. Settings: `batch` (events a rank), `fanout`, `width`, `heads`, `rate` of learning,
    `seed`, `epochs` at most, `patience` (epochs without a better validation), and what ranks share (SHARING). Raises UserError as
    `chronoscale train`.
    """
    of = dict(point.settings)
    shared = {"partition" if name == "policy" else name: of[name] for name in SHARING if name in of}
    model = {"name": point.model, "hidden": of["width"], "heads": of["heads"], "time": of["width"]}
    training = {"batch_size": of["batch"], "fanout": [of["fanout"]], "learning_rate": of["rate"], "patience": of["patience"]}
    training |= {"ranked": PROTOCOL.ranked, **({**shared, **DECAY} if shared else {})}
    keys = {"dataset": point.dataset, "model": model, "training": training, "strategies": [point.strategy]}
    done = train({**keys, "ranks": [point.gpus], "epochs": of["epochs"], "seed": of["seed"]}, "memshare", "ap")
    return {"test": done.tested, "naive": dict(done.rivals), "settled": done.settled, "ended": len(done.epochs) < of["epochs"]}


def increments(events: EventStream, epochs: int, batch: int, width: int, heads: int, fanout: int, rate: float) -> tuple[Int64, Float64]:
    """Train TGN on this machine and return how far node memory moves at each update of the last epoch, for MemShare's Figure 5.

    batch: events. rate: of learning. Returns the updated node's degree, int64 [updates], and the change's squared length, float64
    [updates]; first updates, from empty memory, are included.
    """
    choice = ModelChoice("tgn", width, 1, width, heads=heads, time=width, clock="both")
    hyper = Hyper(batch_size=batch, fanout=(fanout,), validate=False, events=EventHyper(PROTOCOL))
    node, length = [np.empty(0, np.int64)], [np.empty(0)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store.save(folder / "stream", events)
        data = PreparedStream.make(folder / "prepared", Path("..") / "stream", PROTOCOL)
        work = Workload(events.name, stream_statistics(data), shape_for(choice, stream_statistics(data), hyper), hyper)
        schedule = strategy("tgl-unique").plan(work, 1, UNUSED)
        one = make_item(folder, "epoch", schedule, folder / "prepared", hyper)
        program = bind_program(one, schedule, choice, Context(Settings(1, rate, device="cpu")))
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


def increments_by_degree(point: StudyPoint) -> dict[str, Any]:
    """Return how far node memory moves at an update, by the node's degree: a point of MemShare's Figure 5, trained on this machine.

    `degree_from`: lower ends of bins, half a decade each; `updates`, `means` (of squared changes) by bin; `over`: hottest tenth's mean over
    the coldest's, a list of one or none; `together`: correlation of logarithms; `count` of updates.
    """
    of = {name: point.setting(name) for name in ("epochs", "batch", "width", "heads", "fanout", "rate")}
    degree, added = increments(cut_short(point), **of)
    kinds, at = np.unique(np.floor(2 * np.log10(degree)).astype(np.int64), return_inverse=True)
    hot, cold = degree > np.quantile(degree, 0.9), degree <= np.quantile(degree, 0.1)
    return {
        "degree_from": [float(10 ** (kind / 2)) for kind in kinds],
        "updates": np.bincount(at).tolist(),
        "means": (np.bincount(at, added) / np.bincount(at)).tolist(),
        "over": [float(added[hot].mean() / added[cold].mean())] if hot.any() else [],
        "together": float(np.corrcoef(np.log(degree), np.log(added))[0, 1]),
        "count": len(added),
    }
