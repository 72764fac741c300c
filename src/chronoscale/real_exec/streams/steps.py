"""Steps: what is done to a batch, one step after another, whether a schedule or an evaluation asks for it."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import torch
from torch import Tensor

from chronoscale.batching.streams.caching.resident_rows import ResidentRows
from chronoscale.batching.streams.prepared import replace_absent
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.neighbourhood import Neighbourhood, Sampling
from chronoscale.datasets.arrays import Int32, Numbers
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.transfers import record_use, to_device
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.feature_cache import FeatureCache
from chronoscale.real_exec.streams.material import StreamMaterial, rows
from chronoscale.real_exec.streams.memory_rows import MemoryRows
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.state import NodeState


class Steps:
    """The steps by which one rank samples and computes its batches of events, whether a schedule or an evaluation asks for them."""

    def __init__(
        self, material: StreamMaterial, model: StreamModel, state: NodeState, sampling: Sampling, residents: ResidentRows, context: Context
    ) -> None:
        self.material = material
        self.model = model
        self.state = state
        self.residents = residents
        self.cache = FeatureCache(material.node_features, material.edge_features, residents.cached, context.device)
        self._sampling, self._device = sampling, context.device
        self.threads = context.settings.threads  # that sample; 0: those that are bound
        self._classifies = material.data.protocol.task == "node"
        self._pairwise = material.shape.pairwise

    def find(self, source: IndexedStream, part: range, others: Int32, before: int, seed: int) -> tuple[Numbers, Neighbourhood]:
        """Sample the neighbourhood of events of a stream, on this rank; return times of its roots (nodes to embed) [R], and the
        neighbourhood.

        part: the events; others: their negatives [B, k]; no event from `before` on is seen.
        """
        roots = source.roots(part, replace_absent(others), before, self._sampling.sources)
        return roots[2], neighbourhood.sample(source.tcsr, source.stream.t, roots, self._sampling, seed, self.threads)

    def sample(self, source: IndexedStream, part: range, others: Int32, before: int, seed: int) -> Batch:
        """Sample this rank's next batch of events, with the neighbourhoods of its roots.

        part: the events of `source`; others: their negatives, int32 [B, k]; no event from `before` on is seen; seed: of uniform sampling.
        """
        times, sampled = self.find(source, part, others, before, seed)
        return Batch.of(source, part, others, times, sampled, self.residents.load(sampled, source))

    def gather(self, batch: Batch) -> None:
        """Gather, in host memory, features of the batch's nodes and edges that this rank's device does not have."""
        batch.features = rows(self.material.node_features, batch.loads.nodes.send)
        batch.edges = rows(self.material.edge_features, batch.loads.edges.send)

    def send(self, batch: Batch) -> None:
        """Copy the batch's features and indices to this rank's device."""
        batch.send(self._device)
        if self._pairwise and not self._sampling.unique:
            batch.send_names(self._device)

    def expand(self, batch: Batch) -> None:
        """Put the batch's features where the model reads them, from the device's cache and from what was sent; the cache keeps some of
        these.
        """
        batch.expand(self.cache)

    def read(self, batch: Batch) -> None:
        """Read memory and mailbox of the batch's nodes from this rank's tables."""
        batch.memory_rows, batch.last_update = self.state.read(batch.nodes)

    def send_memory(self, batch: Batch) -> None:
        """Copy the batch's rows of node memory and mailbox to this rank's device."""
        batch.send_memory(self._device)

    def update(self, batch: Batch) -> None:
        """Apply pending messages to the memory of the batch's nodes, on this rank's device."""
        assert batch.memory_rows is not None
        record_use(*batch.memory_rows)
        batch.memory = self.model.update(batch.memory_rows)

    def layer(self, batch: Batch, number: int) -> None:
        """Apply one layer of the model to the batch's sampled neighbourhood, all levels of all trees."""
        self._begin(batch)
        batch.below = [self.model.layer(number, below, tree) for below, tree in zip(batch.below, batch.trees, strict=True)]

    def logits(self, batch: Batch) -> Tensor:
        """Return logits of each event of the batch, float32 [B, 1 + k], of its destination and its negatives; or [B, C], of its source's
        label.

        Logits of negatives that do not exist have any value.
        """
        self._begin(batch)
        events, level = len(batch.events), batch.trees[0].levels[0]
        waited = torch.zeros(len(level), device=self._device)
        if batch.last_update is not None:
            record_use(batch.last_update)
            waited = (batch.times - batch.last_update[level]).float()
        embedded = self.model.embed([below[0] for below in batch.below], waited)
        src, rest = embedded[:events], embedded[events:]
        if self._classifies:
            return self.model.classify(src)
        negative = rest[events:].view(events, -1, rest.shape[1])
        return self.model.score(src, torch.cat([rest[:events, None], negative], 1))

    def forward(self, batch: Batch) -> Tensor:
        """Run all steps of a sampled batch, from gathering to `logits`, as evaluation does."""
        self.gather(batch)
        self.send(batch)
        if self.material.shape.memory:
            self.read(batch)
            self.send_memory(batch)
            self.update(batch)
        for number in range(self.material.shape.layers):
            self.layer(batch, number)
        return self.logits(batch)

    def fresh(self, nodes: Tensor) -> Tensor:
        """Return the memory of nodes int64 [U] with their pending messages applied, in host memory: float32 [U, H].

        The tables stay as they are.
        """
        pending, _ = self.state.read(nodes)
        return self.model.update(MemoryRows(*(to_device(part, self._device) for part in pending))).cpu()

    def for_evaluation(self) -> Steps:
        """Return the steps with which this rank evaluates, whatever a strategy trains with: batches have each node and edge once, and all
        of their rows sent.
        """
        steps = copy(self)
        steps._sampling = replace(self._sampling, unique=True)
        steps.residents = self.residents.without_cache()
        return steps

    def _begin(self, batch: Batch) -> None:
        """Put the rows of every level together, before the first layer."""
        if not batch.below:
            record_use(batch.features, batch.times, *(part for tree in batch.trees for part in (*tree.levels, *(tree.names or ()))))
            hops = [hop for tree in batch.trees for hop in tree.hops]
            record_use(*(part for hop in hops for part in (hop.slot, hop.there, hop.elapsed, hop.edge, hop.weight)))
            nodes = self.model.inputs(batch.features, batch.memory)
            batch.below = [[nodes[level] for level in tree.levels] for tree in batch.trees]
