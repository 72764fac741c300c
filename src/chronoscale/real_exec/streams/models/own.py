"""OwnModel: a model of event streams that lies in a user's file."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from chronoscale.errors import UserError
from chronoscale.real_exec.streams.memory_rows import MemoryRows
from chronoscale.real_exec.streams.models.base import StreamModel
from chronoscale.real_exec.streams.tree import Hop, Tree
from chronoscale.strategies.plugins import file_of, title_of
from chronoscale.strategies.streams.kinds.base import StreamShape
from chronoscale.strategies.streams.kinds.own import OwnKind, errors_of


class Neighbours(NamedTuple):
    """Sampled neighbourhoods of T nodes as a user's model reads them: K slots a node, each an earlier event of it, or empty.

    rows float32 [T, K, D]: of the event's other node; events float32 [T, K, E]: the event's features (E is 0 where there are none); elapsed
    float32 [T, K]: time since the event; there bool [T, K]: the slot is filled; weight float32 [T, K]: how many events a slot stands for,
    0 for an empty one. What an empty slot holds is finite, and means nothing.
    """

    rows: Tensor
    events: Tensor
    elapsed: Tensor
    there: Tensor
    weight: Tensor

    @classmethod
    def of(cls, source: Tensor, hop: Hop) -> Neighbours:
        """Return the neighbours that a hop of a sampled tree joins to its targets. source [T', D]: rows of the next level's nodes."""
        slots = hop.slot.shape
        rows = source.index_select(0, hop.slot.flatten()).view(*slots, -1)
        events = source.new_zeros(*slots, 0) if hop.edge is None else hop.edge
        return cls(rows, events, hop.elapsed, hop.there, hop.there.float() if hop.weight is None else hop.weight * hop.there)


class OwnModel(StreamModel):
    """Model of event streams in a user's file: a module that is made of the model's sizes (`StreamShape`), with some of three methods.

    ===========================================  ========================================================================================
    forward(rows, neighbours, layer) -> [T, H]   a layer over sampled neighbours (`Neighbours`): rows [T, D] of T nodes to those of the
                                                 layer above; D is `shape.width(layer)`. Without it the model reads no neighbours
    update(memory, message, elapsed, sent)       the new memory [U, H] of nodes, from their memory [U, H] and last message [U, W]: memories
    -> [U, H]                                    of both ends of an event as they were after it, the node's own first, then its features;
                                                 elapsed [U]: its time less that of the memory's last update; sent bool [U]: the node was
                                                 its source. Without it nodes have no memory
    embed(rows, waited) -> [R, H]                what is predicted with, of roots' rows [R, H] after the last layer; waited [R]: time since
                                                 their memory's last update. Without it these rows are
    ===========================================  ========================================================================================

    A node without messages keeps its memory bit for bit. The class is tried on a few rows when it is made. Raises UserError for one that
    does not return float32 of these shapes, or values or gradients that are not finite.
    """

    def __init__(self, shape: StreamShape) -> None:
        super().__init__(shape)
        self.own = OwnKind.load(shape.name).module(shape)
        with torch.enable_grad():
            self._try()

    def update(self, pending: MemoryRows) -> Tensor:
        there, memory = pending.there[:, :1], pending.memory
        message, elapsed, sent = (part[:, 0] for part in (pending.mail, pending.elapsed, pending.sent))
        return torch.where(there, self._called("update", len(memory), memory, message, elapsed, sent), memory)

    def mail(self, own: Tensor, other: Tensor, edge: Tensor | None) -> Tensor:
        """Return the raw messages [s_own, s_other, e] that events leave for their nodes: both memories beside the edge's features."""
        return torch.cat([own, other] if edge is None or not self.shape.edge else [own, other, edge], 1)

    def layer(self, number: int, below: list[Tensor], tree: Tree) -> list[Tensor]:
        levels = zip(below[:-1], below[1:], tree.hops, strict=False)
        return [self._called("forward", len(target), target, Neighbours.of(source, hop), number) for target, source, hop in levels]

    def embed(self, top: list[Tensor], waited: Tensor) -> Tensor:
        return self._called("embed", len(waited), top[0], waited) if hasattr(self.own, "embed") else top[0]

    def _called(self, method: str, rows: int, *arguments: object) -> Tensor:
        """Return what a method of the user's module makes of its arguments, which has to be [rows, hidden]. Raises UserError else."""
        result = self.own(*arguments) if method == "forward" else getattr(self.own, method)(*arguments)
        shape = [rows, self.shape.hidden]
        if not isinstance(result, Tensor) or list(result.shape) != shape or result.dtype != torch.float32:
            returned = f"{result.dtype} {list(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
            raise self._error(f"{method} returned {returned}, expected torch.float32 {shape}, [rows, hidden]")
        return result

    def _error(self, what: str) -> UserError:
        name = self.shape.name
        return UserError(f"{file_of(name)}: {title_of(name)}.{what}")

    def _try(self) -> None:
        """Call each method on a few rows as batches have them: nodes without neighbours, with some empty slots, and with none."""
        shape, slots = self.shape, 2
        there = torch.arange(slots) < torch.arange(slots + 1)[:, None]
        nodes = len(there)
        self.own.eval()
        for name, parameter in self.own.named_parameters():
            if parameter.dtype != torch.float32:
                raise self._error(f"{name} is {parameter.dtype}, expected parameters of torch.float32")
        for layer in range(shape.layers):
            rows, width = torch.randn(nodes, shape.width(layer)), shape.width(layer)
            near = Neighbours(
                torch.randn(nodes, slots, width), torch.randn(nodes, slots, shape.edge), torch.rand(there.shape), there, there.float()
            )
            self._try_method("forward", nodes, rows, near, layer)
        if shape.memory:
            message = torch.randn(nodes, shape.mail)
            self._try_method("update", nodes, torch.zeros(nodes, shape.memory), message, torch.rand(nodes), torch.arange(nodes) > 0)
        if hasattr(self.own, "embed"):
            self._try_method("embed", nodes, torch.randn(nodes, shape.hidden if shape.layers else shape.inputs), torch.rand(nodes))
        self.own.train()

    def _try_method(self, method: str, rows: int, *arguments: object) -> None:
        """Call a method of the user's module, forth and back. Raises UserError for what it raises, and for what is not finite."""
        with errors_of(self.shape.name, method):
            result = self._called(method, rows, *arguments)
            if not result.isfinite().all():
                raise self._error(
                    f"{method} returned values that are not finite, such as where a node has no neighbours: its slots are empty"
                )
            if result.requires_grad:
                result.sum().backward()
        for name, parameter in self.own.named_parameters():
            if parameter.grad is not None and not parameter.grad.isfinite().all():
                raise self._error(f"{method}: the gradient of {name} is not finite, such as where a node has no neighbours")
        self.own.zero_grad()
