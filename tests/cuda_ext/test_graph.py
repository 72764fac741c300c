from __future__ import annotations

import pytest
import torch

from chronoscale.cuda_ext.graph import CSR, Delta
from chronoscale.errors import UserError


def ints(*numbers: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(numbers, dtype=dtype)


def pointer(*numbers: int) -> torch.Tensor:
    return ints(*numbers, dtype=torch.int64)


def test_transpose_is_exact_and_kept() -> None:
    graph = CSR(pointer(0, 2, 2, 4), ints(1, 3, 0, 1), torch.tensor([1.0, 2.0, 3.0, 4.0]), 4)
    turned = graph.transpose()
    assert turned.indptr.tolist() == [0, 1, 3, 3, 4] and turned.indices.tolist() == [2, 0, 2, 0]
    assert turned.values is not None and turned.values.tolist() == [3.0, 1.0, 4.0, 2.0]
    assert (turned.num_rows, turned.num_cols) == (4, 3)
    assert graph.transpose() is turned
    back = turned.check().transpose()
    assert back.indices.tolist() == graph.indices.tolist() and back.indptr.tolist() == graph.indptr.tolist()


@pytest.mark.parametrize("values", [None, torch.tensor([1.0, 2.0, 3.0, 4.0])])
def test_copies_share_one_transpose(values: torch.Tensor | None) -> None:
    graph = CSR(pointer(0, 2, 2, 4), ints(1, 3, 0, 1), values, 4)
    first, second, apart = graph.copied(), graph.copied().copied(), graph.copied(shares=False)
    assert first.transpose() is second.transpose() is graph.transpose() is not apart.transpose()
    assert apart.transpose().indices.tolist() == graph.transpose().indices.tolist()
    for copy in (first, second, apart):
        assert copy.indices.tolist() == graph.indices.tolist() and copy.indices.data_ptr() != graph.indices.data_ptr()
        assert (copy.values is None) == (values is None) and (copy.num_rows, copy.num_cols, copy.nbytes) == (3, 4, graph.nbytes)
        assert copy.indices[copy.order()].tolist() == sorted(graph.indices.tolist())
        assert copy.order().tolist() == graph.order().tolist() == [2, 0, 3, 1]
    assert first.to("cpu").transpose() is not graph.transpose()  # another device would have its own


def test_sizes_and_moves() -> None:
    change = Delta(ints(4, 1), pointer(0, 1, 3), ints(0, 1, 2), torch.ones(3), 5, 3)
    assert change.nbytes == 2 * 4 + 3 * 8 + 3 * 4 + 3 * 4
    assert change.to("cpu", non_blocking=True).check().rows.tolist() == [4, 1]
    assert change.transpose().num_cols == 2


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CSR(ints(0, 1), ints(0), None, 1), "CSR.indptr is torch.int32"),
        (lambda: CSR(pointer(0, 1), pointer(0), None, 1), "CSR.indices is torch.int64"),
        (lambda: CSR(pointer(), ints(), None, 1), "is empty"),
        (lambda: CSR(pointer(0, 1), ints(0), torch.ones(2), 1), "2 entries, expected 1"),
        (lambda: CSR(pointer(0, 1), ints(0), torch.ones(1, requires_grad=True), 1), "expected constants"),
        (lambda: CSR(pointer(0, 9, 1, 9)[::2], ints(0), None, 1), "not contiguous"),
        (lambda: CSR(pointer(0, 1), ints(1), None, 1).check(), r"in \[0, 1\)"),
        (lambda: CSR(pointer(0, 2, 1), ints(0), None, 1).check(), "must ascend"),
        (lambda: Delta(ints(0, 1), pointer(0, 1), ints(0), None, 3, 1), "2 entries, expected 1"),
        (lambda: Delta(ints(1, 1), pointer(0, 0, 1), ints(0), None, 3, 1).check(), "twice"),
        (lambda: Delta(ints(3), pointer(0, 1), ints(0), None, 3, 1).check(), r"in \[0, 3\)"),
    ],
)
def test_malformed_operands_are_one_clear_error(build: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build()  # type: ignore[operator]
