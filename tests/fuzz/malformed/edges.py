"""Calls of the operators on edges: a sound one is drawn, then something about its arguments is spoilt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from fuzz.malformed.spoilt import spoil
from torch import Tensor

from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.tables import gather_rows

Call = Callable[[str], tuple[Any, ...]]
Operator = Callable[[dict[str, Any], str], Tensor]


def _floats(generator: np.random.Generator, *size: int) -> Tensor:
    dtype = (torch.float32, torch.float32, torch.float64)[int(generator.integers(3))]
    made = torch.from_numpy(generator.normal(size=size)).to(dtype)
    return made.requires_grad_() if generator.random() < 0.7 else made


def _ids(generator: np.random.Generator, count: int, below: int, dtype: torch.dtype) -> Tensor:
    made = torch.from_numpy(generator.integers(0, max(below, 1), count)).to(dtype)
    return made.sort().values if generator.random() < 0.5 else made


def _sizes(generator: np.random.Generator, *most: int) -> list[int]:
    """Small ones; sometimes enough for helpers."""
    few = [int(generator.integers(0, one)) for one in most]
    return [300 * one for one in few] if generator.random() < 0.03 else few


def _call(generator: np.random.Generator, arguments: dict[str, Any], leaves: tuple[str, ...], operator: Operator) -> Call:
    spoil(generator, arguments)
    ids = next(name for name in ("target", "indptr", "index") if name in arguments)
    writes, at, number = generator.random() < 0.1, generator.random(), int(generator.choice([-1, 9, 100, 2**30, -(2**31)]))

    def call(backend: str) -> tuple[Any, ...]:
        made = operator(arguments, backend)
        if not made.requires_grad:
            return (made,)
        given = arguments[ids]
        if writes and given.numel():
            given.numpy().reshape(-1)[int(at * given.numel())] = number  # past torch's counting
        (made * torch.arange(made.numel()).cos().view_as(made)).sum().backward()
        # Gradients are differences: of numbers like 1e38 no digit is promised.
        tame = not writes and all(bool((arguments[name].detach().abs() < 1e3).all()) for name in leaves)
        return (made, *(arguments[name].grad for name in leaves if tame and arguments[name].grad is not None))

    return call


def edges(generator: np.random.Generator) -> Call:
    count, rows, nodes, width = _sizes(generator, 30, 9, 9, 20)
    count = count if rows and nodes else 0
    dtype = (torch.int32, torch.int64)[int(generator.integers(2))]
    source = _ids(generator, count, nodes, dtype) if generator.random() < 0.6 else None
    a: dict[str, Any] = {
        "x": _floats(generator, count if source is None else nodes, min(width, 40)),
        "target": _ids(generator, count, rows, dtype),
        "rows": rows,
        "source": source,
    }
    how = bool(generator.integers(2))
    return _call(generator, a, ("x",), lambda a, backend: aggregate_edges(a["x"], a["target"], a["rows"], a["source"], how, backend))


def shares(generator: np.random.Generator) -> Call:
    rows, heads = _sizes(generator, 12, 6)
    lengths = generator.integers(0, generator.choice([3, 12, 60]), rows)
    indptr = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
    a: dict[str, Any] = {"scores": _floats(generator, int(indptr[-1]), heads % 18), "indptr": indptr}
    return _call(generator, a, ("scores",), lambda a, backend: edge_softmax(a["scores"], a["indptr"], backend))


def tables(generator: np.random.Generator) -> Call:
    count, cached, sent, width = _sizes(generator, 30, 9, 9, 20)
    dtype, wide = (torch.int32, torch.int64)[int(generator.integers(2))], min(width, 40)
    a: dict[str, Any] = {
        "cached": _floats(generator, cached, wide),
        "index": _ids(generator, count if cached + sent else 0, cached + sent, dtype),
    }
    a["sent"] = _floats(generator, sent, wide).detach().to(a["cached"].dtype).requires_grad_()
    return _call(generator, a, ("cached", "sent"), lambda a, backend: gather_rows(a["cached"], a["sent"], a["index"], backend))


KINDS = (edges, shares, tables)
