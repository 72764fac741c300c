"""Models of event streams as users' files: TGAT and TGN once more, from their equations, without an import of ours; and malformed ones."""

from pathlib import Path

TGAT = """
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, slot, hidden, heads, time):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width + time, hidden, bias=False)
        self.key = nn.Linear(width + slot + time, hidden, bias=False)
        self.value = nn.Linear(width + slot + time, hidden, bias=False)
        self.merge = nn.Linear(hidden + width, hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, target, slots, there, zero):
        query = self.query(torch.cat([target, zero.expand(len(target), -1)], 1)).unflatten(1, (self.heads, -1))
        key, value = (part(slots).unflatten(2, (self.heads, -1)) for part in (self.key, self.value))
        scores = torch.einsum("thd,tkhd->thk", query, key) / query.shape[2] ** 0.5
        weights = scores.masked_fill(~there[:, None], -1e30).softmax(2) * there[:, None]
        attended = torch.einsum("thk,tkhd->thd", weights, value).flatten(1)
        return self.out(self.merge(torch.cat([attended, target], 1)).relu())


class TGAT(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.frequency = nn.Parameter(10.0 ** -torch.linspace(0, 9, shape.time, dtype=torch.float64).float())
        self.phase = nn.Parameter(torch.zeros(shape.time))
        self.layers = nn.ModuleList(
            Attention(shape.width(layer), shape.edge, shape.hidden, shape.heads, shape.time) for layer in range(shape.layers)
        )

    def clock(self, elapsed):
        return (elapsed[..., None] * self.frequency + self.phase).cos()

    def forward(self, rows, near, layer):
        slots = torch.cat([near.rows, near.events, self.clock(near.elapsed)], 2)
        return self.layers[layer](rows, slots, near.there, self.phase.cos())
"""
TGN = (
    TGAT
    + """

class TGN(TGAT):
    def __init__(self, shape):
        super().__init__(shape)
        self.cell = nn.GRUCell(shape.mail + shape.time, shape.hidden)

    def update(self, memory, message, elapsed, sent):
        return self.cell(torch.cat([message, self.clock(elapsed)], 1), memory)
"""
)
PROJECTED = '''
import torch
from torch import nn


class Projected(nn.Module):
    """Reads no neighbours: a memory for each side of an event, projected to the time of the prediction, as JODIE's."""

    def __init__(self, shape):
        super().__init__()
        self.source, self.destination = (nn.RNNCell(shape.mail + 1, shape.hidden) for _ in range(2))
        self.pace = nn.Parameter(torch.randn(shape.hidden))

    def update(self, memory, message, elapsed, sent):
        given = torch.cat([message, elapsed.log1p()[:, None]], 1)
        return torch.where(sent[:, None], self.source(given, memory), self.destination(given, memory))

    def embed(self, rows, waited):
        return rows * (1 + waited.log1p()[:, None] * self.pace)
'''
MEAN = """
import torch
from torch import nn


class Mean(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.merge = nn.Linear(2 * shape.width(0), shape.hidden)

    def forward(self, rows, near, layer):
        mean = (near.rows * near.weight[..., None]).sum(1) / near.weight.sum(1, keepdim=True).clamp_min(1e-9)
        return self.merge(torch.cat([rows, mean], 1))
"""


def written(folder: Path, name: str, text: str) -> str:
    """Write a model's file to a folder, and return the name by which experiments call its class."""
    (folder / f"{name.lower()}.py").write_text(text)
    return f"{folder / name.lower()}.py:{name}"
