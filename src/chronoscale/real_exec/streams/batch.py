"""Batch: one rank's events of one iteration: what was sampled around them, and its rows, on the host and then on the device."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from chronoscale.datasets.arrays import Int32, Numbers
from chronoscale.datasets.streams import neighbourhood
from chronoscale.datasets.streams.source import Source
from chronoscale.real_exec.streams.pending import Pending
from chronoscale.real_exec.streams.sending import sent
from chronoscale.real_exec.streams.tree import Hop, Tree


@dataclass(slots=True, eq=False)
class Batch:
    """source: its stream. events: numbers there. others int32 [B, k]: what they are told from, -1 where there is none. found: what the
    sampler says.

    What the rows of a schedule make of it follows as they run. nodes int64 [U]; features, edges: gathered rows; trees: on the device once
    they are sent; times float64 [R] of the roots; pending, heard [U]: of node memory; memory [U, H] with its mails in it; below: of
    every tree, the rows of each level that is left.
    """

    source: Source
    events: range
    others: Int32
    found: neighbourhood.Neighbourhood
    times: Tensor
    nodes: Tensor
    features: Tensor | None = None
    edges: Tensor | None = None
    trees: list[Tree] = field(default_factory=list)
    pending: Pending | None = None
    heard: Tensor | None = None
    memory: Tensor | None = None
    below: list[list[Tensor]] = field(default_factory=list)

    @classmethod
    def of(cls, source: Source, events: range, others: Int32, times: Numbers, found: neighbourhood.Neighbourhood) -> Batch:
        """Of what was sampled; nothing is gathered yet."""
        return cls(source, events, others, found, torch.from_numpy(times).double(), torch.from_numpy(found.nodes).long())

    def send(self, device: torch.device) -> None:
        """Indices and gathered rows to the device."""
        self.features, self.edges = (None if rows is None else sent(rows, device) for rows in (self.features, self.edges))
        self.times = sent(self.times, device)
        self.trees, self.edges = [_tree(tree, self.edges, device) for tree in self.found.trees], None

    def send_pending(self, device: torch.device) -> None:
        """Rows of node memory and mailbox to the device."""
        assert self.pending is not None and self.heard is not None
        self.pending = Pending(*(sent(part, device) for part in self.pending))
        self.heard = sent(self.heard, device)


def _tree(tree: neighbourhood.Tree, edges: Tensor | None, device: torch.device) -> Tree:
    """Edge features stand in slots, as the device reads them: rows that came once are there as often as they are sampled."""
    hops = []
    for hop in tree.hops:
        slot, there, edge, elapsed = (sent(torch.from_numpy(part), device) for part in hop)
        hops.append(Hop(slot, there, elapsed, None if edges is None else _rows(edges, edge)))
    return Tree([sent(torch.from_numpy(level), device) for level in tree.levels], hops)


def _rows(edges: Tensor, index: Tensor) -> Tensor:
    """[T, K, D]; zeros where no edge was sampled at all."""
    if not len(edges):
        return edges.new_zeros(*index.shape, edges.shape[1])
    return edges[index]
