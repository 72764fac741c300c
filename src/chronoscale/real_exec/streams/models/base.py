"""What every model of event streams is: parts that lanes run apart."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from chronoscale.real_exec.streams.models.decoder import LinkDecoder, NodeDecoder
from chronoscale.real_exec.streams.models.smoothing import Smoothing
from chronoscale.real_exec.streams.pending import Pending
from chronoscale.real_exec.streams.tree import Tree
from chronoscale.strategies.streams.feeding import Operators
from chronoscale.strategies.streams.models import StreamShape


class StreamModel(nn.Module):
    """A model in the order of its parts: update, inputs, layer by layer, embed, then score or classify; mail for the next batches.

    A batch has U nodes, R roots, B events. H is the width of memory and of embeddings, W of mails. operators: those of layers, as a
    `Feeding` says; a model has them if its kind does.
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
        """Mix what is expected of shared nodes into their memory; for strategies that do."""
        self.smoothing = Smoothing()

    def standardise(self, mean: float, deviation: float) -> None:
        """Tell the mean and the deviation of the time between two events of a node, in the data trained on; most models do not ask."""

    def update(self, pending: Pending) -> Tensor:
        """Memories with their mails applied, [U, H]; a node without mail keeps its memory bit for bit."""
        raise NotImplementedError(f"{self.shape.name} has no memory")

    def mail(self, own: Tensor, other: Tensor, edge: Tensor | None) -> Tensor:
        """Raw mails [E, W] for nodes of memory `own` [E, H] on events with nodes of memory `other` and features `edge` [E, De]."""
        raise NotImplementedError(f"{self.shape.name} has no memory")

    def inputs(self, features: Tensor | None, memory: Tensor | None) -> Tensor:
        """Rows [U, D] that the first layer reads: the features [U, F], or the memory [U, H] plus what is made of the features."""
        if memory is None:
            assert features is not None
            return features
        return memory if self.features is None or features is None else memory + self.features(features)

    def layer(self, number: int, below: list[Tensor], tree: Tree) -> list[Tensor]:
        """Layer `number` (0-based): rows [T_k, D] of the levels 0 … n to rows [T_k, H] of the levels 0 … n - 1."""
        raise NotImplementedError(f"{self.shape.name} has no layers")

    def embed(self, top: list[Tensor], waited: Tensor) -> Tensor:
        """Embeddings [R, H] from the roots' rows [R, D] in each tree and the time [R] since the memory's last update, mails applied."""
        return top[0]

    def score(self, src: Tensor, dst: Tensor) -> Tensor:
        """Logits [B, n] of links from src [B, H] to each of dst [B, n, H]."""
        return cast(Tensor, self.links(src, dst))

    def classify(self, src: Tensor) -> Tensor:
        """Logits [B, C] of the classes of src [B, H]."""
        if self.classes is None:
            raise NotImplementedError(f"this {self.shape.name} has no classes")
        return cast(Tensor, self.classes(src))
