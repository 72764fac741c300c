"""A TGN assembled from PyTorch Geometric's own parts, as its published example (examples/tgn.py) assembles them, under our protocol.

From the package: TGNMemory with IdentityMessage and LastAggregator, LastNeighborLoader, TransformerConv. As in the example: memory, time
encoding and embedding of 100, ten neighbours, two heads, dropout 0.1 of the attention, Adam; memory and neighbours start anew with every
epoch's training and run on through validation and test; a batch is predicted before any of its events is stored. Unlike it: negatives,
split and figures are those of protocol.py (it takes means over batches), and the best epoch of validation is tested, in the state that it
was left in. Messages cannot have width 0 (TGNMemory drops empty ones): without features they are one column of zeros.

One thing of it is corrected, LastAggregator (`Last`), and one can be chosen, the unit that time is encoded in (`Paced`). The example has
the stream's; TimeEncoder begins with periods of 2π units and more, in seconds quick beside the gaps of most streams.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from chronoscale.datasets.arrays import Float32
from chronoscale.datasets.streams import negatives
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from rivals.protocol import Epoch, Protocol, Questions, Trained

try:
    from torch_geometric.nn import TGNMemory, TransformerConv
    from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, LastNeighborLoader, TimeEncoder
except ModuleNotFoundError as missing:
    raise UserError(f"the TGN of PyTorch Geometric needs its package: pip install torch_geometric ({missing})") from missing

WIDTH, NEIGHBOURS, HEADS, DROPOUT = 100, 10, 2, 0.1


class Events:
    """Those that are trained on, validation's, test's, in this order, as the package's parts take them: int64 ids, whole times from the
    first event on, messages float32 [M, De]. LastNeighborLoader numbers events as they are inserted, thus as they are here."""

    def __init__(self, protocol: Protocol) -> None:
        stream = protocol.stream
        if stream.t.dtype != np.int64:
            raise UserError(f"TGNMemory keeps times as whole numbers, those of {stream.name or 'the stream'} are {stream.t.dtype}")
        order = np.concatenate([protocol.trained, np.r_[protocol.validation.part], np.r_[protocol.test.part]])
        self.src, self.dst = (torch.from_numpy(ends[order]).long() for ends in (stream.src, stream.dst))
        self.t = torch.from_numpy(stream.t[order] - stream.t[0])
        features = np.zeros((1, 1), np.float32).repeat(len(order), 0) if stream.features is None else stream.features[order]
        self.message = torch.from_numpy(features)


class Last(LastAggregator):
    """Zeros for a node without messages. Where torch_scatter is not installed the package's may give it another node's: its scatter_argmax
    marks what is empty by the number of nodes less one, LastAggregator looks for the number of messages (2.6.1 and 2.8.1)."""

    def forward(self, message: Tensor, index: Tensor, t: Tensor, nodes: int) -> Tensor:
        output: Tensor = super().forward(message, index, t, nodes)
        return output.masked_fill_((torch.bincount(index, minlength=nodes) == 0)[:, None], 0)


class Paced(TimeEncoder):
    """The package's encoding of time in units of so many of the stream's."""

    def __init__(self, width: int, unit: float) -> None:
        super().__init__(width)
        self.unit = unit

    def forward(self, t: Tensor) -> Tensor:
        output: Tensor = super().forward(t / self.unit)
        return output


class TGN(nn.Module):
    def __init__(self, events: Events, num_nodes: int, dropout: float, unit: float) -> None:
        super().__init__()
        message = events.message.shape[1]
        self.events = events
        self.memory = TGNMemory(num_nodes, message, WIDTH, WIDTH, IdentityMessage(message, WIDTH, WIDTH), Last())
        self.memory.time_enc = Paced(WIDTH, unit)
        self.neighbours = LastNeighborLoader(num_nodes, NEIGHBOURS)
        self.conv = TransformerConv(WIDTH, WIDTH // HEADS, heads=HEADS, dropout=dropout, edge_dim=message + WIDTH)
        self.lin_src, self.lin_dst, self.lin_final = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.row = torch.empty(num_nodes, dtype=torch.int64)

    def forget(self) -> None:
        self.memory.reset_state()
        self.neighbours.reset_state()

    def forward(self, src: Tensor, dst: Tensor) -> Tensor:
        """Logits [B, n] of src int64 [B] with dst int64 [B, n]."""
        nodes, edges, event = self.neighbours(torch.cat([src, dst.flatten()]).unique())
        self.row[nodes] = torch.arange(len(nodes))
        memory, updated = self.memory(nodes)
        elapsed = self.memory.time_enc((updated[edges[0]] - self.events.t[event]).float())
        output = self.conv(memory, edges, torch.cat([elapsed, self.events.message[event]], dim=1))
        together = self.lin_src(output[self.row[src]])[:, None] + self.lin_dst(output[self.row[dst]])
        logits: Tensor = self.lin_final(together.relu())[..., 0]
        return logits

    def observe(self, batch: slice) -> None:
        src, dst = self.events.src[batch], self.events.dst[batch]
        self.memory.update_state(src, dst, self.events.t[batch], self.events.message[batch])
        self.neighbours.insert(src, dst)


def batches(start: int, stop: int, size: int) -> Iterator[slice]:
    return (slice(first, min(first + size, stop)) for first in range(start, stop, size))


def trained(model: TGN, optimiser: torch.optim.Optimizer, protocol: Protocol, seed: int, epoch: int) -> float:
    """One epoch; its mean loss."""
    dst = protocol.stream.dst[protocol.trained]
    wrong = torch.from_numpy(negatives.training_negatives(dst, protocol.trained, protocol.among, seed=seed, epoch=epoch)).long()
    model.train()
    model.forget()
    total = 0.0
    for batch in batches(0, len(dst), protocol.batch_size):
        optimiser.zero_grad()
        logits = model(model.events.src[batch], torch.cat([model.events.dst[batch, None], wrong[batch]], dim=1))
        truth = torch.zeros_like(logits)
        truth[:, 0] = 1
        loss = 2 * binary_cross_entropy_with_logits(logits, truth)  # the example adds the means of both sides
        model.observe(batch)
        loss.backward()
        optimiser.step()
        model.memory.detach()
        total += loss.item() / 2 * len(logits)
    return total / len(dst)


@torch.no_grad()
def answered(model: TGN, questions: Questions, start: int, size: int) -> Float32:
    """Scores of the candidates; a batch is stored after it was predicted. `start`: where the part begins in the model's events."""
    model.eval()
    candidates = torch.from_numpy(questions.candidates).long().clamp(min=0)  # what is not there does not count
    scores = []
    for batch in batches(0, len(candidates), size):
        here = slice(start + batch.start, start + batch.stop)
        scores.append(model(model.events.src[here], candidates[batch]))
        model.observe(here)
    all_scores: Float32 = torch.cat(scores).numpy()
    return all_scores


def run(
    stream: EventStream,
    *,
    batch_size: int,
    epochs: int,
    learning_rate: float,
    seed: int,
    threads: int,
    ranked: int = 20,
    dropout: float = DROPOUT,
    hidden: float = 0.0,
    unit: float = 1.0,
) -> Trained:
    """Train for `epochs`, and test the best.

    Sets torch's threads and its seed. Raises UserError for times that are not int64, and as Protocol does.

    Args:
        ranked: Mixed negatives of MRR, 0 for none.
        hidden: Share of the nodes that training leaves out.
        unit: What time is encoded in, in the stream's unit.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    protocol = Protocol.of(stream, batch_size, ranked, hidden)
    model = TGN(Events(protocol), stream.num_nodes, dropout, unit)
    optimiser = torch.optim.Adam(model.parameters(), learning_rate)
    start = len(protocol.trained)
    history: list[Epoch] = []
    best, best_model, highest = 0, model, -math.inf
    for epoch in range(epochs):
        begin = time.perf_counter()
        loss = trained(model, optimiser, protocol, seed, epoch)
        middle = time.perf_counter()
        ap = protocol.validation.figures(answered(model, protocol.validation, start, batch_size)).ap
        history.append(Epoch(loss, middle - begin, time.perf_counter() - middle, ap))
        if ap > highest:
            best, best_model, highest = epoch, copy.deepcopy(model), ap
    scores = answered(best_model, protocol.test, start + len(protocol.validation.part), batch_size)
    return Trained(history, best, protocol.test.figures(scores), protocol.test.figures(scores, protocol.test.new))
