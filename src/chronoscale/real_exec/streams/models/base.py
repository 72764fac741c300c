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
    """w relu(W_s h_s + W_d h_d + b) + c: the two-layer perceptron on [h_s, h_d] of TGAT's, TGN's and TGL's codes."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.source = nn.Linear(hidden, hidden, bias=False)
        self.destination = nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1)

    def forward(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return logits [B, n] of src [B, H] with each of dst [B, n, H]; a source's part is computed once."""
        return cast(Tensor, self.score((self.destination(dst) + self.source(src)[:, None]).relu())).squeeze(2)


class NodeDecoder(nn.Module):
    """W_2 relu(W_1 h + b_1) + b_2: a node's class from its embedding (TGN §4, TGL)."""

    def __init__(self, hidden: int, classes: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(hidden, hidden), nn.Linear(hidden, classes)

    def forward(self, rows: Tensor) -> Tensor:
        """Return logits [B, classes] of rows [B, H]."""
        return cast(Tensor, self.outer(self.inner(rows).relu()))


class Smoothing(nn.Module):
    """gamma * updated + (1 - gamma) * expected (MemShare §3.4, eq. 21), gamma a trained number between 0 and 1.

    The paper does not say where it begins; from one half it takes many epochs to leave.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((1,), log(BEGIN / (1 - BEGIN))))  # gamma is its sigmoid

    def forward(self, updated: Tensor, expected: Tensor) -> Tensor:
        """Mix memory [n, H] as a rank has updated it with memory as it is expected to be, [n, H]."""
        return torch.lerp(expected, updated, self.weight.sigmoid())


class StreamModel(nn.Module):
    """A model of event streams, in the order of its parts: update, inputs, layer by layer, embed, then score or classify; mail for later
    batches.

    A batch has U nodes, R roots, B events. H is the width of memory and of embeddings, W that of messages (mail). operators: how layers
    attend, see `Feeding`; a model has them if its kind does.
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
        """Mix what is expected of shared nodes into their memory from now on."""
        self.smoothing = Smoothing()

    def standardise(self, mean: float, deviation: float) -> None:
        """Take mean and deviation of the time between two events of a node in the training data; most models ignore them."""

    def update(self, pending: MemoryRows) -> Tensor:
        """Return memories with their messages applied, [U, H]; a node without messages keeps its memory bit for bit."""
        raise NotImplementedError(f"{self.shape.name} has no memory")

    def mail(self, own: Tensor, other: Tensor, edge: Tensor | None) -> Tensor:
        """Return raw messages [E, W] for nodes of memory `own` [E, H], on events with nodes of memory `other` and features `edge`
        [E, De]."""
        raise NotImplementedError(f"{self.shape.name} has no memory")

    def inputs(self, features: Tensor | None, memory: Tensor | None) -> Tensor:
        """Return rows [U, D] that the first layer reads: features [U, F], or memory [U, H] plus what is made of the features."""
        if memory is None:
            assert features is not None
            return features
        return memory if self.features is None or features is None else memory + self.features(features)

    def layer(self, number: int, below: list[Tensor], tree: Tree) -> list[Tensor]:
        """Apply layer `number` (0-based): rows [T_k, D] of the levels 0 … n to rows [T_k, H] of the levels 0 … n - 1."""
        raise NotImplementedError(f"{self.shape.name} has no layers")

    def embed(self, top: list[Tensor], waited: Tensor) -> Tensor:
        """Return embeddings [R, H] from the roots' rows [R, D] in each tree, and the time [R] since the memory's last update."""
        return top[0]

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        """Return logits [B, n] of links from src [B, H] to each of dst [B, n, H]."""
        return cast(Tensor, self.links(src, dst))

    def classify(self, src: Tensor) -> Tensor:
        """Return logits [B, C] of the classes of src [B, H]."""
        if self.classes is None:
            raise NotImplementedError(f"this {self.shape.name} has no classes")
        return cast(Tensor, self.classes(src))
