"""Attention to sampled slots takes less time than by bmm and than by obvious PyTorch.

Obvious PyTorch gathers rows, puts features and encodings beside them, and has einsum, softmax and autograd do the rest; its angles are
float32. `layer` is TemporalAttention, forward and backward: its linear layers are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from unittest import mock

import torch
from core.case import Case, Subject
from core.turns import Call
from setups.graphs import keep_memory, passes
from torch import Tensor

from chronoscale.cuda_ext.operators.slots import Encoding, Slots, attend
from chronoscale.real_exec.streams.models.attention import TemporalAttention
from chronoscale.real_exec.streams.models.clock import Clock
from chronoscale.real_exec.streams.tree import Hop

FANOUT, WIDTH, TIME, HEADS, LONGEST = 10, 100, 100, 2, 1e5


def obvious(wanted: Tensor, source: Tensor, given: Slots, encoding: Encoding) -> Tensor:
    """Return what `attend` does, as one would write it down."""
    slot, there, elapsed, edge = given
    assert elapsed is not None
    parts = [source[slot], *([] if edge is None else [edge]), torch.cos(elapsed[..., None] * encoding[0] + encoding[1])]
    rows = torch.cat(parts, 2)
    scores = torch.einsum("thx,tkx->thk", wanted, rows).masked_fill(~there[:, None], -torch.inf)
    return torch.einsum("thk,tkx->thx", scores.softmax(2).nan_to_num(0.0), rows)


def setup(targets: int, edges: int, done: str) -> dict[str, Call]:
    """Return calls of one pass; `edges`: width of the features of events."""
    keep_memory()
    torch.manual_seed(targets)
    sources = 5 * targets // 2
    there = torch.rand(targets, FANOUT) > 0.1
    hop = Hop(torch.randint(0, sources, (targets, FANOUT)), there, LONGEST * torch.rand(targets, FANOUT))
    hop = hop._replace(edge=torch.randn(targets, FANOUT, edges)) if edges else hop
    source, target = torch.randn(sources, WIDTH).requires_grad_(), torch.randn(targets, WIDTH).requires_grad_()
    wanted = (0.1 * torch.randn(targets, HEADS, WIDTH + edges + TIME)).requires_grad_()
    clock, layer = Clock(TIME), TemporalAttention(WIDTH, edges, TIME, WIDTH, HEADS, 0.0)
    encoding = clock.frequency, clock.phase
    ways: dict[str, Callable[..., Tensor]] = {
        "kernel": partial(attend, backend="cpu"),
        "bmm": partial(attend, backend="reference"),
        "obvious": lambda *given: obvious(*given[:4]),
    }

    def whole(way: Callable[..., Tensor]) -> object:
        with mock.patch("chronoscale.real_exec.streams.models.attention.attend", way):
            return torch.autograd.grad(layer(target, source, hop, clock).sum(), (target, source, *layer.parameters()))

    forms = {who: partial(way, wanted, source, Slots(*hop[:4]), encoding) for who, way in ways.items()}
    by_pass = passes(forms, (wanted, source, *encoding), 1e-2)  # float32 angles are that far off
    return {who: partial(whole, way) for who, way in ways.items()} if done == "layer" else by_pass[done]


def cases(quick: bool) -> Iterator[Case]:
    """Yield targets by widths of edge features and pass."""
    for given in product((30,) if quick else (600, 6000), (0, 172), ("forward", "both", "layer")):
        yield Case.timed(dict(zip(("targets", "edges", "pass"), given, strict=True)), lambda given=given: setup(*given))  # type: ignore[misc]


SUBJECT = Subject(cases, 15)
