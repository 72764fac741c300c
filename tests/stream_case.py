"""A small stream with everything that can go wrong in it, prepared on disk, and programs that train on it."""

from dataclasses import replace

import numpy as np
import torch

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets import store
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, Workload

MODELS = ("tgn", "tgat", "dysat", "jodie", "apan", "graphmixer", "dygformer")


def stream(seed=0, nodes=9, events=60, edge=2, features=0, labels=False):
    """Ties, self-loops, repeated edges, and a node without events."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, nodes - 1, (2, events)).astype(np.int32)
    t = np.sort(rng.integers(0, events // 2, events)).astype(np.int64)
    drawn = rng.standard_normal((events, edge)).astype(np.float32) if edge else None
    of_nodes = rng.standard_normal((nodes, features)).astype(np.float32) if features else None
    return EventStream(nodes, src, dst, t, drawn, (src % 2).astype(np.int64) if labels else None, name="small", node_features=of_nodes)


def unix_stream(seed=0, **other):
    """That stream in unix seconds: it begins at 1.3e9, and its events are 0 to 1e6 s apart, each length about as often as ten times it."""
    events, rng = stream(seed, **other), np.random.default_rng(seed + 1)
    gaps = np.where(rng.random(len(events)) < 0.2, 0, 10 ** rng.uniform(0, 6, len(events)))
    return replace(events, t=1_300_000_000 + np.cumsum(gaps.astype(np.int64)))


def prepared(folder, events, **protocol):
    """The stream's folder, as ranks read it."""
    store.save(folder / "stream", events)
    PreparedStream.make(folder / "prepared", folder / "stream", Protocol(**{"ranked": 3, **protocol}))
    return folder / "prepared"


def choice(model, **other):
    return ModelChoice(model, **{"hidden": 6, "heads": 2, "inputs": 4, "time": 4, "mails": 3, "clock": "gaps", **other})


def hyper(model, batch_size=7, windows=3, duration=6.0, events=None, **other):
    own = EventHyper(windows=windows, duration=duration) if model == "dysat" else EventHyper()
    return Hyper(batch_size=batch_size, fanout=(3,), **{"events": events or own, **other})


def workload(folder, model, **other):
    given = other.pop("hyper", None) or hyper(model)
    data = stream_statistics(PreparedStream.load(folder))
    return Workload("small", data, shape_for(choice(model, **other), data, given), given)


def program(folder, schedule, chosen, given, context=None, rate=0.05):
    """With plain gradient descent: Adam would hide a gradient that counts twice."""
    context = context or Context()
    material = StreamMaterial.of(Item(schedule.name, "", str(folder), given), chosen, context)
    learner = material.learner(chosen, context)
    learner.optimizer = torch.optim.SGD(learner.model.parameters(), rate)
    return EventProgram(schedule, material, learner, given, context)


def planned(folder, chosen, given, name="tgl-unique", ranks=1):
    data = stream_statistics(PreparedStream.load(folder))
    return strategy(name).plan(Workload("small", data, shape_for(chosen, data, given), given), ranks, UNUSED)


def one_pass(folder, model, name="tgl-unique", threaded=False, given=None, **other):
    """A program and what its first epoch came to, on one rank."""
    chosen, given = choice(model, **other), given or hyper(model)
    schedule = planned(folder, chosen, given, name)
    made = program(folder, schedule, chosen, given)
    return made, execute(schedule, made, CpuLanes(threaded), "cpu")
