"""StreamModel: the base of all models of event streams, in parts that lanes run separately; with its decoders and smoothing."""

from __future__ import annotations

from math import log
from typing import cast

import torch
from torch import Tensor, nn

from chronoscale.real_exec.streams.memory_rows import MemoryRows
from chronoscale.real_exec.streams.tree import Tree
from chronoscale.strategies.streams.feeding import Operators
from chronoscale.strategies.streams.models import StreamShape

BEGIN = 0.9  # of gamma


class LinkDecoder(nn.Module):
    """Decoder of a model of event streams that scores links: w relu(W_s h_s + W_d h_d + b) + c on embeddings.

    It is the two-layer perceptron on [h_s, h_d] of TGAT's, TGN's and TGL's codes.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.source = nn.Linear(hidden, hidden, bias=False)
        self.destination = nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1)

    def forward(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return logits [B, n] of links from embeddings src [B, H] to each of dst [B, n, H]; a source's part is computed once."""
        return cast(Tensor, self.score((self.destination(dst) + self.source(src)[:, None]).relu())).squeeze(2)


class NodeDecoder(nn.Module):
    """Decoder of a model of event streams that predicts a node's class from its embedding: W_2 relu(W_1 h + b_1) + b_2 (TGN §4, TGL)."""

    def __init__(self, hidden: int, classes: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(hidden, hidden), nn.Linear(hidden, classes)

    def forward(self, rows: Tensor) -> Tensor:
        """Return logits [B, classes] of nodes' classes from their embeddings [B, H]."""
        return cast(Tensor, self.outer(self.inner(rows).relu()))


class Smoothing(nn.Module):
    """Mix of the memory of nodes that ranks share with what is expected of it (MemShare §3.4): gamma * updated + (1 - gamma) * expected.

    gamma is a trained number between 0 and 1 (eq. 21). The paper does not say where it begins; from one half it takes many epochs to leave.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((1,), log(BEGIN / (1 - BEGIN))))  # gamma is its sigmoid

    def forward(self, updated: Tensor, expected: Tensor) -> Tensor:
        """Return shared nodes' memory [n, H]: as this rank has updated it, mixed with memory as it is expected to be, [n, H]."""
        return torch.lerp(expected, updated, self.weight.sigmoid())


class StreamModel(nn.Module):
    """Base of the models of event streams, in the order of its parts: update, inputs, layer by layer, embed, then score or classify; mail
    for later batches.

    A batch has U nodes, R roots (nodes to embed), B events. H is the width of memory and of embeddings, W that of messages (mail).
    operators: how layers attend: '' by one fused kernel, "edges" or "nodes" edge by edge; a model has them if its kind does.
    """

    operators: Operators = ""

    def __init__(self, shape: StreamShape) -> None:
        super().__init__()
        self.shape = shape
        self.features = nn.Linear(shape.features, shape.hidden) if shape.memory and shape.features else None
        self.links = LinkDecoder(shape.hidden)
        self.classes = NodeDecoder(shape.hidden, shape.outputs) if shape.outputs else None
        self.smoothing: Smoothing | None = None

    def smooth(self) -> None:
        """Mix, from now on, the memory of nodes that ranks share with what is expected of it (MemShare eq. 21)."""
        self.smoothing = Smoothing()

    def standardise(self, mean: float, deviation: float) -> None:
        """Tell the model mean and deviation of the time between two events of a node in the training data; most models ignore them."""

    def update(self, pending: MemoryRows) -> Tensor:
        """Return the nodes' memories with their pending messages applied, [U, H]; a node without messages keeps its memory bit for bit."""
        raise NotImplementedError(f"{self.shape.name} has no memory")

    def mail(self, own: Tensor, other: Tensor, edge: Tensor | None) -> Tensor:
        """Return the messages [E, W] that events leave for later batches, for one node of each event.

        own, other: memory [E, H] of that node and of the event's other one; edge: features [E, De] or None.
        """
        raise NotImplementedError(f"{self.shape.name} has no memory")

    def inputs(self, features: Tensor | None, memory: Tensor | None) -> Tensor:
        """Return the batch's rows [U, D] that the first layer reads: node features [U, F], or memory [U, H] plus what is made of the
        features.
        """
        if memory is None:
            assert features is not None
            return features
        return memory if self.features is None or features is None else memory + self.features(features)

    def layer(self, number: int, below: list[Tensor], tree: Tree) -> list[Tensor]:
        """Apply layer `number` (from 0) to a sampled neighbourhood: rows [T_k, D] of its levels 0 … n to rows [T_k, H] of the levels 0 … n
        - 1.
        """
        raise NotImplementedError(f"{self.shape.name} has no layers")

    def embed(self, top: list[Tensor], waited: Tensor) -> Tensor:
        """Return embeddings [R, H] of a batch's roots (the nodes that are predicted with).

        top: their rows [R, D] after the last layer, one tensor for each tree. waited: time [R] since their memory's last update.
        """
        return top[0]

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return logits [B, n] of links from embeddings src [B, H] to each of dst [B, n, H]."""
        return cast(Tensor, self.links(src, dst))

    def classify(self, src: Tensor) -> Tensor:
        """Return logits [B, C] of nodes' classes from their embeddings src [B, H]."""
        if self.classes is None:
            raise NotImplementedError(f"this {self.shape.name} has no classes")
        return cast(Tensor, self.classes(src))
