"""Rows that CUDA cuts into pieces of 512 entries: lengths and places around the cuts, whole numbers, whose sums are exact in any order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from emulation.builder import compiler
from emulation.stand_in import emulated
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native.backend import backends
from chronoscale.cuda_ext.operators.aggregation import aggregate, increment
from chronoscale.cuda_ext.operators.attention import attention
from chronoscale.cuda_ext.operators.graph import CSR, Delta, EdgeMap
from chronoscale.cuda_ext.operators.sparse_arrays import PIECE

LENGTHS = [
    [511], [512], [513], [1024], [0, 512, 0], [1, 512], [512, 512], [513, 511, 513], [100, 900, 30, 700, 5], [511, 1, 512], [5000, 3, 511],
    [0, 0, 2048, 0, 0], [300, 300, 300], [512] * 5, [1] * 600 + [600],
]  # fmt: skip


def graph_of(lengths: list[int], columns: int = 37) -> CSR:
    rng = np.random.default_rng(sum(lengths))
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = rng.integers(-3, 4, indptr[-1]).astype(np.float32)
    indices = rng.integers(0, columns, indptr[-1]).astype(np.int32)
    return CSR(torch.from_numpy(indptr), torch.from_numpy(indices), torch.from_numpy(values), columns)


def whole(rows: int, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randint(-4, 5, (rows, width), generator=torch.Generator().manual_seed(rows * width)).to(dtype)


@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: "-".join(map(str, lengths[:5])))
def test_long_rows_are_exact(backend: str, device: str, lengths: list[int]) -> None:
    graph = graph_of(lengths)
    for width, dtype in ((1, torch.float32), (6, torch.float64), (16, torch.float32), (20, torch.float32), (150, torch.float32)):
        x, sums = whole(graph.num_cols, width, dtype), whole(graph.num_rows, width, dtype)
        expected = aggregate(graph, x, "reference")
        assert torch.equal(aggregate(graph.to(device), x.to(device), backend).cpu(), expected)
        rows = torch.arange(graph.num_rows, dtype=torch.int32).flip(0)
        fresh = (rows % 2).to(torch.uint8)
        change = Delta(rows, graph.indptr, graph.indices, graph.values, graph.num_rows, graph.num_cols, fresh)
        for mine, theirs in zip(
            increment(sums.to(device), change.to(device), x.to(device), backend), increment(sums, change, x, "reference"), strict=True
        ):
            assert torch.equal(mine.cpu(), theirs)


@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: "-".join(map(str, lengths[:5])))
def test_long_rows_attend(backend: str, device: str, lengths: list[int]) -> None:
    graph = graph_of([1 + length for length in lengths])  # a row attends to itself at least
    made = []
    for name, where in ((backend, device), ("reference", "cpu")):
        generator = torch.Generator().manual_seed(3)
        shapes = (graph.num_cols, 5), (graph.num_cols,), (graph.num_rows,)
        leaves = [torch.randn(shape, generator=generator, dtype=torch.float64).to(where).requires_grad_() for shape in shapes]
        state = attention(graph.to(where), *leaves, backend=name)
        state.output().sin().sum().backward()
        made.append([state.output(), state.maximum, state.denominator, *(leaf.grad for leaf in leaves)])
    for mine, theirs in zip(*made, strict=True):
        assert mine is not None and theirs is not None
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("lengths", [[512, 700, 3, 512, 1024], [2, 600, 5]], ids=["long", "mixed"])
def test_rows_that_are_not_asked_for_stay_as_they_are(backend: str, device: str, lengths: list[int]) -> None:
    if backend == "reference" or not abi.on_cuda(torch.empty(0, device=device)):
        pytest.skip("an argument of the CUDA kernels")
    graph, x = graph_of(lengths).to(device), whole(37, 8).to(device)
    only = torch.arange(graph.num_rows, device=device).remainder(2).to(torch.uint8)
    out = torch.full((graph.num_rows, 8), -1.0, device=device)
    abi.aggregate(graph, graph.values, x, only, out)
    assert torch.equal(out, torch.where(only.bool()[:, None], aggregate(graph, x, backend), -1))


@examples(40)
@given(st.lists(st.sampled_from([0, 1, 3, 40, 511, 512, 513, 700, 1023, 1024, 1537]), min_size=1, max_size=12))
def test_any_lengths_are_exact(lengths: list[int]) -> None:
    graph, x = graph_of(lengths), whole(37, 8)
    expected = aggregate(graph, x, "reference")
    assert torch.equal(aggregate(graph, x), expected)
    if compiler() is not None and "cpu" in backends():
        with emulated():
            assert torch.equal(aggregate(graph, x, "cpu"), expected)


def test_a_captured_call_has_counters_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a CUDA graph records runs later, in any order and on any stream."""
    monkeypatch.setattr(abi, "_zeros", {})
    device = torch.device("cpu")
    kept = abi._counters(device, 0, 10)
    monkeypatch.setattr(abi, "_captured", lambda device: True)
    first, second = abi._counters(device, 0, 10), abi._counters(device, 0, 10)
    assert len({kept.data_ptr(), first.data_ptr(), second.data_ptr()}) == 3 and not first.any()
    assert list(abi._zeros.values()) == [kept]


def test_no_counters_are_passed_where_no_row_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    if compiler() is None or "cpu" not in backends():
        pytest.skip("no C++ compiler, or no backend 'cpu'")
    asked: list[int] = []
    with emulated():
        made = abi._counters
        monkeypatch.setattr(abi, "_counters", lambda *given: (asked.append(given[2]), made(*given))[1])
        for lengths, pieces in (([511] * 4, []), ([511, 512], [2]), ([3], [])):
            asked.clear()
            aggregate(graph_of(lengths), whole(37, 4), "cpu")
            assert asked == pieces
        aggregate(graph_of([511] * 4).mark_checked(), whole(37, 4), "cpu")  # nobody has looked
        assert asked == [4]


def pieces_by_hand(lengths: list[int]) -> list[list[int]]:
    ends = np.cumsum([0, *lengths])
    return [
        [row, piece]
        for row, (begin, end) in enumerate(pairwise(ends))
        if end - begin >= PIECE
        for piece in range(begin // PIECE, (end - 1) // PIECE + 1)
    ]


@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: "-".join(map(str, lengths[:5])))
def test_long_rows_are_listed_once_and_taken_along(lengths: list[int]) -> None:
    graph, wanted = graph_of(lengths).check(), pieces_by_hand(lengths)
    rows = torch.arange(graph.num_rows, dtype=torch.int32)
    change = Delta(rows, graph.indptr, graph.indices, graph.values, graph.num_rows, graph.num_cols).check()
    for operand in (graph, graph.to("cpu", copy=True), graph.copy(), change, change.compact()):
        assert (operand.row_pieces is None) == (not wanted)
        assert operand.row_pieces is None or operand.row_pieces.tolist() == wanted
    assert graph.transpose().row_pieces is None  # nobody has looked


def test_long_rows_of_a_change_are_listed() -> None:
    sources = torch.cat([torch.arange(3), torch.arange(600)]).int()
    change = EdgeMap(torch.tensor([1, 5], dtype=torch.int32), torch.tensor([0, 3, 603]), sources, torch.ones(603, dtype=torch.int8), 700)
    assert change.check().compact().row_pieces.tolist() == [[1, 0], [1, 1]]  # type: ignore[union-attr]


def test_what_is_written_afterwards_is_listed_anew() -> None:
    graph = graph_of([600, 3]).check()
    graph.indptr[1] = 2
    assert graph.check().row_pieces.tolist() == [[1, 0], [1, 1]]  # type: ignore[union-attr]


def test_listed_and_unlisted_rows_make_the_same_bits(emulated_kernels: None) -> None:
    lengths = [100, 900, 30, 700, 5, 5000, 512, 511]
    listed, unlisted = graph_of(lengths).check(), graph_of(lengths).mark_checked()
    assert listed.row_pieces is not None and unlisted.row_pieces is None
    x = torch.randn(37, 33, generator=torch.Generator().manual_seed(0))
    assert torch.equal(aggregate(listed, x, "cpu"), aggregate(unlisted, x, "cpu"))


def test_the_kernels_have_pieces_of_that_size(emulated_kernels: None) -> None:
    assert abi.cuda_library().cs_cuda_piece() == PIECE  # type: ignore[union-attr]


def test_long_rows_of_ids_that_were_written_are_forgotten() -> None:
    graph = CSR(torch.tensor([0, 600, 600]), torch.zeros(600, dtype=torch.int32), None, 2).check()
    assert graph.longest_row == 600 and graph.row_pieces is not None
    graph.indptr.copy_(torch.tensor([0, 0, 600]))
    graph.mark_checked()
    assert graph.row_layout == (-1, None)
