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
from pathlib import Path

import numpy as np
from core.case import Case, Passes, Setting, Subject
from setups import jobs
from setups.streams import events_of

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets import store
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.real_exec.job import Settings
from chronoscale.reports.breakdown import PARTS, Breakdown
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, Workload

STRATEGIES = ("tgl", "etc", "taser", "simple", "fast", "tgl-unique", "fast-merged")


def prepare(name: str, count: int, width: int, folder: Path) -> Path:
    """Store the stream with generated features, prepared."""
    events = events_of(name).span(0, count)
    features = np.random.default_rng(0).standard_normal((len(events), width), np.float32)
    store.save(folder / "stream", replace(events, features=features, node_features=None))
    PreparedStream.make(folder / "prepared", Path("..") / "stream", Protocol())
    return folder / "prepared"


def measure(given: dict[str, object], choice: ModelChoice, hyper: Hyper, ranks: int, setting: Setting) -> Passes:
    """Execute all strategies, and add the median seconds of each part of an epoch."""
    data = prepare(str(given["stream"]), int(str(given["events"])), choice.inputs, setting.scratch)
    sizes = stream_statistics(PreparedStream.load(data))
    work = Workload(str(given["stream"]), sizes, shape_for(choice, sizes, hyper), hyper)
    settings = Settings(setting.threads, 1e-3, bus=float(str(given["bus"])))
    passes = jobs.execute(jobs.plans(work, STRATEGIES, ranks), work, choice, data, setting.repeats, ranks, settings)
    jobs.losses_agree(passes, 1e-3)
    parts = {who: Breakdown.middle([one.trace for one in several]).seconds for who, several in passes.items()}
    return jobs.figures(passes, lambda who, one: {f"{part}, s": parts[who][part] for part in PARTS if part in parts[who]})


def cases(quick: bool) -> Iterator[Case]:
    """Yield models by ranks and bus."""
    events = (
        {"stream": "hubs-300-40", "events": 300, "width": 8} if quick else {"stream": "us_flights_2001", "events": 120_000, "width": 128}
    )
    for model, ranks, bus in product(("tgat",), (1,), (0.0,)) if quick else product(("tgat", "tgn"), (1, 2), (0.0, 16e9, 0.25e9)):
        parameters = {**events, "model": model, "ranks": ranks, "bus": bus}
        choice = ModelChoice(model, 8 if quick else 100, 1, int(str(events["width"])), heads=2)
        hyper = Hyper(batch_size=60 if quick else 2000, fanout=(10,), events=EventHyper(cache_ratio=0.2))
        yield Case(parameters, partial(measure, parameters, choice, hyper, ranks))


SUBJECT = Subject(cases, 5)
