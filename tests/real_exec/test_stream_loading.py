"""However rows come to the device: a model reads the same bits, and what crosses the bus is what was planned."""

from pathlib import Path

import numpy as np
import pytest
import torch
from stream_case import choice, hyper, planned, prepared, program, stream

from chronoscale.real_exec.interpreter import execute
from chronoscale.real_exec.lanes import CpuLanes
from chronoscale.real_exec.streams import batch as batches
from chronoscale.real_exec.streams import cache as caches
from chronoscale.real_exec.streams.steps import Steps
from chronoscale.strategies.schedule import Lane, Op
from chronoscale.strategies.workload import EventHyper

SLOTS = ("tgl", "etc", "taser", "simple", "fast", "fast-compressed", "fast-cached", "fast-even")
MERGED = ("tgl-unique", "fast-merged")
MODELS = ("tgn", "tgat", "dysat", "jodie")
RATIOS = (0.0, 0.3, 1.0)


def given(model, ratio=0.3, presample=2, **other):
    windows = {"windows": 3, "duration": 6.0} if model == "dysat" else {}
    return hyper(model, events=EventHyper(cache_ratio=ratio, presample=presample, **windows), **other)


class Watched:
    """An epoch, the bytes of every tensor that is sent, and what the model is given."""

    def __init__(self, monkeypatch, folder, model, name, own, features=True, threaded=False):
        chosen = choice(model, layers=1 if model == "jodie" else 2)
        self.schedule = planned(folder, chosen, own, name)
        self.made = program(folder, self.schedule, chosen, own)
        self.sent, self.read = [], []
        task_bytes = [0]

        def counting(tensor, device):
            task_bytes[0] += tensor.nbytes
            return tensor.clone()

        run = self.made.run

        def watched(task):
            task_bytes[0] = 0
            run(task)
            if task.lane is Lane.H2D:
                self.sent.append((task.task, task_bytes[0]))

        self.made.run = watched
        begin = Steps._begin

        def began(steps, batch):
            if not batch.below:
                hops = [part for tree in batch.trees for hop in tree.hops for part in hop[:-1] if part is not None]
                kept = [batch.features, batch.memory, batch.times, batch.heard, *(batch.pending or ()), *hops]
                self.read.append(
                    [part.detach().clone() for part in [*kept, *(p for tree in batch.trees for p in tree.levels)] if part is not None]
                )
            begin(steps, batch)

        with monkeypatch.context() as patch:
            patch.setattr(batches, "sent", counting)
            patch.setattr(caches, "sent", counting)
            patch.setattr(Steps, "_begin", began)
            self.done = execute(self.schedule, self.made, CpuLanes(threaded), "cpu")


def same(one: Watched, other: Watched) -> bool:
    pairs = zip(one.read, other.read, strict=True)
    return all(len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True)) for a, b in pairs)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[int, Path]:
    """Streams with features of nodes, and without."""
    made = {width: tmp_path_factory.mktemp("loading") for width in (0, 3)}
    return {width: prepared(folder, stream(features=width, events=80)) for width, folder in made.items()}


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("names"), [SLOTS, MERGED])
@pytest.mark.parametrize("width", [0, 3])
def test_a_model_reads_the_same_bits_and_loses_the_same(monkeypatch, folders, model, names, ratio, width):
    own = given(model, ratio)
    first, *others = (Watched(monkeypatch, folders[width], model, name, own) for name in names)
    assert len(first.read) == sum(deal.iterations for deal in first.made.deals)
    for other in others:
        assert same(first, other)
        assert (first.done.losses == other.done.losses).all() and first.done.scores == other.done.scores


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", [*SLOTS, *MERGED])
@pytest.mark.parametrize("width", [0, 3])
def test_what_crosses_the_bus_is_what_was_planned(monkeypatch, folders, model, name, ratio, width):
    """Byte for byte, batch by batch, in the first epoch of the seed that plans are counted with."""
    seen = Watched(monkeypatch, folders[width], model, name, given(model, ratio))
    rows = seen.schedule.tasks(Op.H2D)
    assert [task for task, _ in seen.sent] == rows.tolist()
    np.testing.assert_array_equal([size for _, size in seen.sent], seen.schedule.bytes[rows])
