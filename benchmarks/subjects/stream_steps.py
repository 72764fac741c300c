"""How near an epoch on events is to the dense products that it cannot spare, on a CPU.

`epoch`: the first batches of `tgl-unique` on one rank, as `chronoscale train` runs them, structure alone, widths and batches as in
`stream_rivals`. `products`: its dense products alone, as many and in the same layouts, each with factors of its own into memory that is
there: what would be left if nothing else took time. Other figures: milliseconds of a batch by operation.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns
from setups.data import events_of
from torch.utils._python_dispatch import TorchDispatchMode

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets import store
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.job import Item, Settings
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

MODELS: Mapping[str, Mapping[str, Any]] = {"tgn": {}, "tgat": {"inputs": 0}, "jodie": {}, "apan": {}}
PRODUCTS = {torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.addmm_, torch.ops.aten.bmm}


class Timed(EventProgram):
    """The program, with the seconds of every operation."""

    seconds: defaultdict[str, float]

    def run(self, task: Task) -> None:
        begin = time.perf_counter()
        super().run(task)
        self.seconds[task.op.name] += time.perf_counter() - begin


class Recorded(TorchDispatchMode):
    """Factors of the dense products that torch computes meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.factors: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in PRODUCTS:
            self.factors.append(tuple(torch.empty_strided(x.shape, x.stride()).uniform_(-1, 1) for x in args[-2:]))  # type: ignore[arg-type]
        return func(*args, **(kwargs or {}))


def measured(name: str, model: str, batches: int, setting: Setting) -> Passes:
    """Train the same batches, and compute their products, by turns."""
    stream, folder = replace(events_of(name), features=None, node_features=None), setting.scratch
    store.save(folder / "stream", stream)
    PreparedStream.make(folder / "prepared", folder / "stream", Protocol())
    choice = ModelChoice(model, **{"hidden": 100, "time": 100, "heads": 2, "dropout": 0.1, "clock": "gaps", **MODELS[model]})
    hyper = Hyper(batch_size=min(200, len(stream) // 10), fanout=(10,), validate=False, batches=batches)
    data = stream_statistics(PreparedStream.load(folder / "prepared"))
    schedule = strategy("tgl-unique").plan(Workload(name, data, shape_for(choice, data, hyper), hyper), 1, UNUSED)
    context = Context(settings=Settings(threads=setting.threads))
    steps = int(schedule.iteration.max()) + 1
    material = StreamMaterial.of(Item(schedule.name, "", str(folder / "prepared"), hyper), choice, context)
    trained = Timed(schedule, material, material.learner(choice, context), hyper, context)

    def epoch() -> Mapping[str, float]:
        trained.seconds = defaultdict(float)
        begin = time.perf_counter()
        execute(schedule, trained, CpuLanes(False), "cpu")
        spent = time.perf_counter() - begin
        return {"seconds": spent, **{f"{op}, ms": 1e3 * part / steps for op, part in trained.seconds.items()}}

    with Recorded() as seen:
        epoch()
    results = [torch.bmm(a, b) if a.dim() == 3 else torch.mm(a, b) for a, b in seen.factors]

    def products() -> Mapping[str, float]:
        begin = time.perf_counter()
        for (a, b), out in zip(seen.factors, results, strict=True):
            (torch.bmm if a.dim() == 3 else torch.mm)(a, b, out=out)
        spent = time.perf_counter() - begin
        flops = sum(2 * a.numel() * b.shape[-1] for a, b in seen.factors)
        return {"seconds": spent, "MFLOP a batch": flops / steps / 1e6, "GFLOP/s": flops / spent / 1e9}

    return in_turns({"epoch": epoch, "products": products}, setting.repeats)


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams by models."""
    for name in ("hubs-500-25",) if quick else ("uci_messages", "jodie_wikipedia"):
        for model in ("tgn",) if quick else MODELS:
            yield Case({"stream": name, "model": model}, partial(measured, name, model, 2 if quick else 60))


SUBJECT = Subject(cases, 9)
