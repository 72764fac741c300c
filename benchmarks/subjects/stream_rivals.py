"""Our models of event streams learn as much as a TGN of PyTorch Geometric's parts in less time, on the same split and the same negatives.

Features are left out: structure alone. Split 70/15/15 in time; AP and AUC against one random negative an event, MRR among 20 mixed ones,
which are the same for all; `new`: test events that have a node never trained on. Networks are tested at the epoch of the best validation
AP. tgn, tgat are ours, on one rank with strategy tgl-unique, by `chronoscale train`; -both with decibels beside the published encoding of
elapsed times; -random with two layers over random features of nodes. graphmixer and dygformer, which read sequences of events, likewise
(rivals=sequences). Rivals: pyg, which needs torch_geometric (rivals=ours leaves it out),
pyg-hours, which encodes time in hours; naive ones: EdgeBank, popularity, both. A pass is a seed; seconds are the median of its epochs,
without validation.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns, seconds_of
from rivals import naive
from rivals.protocol import Figures, Protocol, Trained
from setups import jobs
from setups.data import events_of

from chronoscale.datasets import store
from chronoscale.datasets.streams.events import EventStream
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.rows.phase import VALIDATE
from chronoscale.strategies.trace import Trace

WIDTHS: dict[str, Any] = {"hidden": 100, "time": 100, "heads": 2, "dropout": 0.1}  # as the rival's
OURS: dict[str, dict[str, Any]] = {
    "tgn": {"name": "tgn", "clock": "linear"},
    "tgn-both": {"name": "tgn", "clock": "both"},
    "tgat": {"name": "tgat", "inputs": 0, "clock": "linear"},
    "tgat-both": {"name": "tgat", "inputs": 0, "clock": "both"},
    "tgat-both-random": {"name": "tgat", "inputs": 100, "clock": "both", "layers": 2},
}
SEQUENCES: dict[str, dict[str, Any]] = {  # dygformer's four channels together are about as wide as the others
    "graphmixer": {"name": "graphmixer", "inputs": 0},
    "dygformer": {"name": "dygformer", "inputs": 0, "hidden": 26},
}
UNITS = {"pyg": 1.0, "pyg-hours": 3600.0}
RANKED = 20


def structure(name: str) -> EventStream:
    """Return a stream without features."""
    return replace(events_of(name), features=None, node_features=None)


def figures(validation: float, test: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    """Return what all are judged by."""
    scores = {"validation AP": validation, **{f"test {key.upper()}": test[key] for key in ("ap", "auc", "mrr")}}
    return {**scores, **{f"new {key.upper()}": new.get(key, float("nan")) for key in ("ap", "auc", "mrr")}}


def ours(folder: Path) -> dict[str, float]:
    """Return figures of a training that `chronoscale train` left."""
    schedule, spent = Schedule.load(folder / "schedule.parquet"), []
    for file in sorted((folder / "epochs").glob("*.parquet")):
        trace, trains = Trace.load(file), schedule.step != VALIDATE
        spent.append(float(trace.end_ns[trains].max() - trace.start_ns.min()) / 1e9)
    validated = [json.loads(file.read_text())["scores"]["ap"] for file in sorted((folder / "epochs").glob("*.json"))]
    test = json.loads((folder / "test.json").read_text())
    new = {key.removesuffix("_new"): value for key, value in test.items() if key.endswith("_new")}
    best = max(validated)
    return {"seconds": statistics.median(spent), "best epoch": validated.index(best) + 1, **figures(best, test, new)}


def rival(stream: EventStream, unit: float, given: Mapping[str, Any], seeds: Iterator[int]) -> dict[str, float]:
    """Train the package's TGN with the next seed."""
    trained: Trained = import_module("rivals.pyg_tgn").run(stream, unit=unit, seed=next(seeds), **given)
    spent = statistics.median(epoch.training for epoch in trained.epochs)
    scores = figures(trained.epochs[trained.best].validation_ap, trained.test._asdict(), trained.new._asdict())
    return {"seconds": spent, "best epoch": trained.best + 1, **scores}


def networks(name: str, names: tuple[str, ...], batch: int, epochs: int, rate: float, setting: Setting) -> Passes:
    """Train networks by turns, a seed a pass. Raises UserError without a rival's package."""
    if set(names) & set(UNITS):
        import_module("rivals.pyg_tgn")
    stream, path = structure(name), setting.scratch / "stream"
    store.save(path, stream)
    training = {"batch_size": batch, "fanout": [10], "learning_rate": rate, "ranked": RANKED}
    common = {"dataset": {"path": str(path)}, "training": training, "strategies": ["tgl-unique"], "ranks": [1]}
    given = {"batch_size": batch, "epochs": epochs, "learning_rate": rate, "ranked": RANKED, "threads": setting.threads}

    def contestant(who: str) -> Callable[[], Mapping[str, float]]:
        seeds = iter(range(setting.repeats))
        if who in UNITS:
            return partial(rival, stream, UNITS[who], given, seeds)
        return partial(jobs.train, {**common, "model": {**WIDTHS, **{**OURS, **SEQUENCES}[who]}}, epochs, who, seeds, setting, ours)

    return in_turns({who: contestant(who) for who in names}, setting.repeats)


def without_training(name: str, batch: int, setting: Setting) -> Passes:
    """Score the naive rivals; the half-life is the one that validates best."""
    stream, passes = structure(name), {}
    protocol = Protocol.of(stream, batch, RANKED)
    for who in ("edgebank", "popularity", "both"):
        scores: dict[str, float] = {}

        def score(who: str = who, scores: dict[str, float] = scores) -> None:
            half_life, answers = (0.0, naive.edgebank(stream)) if who == "edgebank" else naive.chosen(protocol, getattr(naive, who))
            validation, *tested = naive.tested(protocol, answers)
            scores.update(figures(validation, *map(Figures._asdict, tested)), **({"half-life": half_life} if half_life else {}))

        passes[who] = [{"seconds": seconds_of(score), **scores}]
    return passes


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams: naive rivals, and networks by learning rate."""
    if quick:
        yield Case({"what": "naive", "stream": "hubs-500-25"}, partial(without_training, "hubs-500-25", 20))
        parameters = {"what": "networks", "stream": "hubs-900-25", "rivals": "ours"}
        yield Case(parameters, partial(networks, "hubs-900-25", ("tgn",), 40, 1, 1e-3))
        return
    every = {"ours": tuple(OURS), "pyg": (*OURS, *UNITS), "sequences": tuple(SEQUENCES)}
    for name, epochs in (("uci_messages", 12), ("jodie_wikipedia", 8)):
        yield Case({"what": "naive", "stream": name}, partial(without_training, name, 200))
        for rate, (rivals, names) in product((1e-3, 1e-4), every.items()):
            parameters = {"what": "networks", "stream": name, "rate": rate, "rivals": rivals}
            yield Case(parameters, partial(networks, name, names, 200, epochs, rate))


SUBJECT = Subject(cases, 5, ("torch_geometric",))
