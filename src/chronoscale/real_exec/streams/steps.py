"""Steps: what is done to a batch, one after another, whether a schedule says when or an evaluation does."""

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
from chronoscale.real_exec.execution.lanes import uses
from chronoscale.real_exec.execution.sending import sent
from chronoscale.real_exec.streams.batch import Batch
from chronoscale.real_exec.streams.cache import Cache
from chronoscale.real_exec.streams.material import Material, rows
from chronoscale.real_exec.streams.models.model import StreamModel
from chronoscale.real_exec.streams.pending import Pending
from chronoscale.real_exec.streams.state import NodeState


class Steps:
    """Of one rank."""

    def __init__(
        self, material: Material, model: StreamModel, state: NodeState, sampling: Sampling, residents: ResidentRows, context: Context
    ) -> None:
        self.material, self.model, self.state, self.residents = material, model, state, residents
        self.cache = Cache(material, residents.cached, context.device)
        self._sampling, self._device = sampling, context.device
        self.threads = context.settings.threads  # that sample; 0: those that are bound
        self._classifies = material.data.protocol.task == "node"

    def find(self, source: IndexedStream, part: range, others: Int32, before: int, seed: int) -> tuple[Numbers, Neighbourhood]:
        """What the sampler finds for events `part` of a source, told from `others` [B, k], that see no event from `before` on; and times
        of its roots [R]."""
        roots = source.roots(part, replace_absent(others), before, self._sampling.sources)
        return roots[2], neighbourhood.sample(source.tcsr, source.stream.t, roots, self._sampling, seed, self.threads)

    def sample(self, source: IndexedStream, part: range, others: Int32, before: int, seed: int) -> Batch:
        """The batch of those events, which is the next one."""
        times, found = self.find(source, part, others, before, seed)
        return Batch.of(source, part, others, times, found, self.residents.load(found, source))

    def gather(self, batch: Batch) -> None:
        """Features of its nodes and edges that the device does not hold, in the host's memory."""
        batch.features = rows(self.material.node_features, batch.loads.nodes.send)
        batch.edges = rows(self.material.edge_features, batch.loads.edges.send)

    def send(self, batch: Batch) -> None:
        """To the device, with the indices."""
        batch.send(self._device)

    def expand(self, batch: Batch) -> None:
        """Features to where the model reads them, from the cache and from what was sent, some of which the cache keeps."""
        batch.expand(self.cache)

    def read(self, batch: Batch) -> None:
        """Memory and mailbox of its nodes."""
        batch.pending, batch.heard = self.state.read(batch.nodes)

    def send_pending(self, batch: Batch) -> None:
        """To the device."""
        batch.send_pending(self._device)

    def update(self, batch: Batch) -> None:
        """Memory with its mails in it."""
        assert batch.pending is not None
        uses(*batch.pending)
        batch.memory = self.model.update(batch.pending)

    def layer(self, batch: Batch, number: int) -> None:
        """One layer, over all levels of all trees."""
        self._begin(batch)
        batch.below = [self.model.layer(number, below, tree) for below, tree in zip(batch.below, batch.trees, strict=True)]

    def logits(self, batch: Batch) -> Tensor:
        """Of each event, float32 [B, 1 + k]: of its destination and of what it is told from, whatever stands where that is nothing; or
        [B, C] of its source's label."""
        self._begin(batch)
        events, level = len(batch.events), batch.trees[0].levels[0]
        waited = torch.zeros(len(level), device=self._device)
        if batch.heard is not None:
            uses(batch.heard)
            waited = (batch.times - batch.heard[level]).float()
        embedded = self.model.embed([below[0] for below in batch.below], waited)
        src, rest = embedded[:events], embedded[events:]
        if self._classifies:
            return self.model.classify(src)
        negative = rest[events:].view(events, -1, rest.shape[1])
        return self.model.score(src, torch.cat([rest[:events, None], negative], 1))

    def forward(self, batch: Batch) -> Tensor:
        """All of it, from gathering to `logits`."""
        self.gather(batch)
        self.send(batch)
        if self.material.shape.memory:
            self.read(batch)
            self.send_pending(batch)
            self.update(batch)
        for number in range(self.material.shape.layers):
            self.layer(batch, number)
        return self.logits(batch)

    def fresh(self, nodes: Tensor) -> Tensor:
        """Memory of nodes int64 [U] with their mails in it, in the host's memory: float32 [U, H]."""
        pending, _ = self.state.read(nodes)
        return self.model.update(Pending(*(sent(part, self._device) for part in pending))).cpu()

    def merged(self) -> Steps:
        """The same, of batches that have each node and edge once, and all of their rows sent: of what is evaluated, whatever a strategy
        trains with."""
        steps = copy(self)
        steps._sampling = replace(self._sampling, unique=True)
        steps.residents = self.residents.without_cache()
        return steps

    def _begin(self, batch: Batch) -> None:
        """Rows of every level, before the first layer."""
        if not batch.below:
            uses(batch.features, batch.times, *(part for tree in batch.trees for part in tree.levels))
            hops = [hop for tree in batch.trees for hop in tree.hops]
            uses(*(part for hop in hops for part in (hop.slot, hop.there, hop.elapsed, hop.edge, hop.weight)))
            nodes = self.model.inputs(batch.features, batch.memory)
            batch.below = [[nodes[level] for level in tree.levels] for tree in batch.trees]
