"""Random batches of event streams beside an oracle that is as far, and models of event streams that read them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from stream_oracle import StreamOracle
from torch import Tensor

from chronoscale.real_exec.streams.memory_rows import MemoryRows
from chronoscale.real_exec.streams.models.model import StreamModel, stream_model
from chronoscale.real_exec.streams.tree import Hop, Tree
from chronoscale.strategies.streams.kinds.base import PATCHES
from chronoscale.strategies.streams.models import STREAM_MODELS, StreamShape, stream_shape
from chronoscale.strategies.workload import ModelChoice

NODES, EVENTS, HIDDEN, EDGE, FEATURES = 10, 40, 6, 3, 4  # the last node has no event
FANOUTS = (3, 2)
DURATION, WINDOWS = 9.0, 3
CASES = [(name, layers) for name, kind in STREAM_MODELS.items() for layers in kind.depths]
MEMORIES = [name for name in STREAM_MODELS if STREAM_MODELS[name].memory]


def shape_of(name: str, layers: int = 1, features: int = 0, edge: int = EDGE, outputs: int = 0, **other: Any) -> StreamShape:
    choice = ModelChoice(name, HIDDEN, layers, FEATURES, heads=2, time=5, mails=3, **other)
    return stream_shape(choice, features, edge, 0 if STREAM_MODELS[name].spatial == PATCHES else outputs, WINDOWS, FANOUTS[0])


def build(
    name: str, layers: int = 1, features: int = 0, edge: int = EDGE, outputs: int = 0, dropout: float = 0.0, **other: Any
) -> StreamModel:
    model = stream_model(shape_of(name, layers, features, edge, outputs, **other), 5, dropout).double()
    model.standardise(2.0, 3.0)
    return model


class RandomBatch:
    """A random stream with ties, repeated events and one with itself, an oracle that is some batches into it, and the next batch."""

    def __init__(self, model: StreamModel, seed: int = 0, batches: int = 2, size: int = 6) -> None:
        random = np.random.default_rng(seed)
        self.random, shape = random, model.shape
        src, dst = random.integers(0, NODES - 1, (2, EVENTS))
        dst[3] = src[3]
        t = np.sort(random.integers(0, EVENTS // 2, EVENTS)).astype(float)
        self.edge = random.normal(size=(EVENTS, EDGE)) if shape.edge else None
        self.features = random.normal(size=(NODES, shape.features)) if shape.features else None
        optimiser = partial(torch.optim.SGD, lr=0.1)
        duration = DURATION if shape.name == "dysat" else 0.0
        self.oracle = StreamOracle(model, src, dst, t, NODES, optimiser, FANOUTS, self.edge, self.features, duration)
        self.first, self.last = batches * size, (batches + 1) * size
        self.others = random.integers(0, NODES, (size, 2))
        for batch in range(batches):
            self.oracle.logits(batch * size, (batch + 1) * size, self.others)
            self.oracle.write(batch * size, (batch + 1) * size)

    def pending(self) -> MemoryRows:
        """Of all nodes; garbage where no mail is."""
        shape, oracle, random = self.oracle.shape, self.oracle, self.random
        mail, elapsed = random.normal(size=(NODES, shape.mails, shape.mail)), random.normal(size=(NODES, shape.mails))
        there, sent = np.zeros((NODES, shape.mails), bool), random.random((NODES, shape.mails)) < 0.5
        for node, box in oracle.boxes.items():
            for slot, (raw, time, source) in enumerate(box, shape.mails - len(box)):
                mail[node, slot], elapsed[node, slot] = raw.numpy(), time - oracle.updated[node]
                there[node, slot], sent[node, slot] = True, source
        memory = torch.stack([oracle.memory[v] for v in range(NODES)])
        return MemoryRows(memory, *(torch.from_numpy(part) for part in (mail, there, elapsed, sent)))

    def roots(self) -> list[tuple[int, float]]:
        """Sources, destinations, then the others event by event; with their times."""
        oracle, events = self.oracle, range(self.first, self.last)
        nodes = [*oracle.src[self.first : self.last], *oracle.dst[self.first : self.last], *self.others.ravel().tolist()]
        return list(zip(nodes, [oracle.t[e] for e in (*events, *events, *np.repeat(events, 2))], strict=True))

    def trees(self) -> list[Tree]:
        """A target for every filled slot; garbage in the others."""
        windows = [self.oracle.windows(time, self.first) for _, time in self.roots()]
        return [self._tree([window[number] for window in windows]) for number in range(len(windows[0]))]

    def _tree(self, spans: list[tuple[int, int]]) -> Tree:
        oracle, random = self.oracle, self.random
        level = [(node, time, before, since) for (node, time), (since, before) in zip(self.roots(), spans, strict=True)]
        levels, hops = [torch.tensor([node for node, *_ in level])], []
        for fanout in FANOUTS[: oracle.shape.layers]:
            size = (len(level), fanout)
            slot, there = np.zeros(size, np.int64), np.zeros(size, bool)
            elapsed, edge = random.normal(size=size), random.normal(size=(*size, EDGE))
            after = []
            for row, (node, time, before, since) in enumerate(level):
                for place, (other, e) in enumerate(oracle.neighbours(node, before, since, fanout)):
                    slot[row, place], there[row, place], elapsed[row, place] = len(after), True, time - oracle.t[e]
                    edge[row, place] = 0 if self.edge is None else self.edge[e]
                    after.append((other, oracle.t[e], e, since))
            level = after or [(0, 0.0, 0, 0)]
            parts = (torch.from_numpy(part) for part in (slot, there, elapsed))
            hops.append(Hop(*parts, None if self.edge is None else torch.from_numpy(edge)))
            levels.append(torch.tensor([node for node, *_ in level]))
        return Tree(levels, hops)

    def waited(self) -> Tensor:
        return torch.tensor([time - self.oracle.heard(node) for node, time in self.roots()]).double()


def through(model: StreamModel, rows: Tensor, trees: list[Tree], waited: Tensor) -> Tensor:
    """Embeddings of the roots."""
    belows = [[rows[level] for level in tree.levels] for tree in trees]
    for number in range(model.shape.layers):
        belows = [model.layer(number, below, tree) for below, tree in zip(belows, trees, strict=True)]
    return model.embed([below[0] for below in belows], waited)


def logits_of(model: StreamModel, batch: RandomBatch) -> Tensor:
    """[B, 3]: of destinations and the two others."""
    features = None if batch.features is None else torch.from_numpy(batch.features)
    rows = model.inputs(features, model.update(batch.pending()) if model.shape.memory else None)
    result, count = through(model, rows, batch.trees(), batch.waited()), batch.last - batch.first
    return model.score(result[:count], torch.cat([result[count : 2 * count, None], result[2 * count :].view(count, 2, -1)], 1))
