"""Attention to sampled slots, gates and encodings, as models of event streams have them, take less time than torch's operators.

`attend`: rivals are bmm and obvious PyTorch, which gathers rows, puts features and encodings beside them, and has einsum, softmax and
autograd do the rest; its angles are float32. `layer` is TemporalAttention, forward and backward: its linear layers are the same for all.
`gates`: of a GRU; `encode`: of elapsed times. Their rival is torch, operator by operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from unittest import mock

import torch
from core.case import Case, Subject
from core.turns import Call
from setups.graphs import keep_memory, normal, passes
from torch import Tensor

from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.cuda_ext.operators.gates import gates
from chronoscale.cuda_ext.operators.slots import Encoding, Slots, attend
from chronoscale.real_exec.streams.models.attention import TemporalAttention
from chronoscale.real_exec.streams.models.clock import Clock
from chronoscale.real_exec.streams.tree import Hop

FANOUT, WIDTH, HEADS, LONGEST = 10, 100, 2, 1e5


def obvious(wanted: Tensor, source: Tensor, given: Slots, encoding: Encoding) -> Tensor:
    """Return what `attend` does, as one would write it down."""
    slot, there, elapsed, edge = given
    assert elapsed is not None
    parts = [source[slot], *([] if edge is None else [edge]), torch.cos(elapsed[..., None] * encoding[0] + encoding[1])]
    rows = torch.cat(parts, 2)
    scores = torch.einsum("thx,tkx->thk", wanted, rows).masked_fill(~there[:, None], -torch.inf)
    return torch.einsum("thk,tkx->thx", scores.softmax(2).nan_to_num(0.0), rows)


def attending(targets: int, edges: int, done: str, device: str) -> dict[str, Call]:
    """Return calls of one pass; `edges`: width of the features of events."""
    sources = 5 * targets // 2
    hop = Hop(
        torch.randint(0, sources, (targets, FANOUT), device=device),
        torch.rand(targets, FANOUT, device=device) > 0.1,
        LONGEST * torch.rand(targets, FANOUT, device=device),
    )
    hop = hop._replace(edge=normal(device, targets * FANOUT, edges).view(targets, FANOUT, edges)) if edges else hop
    source, target = (normal(device, count, WIDTH, seed=count).requires_grad_() for count in (sources, targets))
    wanted = (0.1 * normal(device, targets * HEADS, WIDTH + edges + WIDTH)).view(targets, HEADS, -1).requires_grad_()
    clock, layer = Clock(WIDTH).to(device), TemporalAttention(WIDTH, edges, WIDTH, WIDTH, HEADS, 0.0).to(device)
    encoding = clock.frequency, clock.phase
    ways: dict[str, Callable[..., Tensor]] = {
        "kernel": partial(attend, backend=device),
        "bmm": partial(attend, backend="reference"),
        "obvious": lambda *given: obvious(*given[:4]),
    }

    def whole(way: Callable[..., Tensor]) -> object:
        with mock.patch("chronoscale.real_exec.streams.models.attention.attend", way):
            return torch.autograd.grad(layer(target, source, hop, clock).sum(), (target, source, *layer.parameters()))

    forms = {who: partial(way, wanted, source, Slots(*hop[:4]), encoding) for who, way in ways.items()}
    by_pass = passes(forms, (wanted, source, *encoding), 1e-2)  # float32 angles are that far off
    return {who: partial(whole, way) for who, way in ways.items()} if done == "layer" else by_pass[done]


def cell(what: str, rows: int, width: int, done: str, device: str) -> dict[str, Call]:
    """Return calls of gates or encodings, by the kernel and by torch."""
    if what == "gates":
        leaves = [normal(device, rows, 3 * width, seed=seed).requires_grad_() for seed in (1, 2)]
        form = partial(gates, *leaves, normal(device, rows, width), torch.rand(rows, device=device) > 0.1)
    else:
        leaves = [normal(device, width, seed=seed).requires_grad_() for seed in (1, 2)]
        form = partial(encode, LONGEST * torch.rand(rows, device=device), *leaves)
    return passes({who: partial(form, backend=backend) for who, backend in (("kernel", device), ("torch", "reference"))}, leaves, 1e-3)[
        done
    ]


def setup(what: str, rows: int, width: int, done: str, device: str) -> dict[str, Call]:
    """Return calls of one operator."""
    keep_memory()
    torch.manual_seed(rows)
    return attending(rows, width, done, device) if what == "attend" else cell(what, rows, width, done, device)


def cases(device: str, quick: bool) -> Iterator[Case]:
    """Yield operators by rows (targets, nodes or times), width (of events' features, of hidden states or encodings) and pass."""
    targets, cells = ((30,), (20,)) if quick else ((4_000, 60_000), (4_000, 60_000)) if device == "cuda" else ((600, 6_000), (800,))
    chosen = [("attend", *given) for given in product(targets, (0, 172), ("forward", "both", "layer"))]
    chosen += list(product(("gates", "encode"), cells, (8,) if quick else (100,), ("forward", "both")))
    for given in chosen:
        yield Case.timed(dict(zip(("what", "rows", "width", "pass"), given, strict=True)), partial(setup, *given, device))


SUBJECT = Subject(partial(cases, "cpu"), 15, cuda=partial(cases, "cuda"))
