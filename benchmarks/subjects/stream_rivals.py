"""Our models of event streams learn as much as a TGN of PyTorch Geometric's parts in less time, on the same split and the same negatives.

Features are left out: structure alone. Split 70/15/15 in time; AP and AUC against one random negative an event, MRR among 20 mixed ones,
which are the same for all; `new`: test events that have a node never trained on. Networks are tested at the epoch of the best validation
AP. tgn, tgat are ours, on one rank with strategy tgl-unique; -both with decibels beside the published encoding of elapsed times; -random
with two layers over random features of nodes. Rivals: pyg, which needs torch_geometric (rivals=ours leaves it out), pyg-hours, which
encodes time in hours; naive ones: EdgeBank, popularity, both. A pass is a seed; seconds are the median of its epochs, without validation.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns, seconds_of
from rivals import naive, ours
from rivals.protocol import Epoch, Figures, Protocol, Trained
from setups.streams import events_of

from chronoscale.datasets.streams.events import EventStream
from chronoscale.strategies.workload import ModelChoice

WIDTHS: dict[str, Any] = {"hidden": 100, "time": 100, "heads": 2, "dropout": 0.1}  # as the rival's
OURS = {
    "tgn": ModelChoice("tgn", **WIDTHS),
    "tgn-both": ModelChoice("tgn", clock="both", **WIDTHS),
    "tgat": ModelChoice("tgat", inputs=0, **WIDTHS),
    "tgat-both": ModelChoice("tgat", inputs=0, clock="both", **WIDTHS),
    "tgat-both-random": ModelChoice("tgat", inputs=100, clock="both", layers=2, **WIDTHS),
}
UNITS = {"pyg": 1.0, "pyg-hours": 3600.0}
RANKED = 20


def structure(name: str) -> EventStream:
    """Return a stream without features."""
    return replace(events_of(name), features=None, node_features=None)


def figures(validation: float, test: Figures, new: Figures) -> dict[str, float]:
    """Return what all are judged by."""
    scores = {"validation AP": validation, **{f"test {key.upper()}": getattr(test, key) for key in ("ap", "auc", "mrr")}}
    return {**scores, **{f"new {key.upper()}": getattr(new, key) for key in ("ap", "auc", "mrr")}}


def train(name: str, stream: EventStream, given: dict[str, Any], seeds: Iterator[int]) -> dict[str, float]:
    """Train a network with the next seed; every epoch is told as it ends."""
    seed = next(seeds)

    def tell(epoch: Epoch) -> None:
        parts = ", ".join(f"{part} {spent:.2f}" for part, spent in epoch.parts.items())
        scores = f"loss {epoch.loss:.4f}, validation AP {epoch.validation_ap:.4f}"
        print(f"{stream.name}, {name}, seed {seed}: {scores}, {epoch.training:.2f} s ({parts})", file=sys.stderr, flush=True)

    given = {**given, "seed": seed, "told": tell}
    if name in UNITS:
        trained: Trained = import_module("rivals.pyg_tgn").run(stream, unit=UNITS[name], **given)
    else:
        trained = ours.run(stream, choice=OURS[name], **given)
    spent = {"seconds": statistics.median(epoch.training for epoch in trained.epochs), "best epoch": trained.best + 1}
    validating = statistics.median(epoch.validation for epoch in trained.epochs)
    return {**spent, "validation, s": validating, **figures(trained.epochs[trained.best].validation_ap, trained.test, trained.new)}


def networks(name: str, names: tuple[str, ...], given: dict[str, Any], setting: Setting) -> Passes:
    """Train networks by turns, a seed a pass. Raises UserError without a rival's package."""
    if set(names) & set(UNITS):
        import_module("rivals.pyg_tgn")
    stream, given = structure(name), {**given, "threads": setting.threads}
    return in_turns({who: partial(train, who, stream, given, iter(range(setting.repeats))) for who in names}, setting.repeats)


def without_training(name: str, batch: int, setting: Setting) -> Passes:
    """Score the naive rivals; the half-life is the one that validates best."""
    stream, found = structure(name), {}
    protocol = Protocol.of(stream, batch, RANKED)
    for who in ("edgebank", "popularity", "both"):
        scores: dict[str, float] = {}

        def score(who: str = who, scores: dict[str, float] = scores) -> None:
            half_life, answers = (0.0, naive.edgebank(stream)) if who == "edgebank" else naive.chosen(protocol, getattr(naive, who))
            scores.update(figures(*naive.tested(protocol, answers)), **({"half-life": half_life} if half_life else {}))

        found[who] = [{"seconds": seconds_of(score), **scores}]
    return found


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams: naive rivals, and networks by learning rate; `epochs` times one of ours alone."""
    if quick:
        yield Case({"what": "naive", "stream": "hubs-500-25"}, partial(without_training, "hubs-500-25", 20))
        given = {"batch_size": 40, "epochs": 1, "learning_rate": 1e-3, "ranked": 2}
        yield Case({"what": "networks", "stream": "hubs-300-25", "rivals": "ours"}, partial(networks, "hubs-300-25", ("tgn",), given))
        return
    every = {"ours": tuple(OURS), "pyg": (*OURS, *UNITS)}
    for name, patience, epochs in (("uci_messages", 5, 12), ("jodie_wikipedia", 3, 8)):
        yield Case({"what": "naive", "stream": name}, partial(without_training, name, 200))
        for rate, (rivals, names) in product((1e-3, 1e-4), every.items()):
            given = {"batch_size": 200, "epochs": epochs, "learning_rate": rate, "ranked": RANKED, "patience": patience}
            yield Case({"what": "networks", "stream": name, "rate": rate, "rivals": rivals}, partial(networks, name, names, given))
    given = {"batch_size": 200, "epochs": 2, "learning_rate": 1e-3, "ranked": 0}
    yield Case({"what": "epochs", "stream": "uci_messages", "rivals": "tgn-both"}, partial(networks, "uci_messages", ("tgn-both",), given))


SUBJECT = Subject(cases, 5, ("torch_geometric",))
