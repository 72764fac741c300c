"""Calls on graphs: a sound one is drawn, then something about its arguments is spoilt."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from fuzz.malformed.spoilt import spoil
from torch import Tensor

from chronoscale.cuda_ext.operators import aggregation
from chronoscale.cuda_ext.operators.attention import AttentionState, attention, attention_increment, attention_increment_
from chronoscale.cuda_ext.operators.graph import CSR, Delta, EdgeMap
from chronoscale.cuda_ext.reference.aggregation import sum_dtype

Call = Callable[[str], tuple[Any, ...]]  # by backend: everything that it returned or wrote
Arguments = dict[str, Any]
FLOATS = (torch.float32, torch.float32, torch.float64, torch.bfloat16)
registered = torch.ops.chronoscale


def _rows(generator: np.random.Generator, rows: int, columns: int, most: int) -> Arguments:
    counts = generator.integers(0, most, rows)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = torch.from_numpy(generator.integers(0, max(columns, 1), indptr[-1] if columns else 0).astype(np.int32))
    indptr = torch.from_numpy(indptr if columns else np.zeros(rows + 1, np.int64))
    values = torch.from_numpy(generator.normal(size=len(indices)).astype(np.float32)) if generator.random() < 0.7 else None
    return {"indptr": indptr, "indices": indices, "values": values}


def _sized(generator: np.random.Generator) -> tuple[int, int, int]:
    """Rows, columns, width; once in twenty enough for helpers."""
    if generator.random() < 0.05:
        return 2000, 1500, 32
    rows, columns, width = (int(generator.integers(0, limit)) for limit in (9, 9, 6))
    return rows, columns, width


def _features(generator: np.random.Generator, rows: int, width: int, dtype: torch.dtype) -> Tensor:
    made = torch.from_numpy(generator.normal(size=(rows, width))).to(dtype)
    return made.requires_grad_() if generator.random() < 0.2 else made


def _settled(a: Arguments) -> Arguments:
    """As torch hands them to its operators: no sign left to be turned."""
    return {name: t.resolve_neg() if isinstance(t, Tensor) and t.layout == torch.strided else t for name, t in a.items()}


def _later(generator: np.random.Generator, a: Arguments) -> Callable[[], None] | None:
    """Once in eight, something that writes a number into the ids between a call and its backward pass."""
    names = [name for name, t in sorted(a.items()) if isinstance(t, Tensor) and not t.is_floating_point() and t.numel()]
    if not names or generator.random() >= 0.125:
        return None
    into = a[names[generator.integers(len(names))]]
    if into.layout != torch.strided or into.is_meta:
        return None
    at, number = int(generator.integers(into.numel())), int(generator.choice([-1, 9, 100, 2**30]))

    def write() -> None:
        with torch.inference_mode(into.is_inference()):
            into.reshape(-1)[at] = min(number, torch.iinfo(into.dtype).max) if into.dtype != torch.bool else True

    return write


def _grads(*outputs: Tensor, leaves: tuple[Tensor, ...], later: Callable[[], None] | None = None) -> tuple[Any, ...]:
    """The outputs, and the gradients of those that have any; nothing where ids were written in between."""
    if later is not None:
        later()
        _grads(*outputs, leaves=leaves)
        return ()
    if any(out.requires_grad for out in outputs):
        torch.autograd.backward([(out * torch.arange(out.numel()).cos().view_as(out)).sum() for out in outputs if out.requires_grad])
    return (*outputs, *(leaf.grad for leaf in leaves if leaf.is_leaf and leaf.grad is not None))


def aggregate(generator: np.random.Generator) -> Call:
    rows, columns, width = _sized(generator)
    a = {
        **_rows(generator, rows, columns, 40),
        "num_cols": columns,
        "x": _features(generator, columns, width, FLOATS[generator.integers(4)]),
    }
    spoil(generator, a)
    plain, later = generator.random() < 0.5, _later(generator, a)

    def call(backend: str) -> tuple[Any, ...]:
        if plain and backend == "cpu":
            return _grads(registered.aggregate(a["indptr"], a["indices"], a["values"], a["x"]), leaves=(a["x"],), later=later)
        b = _settled(a) if plain else a
        graph = CSR(b["indptr"], b["indices"], b["values"], b["x"].shape[0] if plain else b["num_cols"])
        return _grads(aggregation.aggregate(graph, b["x"], backend), leaves=(a["x"],), later=later)

    return call


def increment(generator: np.random.Generator) -> Call:
    rows, columns, width = _sized(generator)
    touched = np.flatnonzero(generator.random(rows) < 0.5)
    dtype = FLOATS[generator.integers(4)]
    x, sums = (_features(generator, n, width, t) for n, t in ((columns, dtype), (rows, sum_dtype(dtype))))
    fresh = torch.from_numpy((generator.random(len(touched)) < 0.5).astype(np.uint8)) if generator.random() < 0.5 else None
    a = {"rows": torch.from_numpy(touched.astype(np.int32)), **_rows(generator, len(touched), columns, 40), "num_rows": rows}
    a |= {"num_cols": columns, "fresh": fresh, "sums": sums, "x": x}
    spoil(generator, a)
    (plain, in_place, without), later = (generator.random() < 0.5 for _ in range(3)), _later(generator, a)

    def call(backend: str) -> tuple[Any, ...]:
        with torch.set_grad_enabled(not (in_place and (plain or without))):
            if plain and backend == "cpu":
                called = registered.increment_ if in_place else registered.increment
                given = (a["sums"], a["rows"], a["indptr"], a["indices"], a["values"], a["x"], a["fresh"])
                made = called(*given)
            else:
                b = _settled(a) if plain else a
                sizes = (b["sums"].shape[0], b["x"].shape[0]) if plain else (b["num_rows"], b["num_cols"])
                delta = Delta(b["rows"], b["indptr"], b["indices"], b["values"], *sizes, b["fresh"])
                made = (aggregation.increment_ if in_place else aggregation.increment)(b["sums"], delta, b["x"], backend)
        if in_place:
            return made.detach(), a["sums"].detach()
        return _grads(*made, leaves=(a["sums"], a["x"]), later=later)

    return call


def _adjacency(generator: np.random.Generator, nodes: int) -> tuple[np.ndarray, Arguments]:
    """A + I, dense without its diagonal and as rows."""
    dense = (generator.random((nodes, nodes)) < 0.4) & ~np.eye(nodes, dtype=bool)
    rows = [np.append(v, np.flatnonzero(dense[v])) for v in range(nodes)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    indices = np.concatenate([*rows, np.zeros(0)]).astype(np.int32)
    return dense, {"indptr": torch.from_numpy(indptr), "indices": torch.from_numpy(indices)}


def _changes(generator: np.random.Generator, dense: np.ndarray) -> tuple[np.ndarray, Arguments]:
    """The graph after some flips, and what they are."""
    flips = (generator.random(dense.shape) < 0.2) & ~np.eye(len(dense), dtype=bool)
    rows = np.flatnonzero(flips.any(1))
    at, source = np.nonzero(flips[rows])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=len(rows)))]).astype(np.int64)
    sign = np.where(dense[rows][at, source], -1, 1).astype(np.int8)
    made = (rows.astype(np.int32), indptr, source.astype(np.int32), sign)
    return dense ^ flips, dict(zip(("rows", "change_ptr", "change", "sign"), map(torch.from_numpy, made), strict=True))


def rebuild(generator: np.random.Generator) -> Call:
    nodes = int(generator.integers(0, 9)) if generator.random() < 0.95 else 200
    dense, before = _adjacency(generator, nodes)
    _, change = _changes(generator, dense)
    a = {**before, "num_cols": nodes, **change, "num_nodes": nodes}
    spoil(generator, a)
    variant, weighted, asks = aggregation.VARIANTS[generator.integers(2)], generator.random() < 0.7, generator.random() < 0.3

    def call(backend: str) -> tuple[Any, ...]:
        graph = CSR(a["indptr"], a["indices"], None, a["num_cols"])
        change = EdgeMap(a["rows"], a["change_ptr"], a["change"], a["sign"], a["num_nodes"])
        unfit = torch.zeros(1, dtype=torch.int32) if asks else None
        made, scale = aggregation.rebuild(graph, change, variant, weighted, backend, unfit)
        CSR(made.indptr, made.indices, made.values, made.num_cols).check()  # whatever it is, it is a matrix
        if unfit is not None and bool(unfit):
            return (unfit,) if _ascends(graph) else ()
        if not _ascends(graph):
            return ()  # some ids, but which is left open
        return (made.indptr, made.indices, *(() if made.values is None else (made.values,)), scale)

    return call


def _known(state_tensor: Tensor, state: AttentionState) -> Tensor:
    """What is kept for rows that are numbers: with NaN among the scores, the largest is one or the other."""
    return state_tensor.masked_fill(state.denominator.detach().isnan(), 0)


def _ascends(graph: CSR) -> bool:
    """Whether each row holds ascending sources after its first entry."""
    pointer = graph.indptr.tolist()
    return all(bool((graph.indices[a + 1 : b].diff() > 0).all()) for a, b in pairwise(pointer))


def attend(generator: np.random.Generator) -> Call:
    nodes, width = int(generator.integers(0, 9)) if generator.random() < 0.95 else 200, int(generator.integers(0, 6))
    dense, before = _adjacency(generator, nodes)
    after, change = _changes(generator, dense)
    rows = [np.append(v, np.flatnonzero(after[v])) for v in range(nodes)]
    dtype = FLOATS[generator.integers(3)]
    z, ends = _features(generator, nodes, width, dtype), torch.from_numpy(generator.normal(size=(2, nodes))).to(dtype)
    state = attention(
        CSR(before["indptr"], before["indices"], None, nodes), z.detach(), ends[0].clone(), ends[1].clone(), backend="reference"
    )
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    a = {"indptr": torch.from_numpy(indptr), "indices": torch.from_numpy(np.concatenate([*rows, np.zeros(0)]).astype(np.int32))}
    a |= {"num_cols": nodes, **change, "num_nodes": nodes, "z": z, "left": ends[0].clone(), "right": ends[1].clone()}
    a |= {"total": state.total, "denominator": state.denominator, "maximum": state.maximum, "reference": state.reference}
    spoil(generator, a)
    form, variant, later = generator.integers(3), aggregation.VARIANTS[generator.integers(2)], _later(generator, a)

    def call(backend: str) -> tuple[Any, ...]:
        graph, values = CSR(a["indptr"], a["indices"], None, a["num_cols"]), (a["z"], a["left"], a["right"])
        if form == 0:
            made = attention(graph, *values, backend=backend)
            return _grads(made.total, made.denominator, _known(made.maximum, made), leaves=values, later=later)
        change = EdgeMap(a["rows"], a["change_ptr"], a["change"], a["sign"], a["num_nodes"])
        state = AttentionState(a["total"], a["denominator"], a["maximum"], a["reference"])
        if form == 1:
            following, touched = attention_increment(state, graph, change, *values, variant, backend)
            known_state = _known(following.maximum, following), _known(following.reference, following)
            return _grads(following.total, following.denominator, touched, *known_state, leaves=values, later=later)
        touched = attention_increment_(state, graph, change, *values, variant, backend)
        return touched, state.total, state.denominator, _known(state.maximum, state), _known(state.reference, state)

    return call


KINDS = (aggregate, aggregate, increment, increment, rebuild, attend)
