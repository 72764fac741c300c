"""FAST's epochs take less time than TGL's, ETC's, TASER's and SIMPLE's on real events, and where the time goes.

The first 120,000 events of us_flights_2001 with 128 generated features each, standard normal; batches of 2,000, fan-out 10, the latest,
with those that validate; a model without memory reads as many features of nodes. bus: bytes a second that transfers are held to on a CPU,
which has no bus of its own (0: none). The naive rival is `tgl-unique`, which merges what is alike before it computes and has no cache;
mean losses of the first epoch agree. `fast-merged` computes once what is alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from core.case import Case, Passes, Setting, Subject
from setups import jobs
from setups.data import events_of

from chronoscale.datasets import store
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.reports.breakdown import PARTS, Breakdown
from chronoscale.strategies.schedule import Schedule

STRATEGIES = ("tgl", "etc", "taser", "simple", "fast", "tgl-unique", "fast-merged")


def figures(plan: Schedule, one: Pass) -> dict[str, float]:
    """Return seconds of each part of an epoch, and its loss."""
    parts = Breakdown.middle([one.trace]).seconds
    return {**{f"{part}, s": parts[part] for part in PARTS if part in parts}, "loss": float(one.losses.mean())}


def measure(stream: str, events: int, settings: dict[str, Any], setting: Setting) -> Passes:
    """Execute all strategies on the first events of a stream, with generated features."""
    first = events_of(stream).span(0, events)
    features = np.random.default_rng(0).standard_normal((len(first), settings["model"]["inputs"]), np.float32)
    store.save(setting.scratch / "stream", replace(first, features=features, node_features=None))
    passes = jobs.epochs({**settings, "dataset": {"path": str(setting.scratch / "stream")}}, setting, figures)
    jobs.losses_agree(passes, 1e-3)
    return passes


def cases(quick: bool) -> Iterator[Case]:
    """Yield models by ranks and bus."""
    stream, events, width, hidden, batch = ("hubs-300-40", 300, 8, 8, 60) if quick else ("us_flights_2001", 120_000, 128, 100, 2000)
    for model, ranks, bus in product(("tgat",), (1,), (0.0,)) if quick else product(("tgat", "tgn"), (1, 2), (0.0, 16e9, 0.25e9)):
        training = {"batch_size": batch, "fanout": [10], "cache_ratio": 0.2, "learning_rate": 1e-3}
        settings = {
            **{"model": {"name": model, "hidden": hidden, "inputs": width}, "training": training, "strategies": [*STRATEGIES]},
            **{"ranks": [ranks], "bus": bus or None},
        }
        yield Case({"stream": stream, "model": model, "ranks": ranks, "bus": bus}, partial(measure, stream, events, settings))


SUBJECT = Subject(cases, 5)
