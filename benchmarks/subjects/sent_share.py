"""What share of the changes of shared nodes passes MemShare's alpha is predicted from a curve.

`curve`: shares of every epoch at an alpha, a pass a seed, from which `tools/sent_curves.py` makes the table that plans read. `check`: at
other alphas, with other seeds, on as many ranks and on twice as many, beside the prediction; `off`: predicted over measured, less 1, of
the mean of all epochs. TGN, both clocks, 10 neighbours, k 0.1, theta 0.1. Shares are counted and depend on no clock; `seconds` are of the
whole job over its alphas.

`simulated`: MemShare's simulated epoch (TGN, a tenth of WikiTalk's stand-in, as in its Figure 9) by the share that is assumed, beside
rivals'; `seconds` are of the simulated machines of four A40 there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from core.case import Case, Figures, Passes, Setting, Subject
from setups.data import events_of

from chronoscale.datasets.streams.events import EventStream
from chronoscale.harness.study.execution import streams_in_turn
from chronoscale.harness.study.hooks import memshare
from chronoscale.harness.study.point import StudyPoint
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.job import Settings
from chronoscale.simulator.engine import replay
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.streams.spread.sent_share import sent_curves
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, SharingHyper

ALPHAS, OTHERS, RANKS, SEED = (0.05, 0.1, 0.2, 0.3, 0.4, 1.0), (0.15, 0.25), 2, 9
SENT = (0.02, 0.1, 0.2, 0.4, 0.8)
STREAMS = {  # events a rank and step, width, learning rate, epochs
    "stackof": (200, 32, 0.001, 4),
    "uci_messages": (200, 32, 0.001, 4),
    "jodie_wikipedia": (600, 100, 0.0005, 4),
    "hubs-600-40": (60, 8, 0.001, 2),
}


def stream_of(name: str) -> EventStream:
    """Return a stream of events; stackof: the stand-in of Stack Overflow on which MemShare's studies train."""
    return memshare.events_of(name, 1500) if name == "stackof" else events_of(name)


def train(name: str, alphas: Sequence[float], ranks: int, seed: int, setting: Setting) -> dict[float, tuple[float, list[Pass]]]:
    """Train on ranks with every alpha, epochs in turn; return seconds and epochs by alpha."""
    batch, width, rate, epochs = STREAMS[name]
    model = ModelChoice("tgn", width, 1, width, heads=2, time=width, clock="both")
    hyper = Hyper(batch_size=batch, fanout=(10,), validate=False, seed=seed, events=EventHyper())
    of = {a: replace(hyper, events=replace(hyper.events, sharing=SharingHyper(alpha=a))) for a in alphas}
    settings = Settings(setting.threads, rate, seed, setting.device)
    start = time.perf_counter()
    passes = streams_in_turn({str(a): ("memshare", of[a]) for a in alphas}, stream_of(name), model, ranks, epochs, 0, settings)
    spent = (time.perf_counter() - start) / len(alphas)
    return {a: (spent, passes[str(a)]) for a in alphas}


def share(one: Pass) -> float:
    """Return the share of an epoch's changes that ranks sent each other."""
    return one.counts["shared_spoken"] / one.counts["shared_changes"]


def steps(one: Pass) -> int:
    """Return the optimiser steps of an epoch."""
    return int(np.bincount(one.trace.rank[one.trace.op == Op.OPTIMIZE]).max())


def curve(name: str, alpha: float, setting: Setting) -> Passes:
    """Measure the shares of all epochs at an alpha, a pass a seed."""
    passes: list[Figures] = []
    for seed in range(setting.repeats):
        seconds, epochs = train(name, [alpha], RANKS, seed, setting)[alpha]
        of = {f"epoch {number}": share(one) for number, one in enumerate(epochs, 1)}
        passes.append({"seconds": seconds, "steps": steps(epochs[0]), **of})
    return {f"alpha {alpha}": passes}


def check(name: str, ranks: int, setting: Setting) -> Passes:
    """Measure the mean share of all epochs at other alphas, with other seeds, a pass each, beside its prediction."""
    events = stream_of(name)
    (known,) = (curve for curve in sent_curves() if (curve.nodes, curve.events) == (events.num_nodes, len(events)))
    passes: dict[str, list[Figures]] = {f"alpha {alpha}": [] for alpha in OTHERS}
    for seed in range(SEED, SEED + setting.repeats):
        for alpha, (seconds, epochs) in train(name, OTHERS, ranks, seed, setting).items():
            measured, predicted = float(np.mean([share(one) for one in epochs])), known.predict(alpha, steps(epochs[0]) * len(epochs))
            figures = {"measured": measured, "predicted": predicted.middle, "low": predicted.low, "high": predicted.high}
            passes[f"alpha {alpha}"].append({"seconds": seconds, **figures, "off": predicted.middle / measured - 1})
    return passes


def simulated(gpus: int, setting: Setting) -> Passes:
    """Simulate an epoch of Figure 9 by strategy, and by the share of changes that MemShare is taken to send."""
    bed, passes = memshare.bed(), dict[str, list[Figures]]()
    for label, sent in (("disttgl", None), ("tgl-dist", None), *((f"memshare, {each:.0%}", each) for each in SENT)):
        axes = {"paper": "memshare", "dataset": "wikitalk", "model": "tgn", "strategy": label.split(",")[0], "cluster": "a40-10g"}
        point = StudyPoint.of({**axes, "gpus": gpus, "divisor": 10, "batch": 3000, "least": 6})
        work, cluster = bed.workload(point), bed.cluster(point)
        sharing = replace(work.hyper.events.sharing, sent=sent)
        given = replace(work, hyper=replace(work.hyper, events=replace(work.hyper.events, sharing=sharing)))
        costs = bed.costs(point, cluster)
        schedule = bed.planner(point).plan(given, gpus, costs)
        passes[label] = [{"seconds": bed.epoch_s(point, schedule, replay(schedule, cluster, costs))}]
    return passes


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams."""
    for name in ["hubs-600-40"] if quick else [name for name in STREAMS if name != "hubs-600-40"]:
        for alpha in ALPHAS[:1] if quick else ALPHAS:
            yield Case({"what": "curve", "stream": name, "alpha": alpha, "ranks": RANKS}, partial(curve, name, alpha))
        for ranks in () if quick else (RANKS, 2 * RANKS):
            yield Case({"what": "check", "stream": name, "ranks": ranks}, partial(check, name, ranks))
    for gpus in () if quick else (8, 16):
        yield Case({"what": "simulated", "gpus": gpus}, partial(simulated, gpus))


SUBJECT = Subject(cases, repeats=2)
