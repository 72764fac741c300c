"""An oracle: training on sliding windows in float64 on dense matrices, one process; written from FlareDTDG §3.2 and Algorithm 1.

Nodes go by their ids alone: what a snapshot keeps is a set, every hidden state stands in a dictionary under its node.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from dense_trainer import RATE, recur
from numpy.typing import NDArray
from torch import Tensor

from chronoscale.batching.snapshots.chunks import Chunks
from chronoscale.batching.snapshots.survival import EpochDraws, level_of, rank_of
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.strategies.workload import Hyper

States = dict[int, list[Tensor]]  # a node's, or under -1 a layer's weights


@dataclass(frozen=True)
class Dense:
    """A snapshot: normalised adjacency [N, N], input features [N, F], what its nodes are to be predicted as."""

    normal: Tensor
    features: Tensor
    degrees: Tensor


def dense(sequence: SnapshotSequence, features: Tensor, task: str) -> list[Dense]:
    """`features` [N, F] of every snapshot, of the task `degrees` made here."""
    components = []
    for snapshot in sequence:
        a = torch.eye(sequence.num_nodes, dtype=torch.float64)
        a[snapshot.dst.astype(int), snapshot.src.astype(int)] = 1
        degrees = torch.log1p(torch.stack([a.sum(1), a.sum(0)], 1) - 1)
        normal = a / a.sum(1, keepdim=True).sqrt() / a.sum(0, keepdim=True).sqrt()
        components.append(Dense(normal, degrees if task == "degrees" else features.double(), degrees))
    return components


class WindowOracle:
    """A copy of a model's parameters, trained on windows. published: the published code's loss, of `ranks` ranks. inherits: states go on
    from window to window. pairs: of the task `links`, by snapshot and epoch: sources and destinations, edges before as many others."""

    def __init__(
        self,
        sequence: SnapshotSequence,
        features: Tensor,
        chunks: Chunks,
        model: SnapshotModel,
        hyper: Hyper,
        ranks: int = 1,
        published: bool = False,
        inherits: bool = True,
        pairs: Callable[[int, int], NDArray[np.int32]] | None = None,
    ) -> None:
        self.pairs, self.number = pairs, 0
        self.inherits = inherits
        self.model, self.shape, self.hyper, self.chunks = deepcopy(model).double(), model.shape, hyper, chunks
        self.graphs = dense(sequence, features, hyper.task)
        self.ranks, self.published = ranks, published
        self.classes = None if sequence.classes is None else torch.from_numpy(sequence.classes.astype(int))
        self.owner = rank_of(chunks.count, ranks)[chunks.assignment]
        self.optimizer = torch.optim.SGD(self.model.parameters(), RATE)

    def epoch(self, number: int) -> list[float]:
        """Losses of its windows."""
        self.number = number
        decay, drawn = self.hyper.recency.decay, EpochDraws(self.hyper.seed, number, self.published)
        depth = drawn.depth(self.chunks.count, decay, self.ranks)[self.chunks.assignment]
        sizes = decay.kept_chunks(self.chunks.count)
        ages = [age for age in reversed(range(decay.window)) if sizes[age]]  # the oldest first
        retained = [np.flatnonzero(depth >= level_of(decay, self.chunks.count)[age]).tolist() for age in ages]
        losses = []
        for segment in drawn.steps(len(self.graphs) - self.hyper.horizon, decay.window, self.hyper.recency.apart):
            memory: dict[tuple[int, int], States] = {}
            for newest in segment:
                loss, memory = self.window([newest - age for age in ages], retained, memory if self.inherits else {})
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
        return losses

    def window(
        self, snapshots: list[int], retained: list[list[int]], memory: dict[tuple[int, int], States]
    ) -> tuple[Tensor, dict[tuple[int, int], States]]:
        """Its loss, and the states that the next one inherits, by place and layer. `memory`: those of the window before."""
        last: list[States] = [{} for _ in self.model.blocks]
        left: dict[tuple[int, int], States] = {}
        outputs = []
        for place, (t, nodes) in enumerate(zip(snapshots, retained, strict=True)):
            normal, x = self.graphs[t].normal[nodes][:, nodes], self.graphs[t].features[nodes]
            for layer, block in enumerate(self.model.blocks):
                before = memory.get((place, layer), {}) | last[layer]  # this window's own states, else those of the one before
                if self.shape.evolves_weights:
                    x, after = self._evolved(block, normal, x, before)
                else:
                    x, after = self._recurred(block, normal, x, before, nodes)
                left[place, layer] = {node: [part.detach() for part in state] for node, state in after.items()}
                last[layer] = after
            outputs.append(x)
        return self._loss(outputs, snapshots, retained), left

    def _evolved(self, block, normal: Tensor, x: Tensor, before: States) -> tuple[Tensor, States]:
        weights, cell = before.get(-1, [block.initial, torch.zeros_like(block.initial)])
        fed = weights
        if block.scorer is not None:
            score = x @ block.scorer / block.scorer.norm()
            best = torch.argsort(score, descending=True, stable=True)[: self.shape.hidden]
            fed = x[best] * torch.tanh(score[best])[:, None]
        weights, cell = recur(block.step.cell, fed, (weights, cell))
        return torch.relu(normal @ x @ weights.T), {-1: [weights, cell]}

    def _recurred(self, block, normal: Tensor, x: Tensor, before: States, nodes: list[int]) -> tuple[Tensor, States]:
        y = torch.relu(normal @ x @ block.dense.weight.T + block.dense.bias)
        if block.step is None or not nodes:
            return y, {}
        cells, zero = [block.step.cell, *block.step.above], y.new_zeros(self.shape.hidden)
        after: States = {node: [] for node in nodes}
        for i, cell in enumerate(cells):
            h, c = (torch.stack([before[node][2 * i + part] if node in before else zero for node in nodes]) for part in (0, 1))
            h, c = recur(cell, y, (h, c))
            for row, node in enumerate(nodes):
                after[node] += [h[row], c[row]]
            y = h
        return y, after

    def _loss(self, outputs: list[Tensor], snapshots: list[int], retained: list[list[int]]) -> Tensor:
        if self.pairs is not None:
            predicting = range(len(retained)) if self.shape.evolves_weights else [len(retained) - 1]
            terms = [self._pair_errors(outputs[place], snapshots[place], retained[place]) for place in predicting]
            return torch.cat(terms).mean()
        errors = []  # of every predicted number, with its node's rank and its place
        for place, (output, t, nodes) in enumerate(zip(outputs, snapshots, retained, strict=True)):
            if self.published or self.shape.evolves_weights or place + 1 == len(retained):
                terms, counts = self._errors(self.model.readout(output), t + self.hyper.horizon, nodes)
                errors += [(place, rank, terms[counts & torch.tensor(self.owner[nodes] == rank)]) for rank in range(self.ranks)]
        if not self.published:
            return torch.cat([error.flatten() for _, _, error in errors]).mean()
        shares = np.bincount(self.owner, minlength=self.ranks) / len(self.owner)
        return sum(error.mean() * shares[rank] / self.ranks / len(retained) for _, rank, error in errors if error.numel())

    def _pair_errors(self, output: Tensor, t: int, nodes: list[int]) -> Tensor:
        """Cross entropies of edges and their negatives, where all three nodes are retained."""
        assert self.pairs is not None
        row, half, terms = {node: at for at, node in enumerate(nodes)}, self.shape.hidden, []
        predicted = self.model.readout(output)
        source, destination = self.pairs(t + self.hyper.horizon, self.number).tolist()
        edges = len(source) // 2
        for edge in range(edges):
            start, end, other = source[edge], destination[edge], destination[edges + edge]
            if {start, end, other} <= row.keys():
                leaves = predicted[row[start], :half]
                for node, sign in ((end, -1), (other, 1)):
                    terms.append(torch.nn.functional.softplus(sign * leaves @ predicted[row[node], half:] / half**0.5))
        return torch.stack(terms) if terms else output.new_zeros(0)

    def _errors(self, predicted: Tensor, t: int, nodes: list[int]) -> tuple[Tensor, Tensor]:
        """Of every node, and which nodes count."""
        if self.hyper.task == "classes":
            wanted = self.classes[nodes]
            chances = torch.softmax(predicted, 1).log()
            return -chances[torch.arange(len(nodes)), wanted.clamp(min=0)], wanted >= 0
        wanted = self.graphs[t].degrees[nodes][:, : predicted.shape[1]]
        return (predicted - wanted).square(), torch.ones(len(nodes), dtype=torch.bool)
