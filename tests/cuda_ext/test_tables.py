"""Rows of two tables by one index: one contract, every backend."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native import edges as edges_native
from chronoscale.cuda_ext.native.backend import TRITON, backends, set_threads
from chronoscale.cuda_ext.operators.tables import gather_rows
from chronoscale.errors import UserError

WIDTHS = (1, 3, 16, 33, 172)


def normal(rows: int, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(rows + width), dtype=torch.float64).to(dtype)


def drawn(count: int, below: int) -> Tensor:
    return torch.randint(0, below, (count,), generator=torch.Generator().manual_seed(count))


@pytest.mark.parametrize("sizes", [(20, 30), (0, 30), (20, 0)])
@pytest.mark.parametrize("ids", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_one_table(served: tuple[str, str], dtype: torch.dtype, ids: torch.dtype, sizes: tuple[int, int]) -> None:
    backend, device = served
    index = drawn(100, sum(sizes))
    for width in WIDTHS[1:4:2] if backend == TRITON else WIDTHS:  # it compiles for each
        cached, sent = (normal(rows, width, dtype) for rows in sizes)
        gathered = gather_rows(cached.to(device), sent.to(device), index.to(device, ids), backend)
        assert torch.equal(gathered.cpu(), torch.cat([cached, sent])[index])


def test_nothing_to_gather(served: tuple[str, str]) -> None:
    backend, device = served
    none = torch.zeros(0, dtype=torch.int64, device=device)
    assert gather_rows(torch.zeros(3, 4, device=device), torch.zeros(0, 4, device=device), none, backend).shape == (0, 4)
    assert gather_rows(torch.zeros(0, 4, device=device), torch.zeros(0, 4, device=device), none, backend).shape == (0, 4)
    assert gather_rows(torch.zeros(3, 0, device=device), torch.zeros(2, 0, device=device), none + 0, backend).shape == (0, 0)


@pytest.mark.parametrize("needs", ["both", "cached", "sent"])
def test_gradients(served: tuple[str, str], needs: str) -> None:
    """A row that is read twice gets both; of one table alone the other's are nobody's."""
    backend, device = served
    cached, sent = (normal(rows, 2, torch.float64).to(device) for rows in (5, 4))
    index = torch.tensor([0, 8, 5, 5, 4, 0, 0, 7], device=device)
    given = [t.requires_grad_() for name, t in (("cached", cached), ("sent", sent)) if needs in (name, "both")]
    assert torch.autograd.gradcheck(lambda *_: gather_rows(cached, sent, index, backend), given)


def test_the_same_bits_in_every_run(served: tuple[str, str]) -> None:
    backend, device = served
    cached, sent = (normal(rows, 33).to(device).requires_grad_() for rows in (5, 40))
    index = drawn(2_000, 45).to(device)
    made = [torch.autograd.grad(gather_rows(cached, sent, index, backend).sin().sum(), (cached, sent)) for _ in range(3)]
    assert all(torch.equal(a, b) for other in made[1:] for a, b in zip(made[0], other, strict=True))


def test_threads_change_no_bit(threads: None) -> None:
    if "cpu" not in backends():
        pytest.skip("backend 'cpu' is not available on this machine")
    cached, sent, index = normal(500, 33), normal(700, 33), drawn(20_000, 1_200)
    for count in (1, 2, 5):
        set_threads(count)
        assert torch.equal(gather_rows(cached, sent, index, "cpu"), torch.cat([cached, sent])[index])


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 20), st.integers(0, 40))
def test_any_tables(first: int, second: int, width: int, count: int) -> None:
    cached, sent = normal(first, width), normal(second, width)
    index = drawn(count if first + second else 0, max(first + second, 1))
    for backend in {"reference", "cpu"} & set(backends()):
        assert torch.equal(gather_rows(cached, sent, index, backend), torch.cat([cached, sent])[index])


@pytest.mark.parametrize("wrong", [-1, 9, 2**31 - 1])
def test_ids_out_of_range_are_one_line(wrong: int) -> None:
    for ids in (torch.int32, torch.int64):
        index = drawn(2_000, 9).to(ids)
        index[1_500] = wrong
        for backend in {"reference", "cpu"} & set(backends()):
            with pytest.raises(UserError, match=rf"gather_rows: index has ids from .*{wrong}.*; expected ids in \[0, 9\)"):
                gather_rows(normal(5, 40), normal(4, 40), index, backend)


def test_emulated_rows_that_are_not_there_are_nan(emulated_kernels: None) -> None:
    cached, sent, index = normal(5, 8), normal(4, 8), torch.tensor([0, -1, 8, 9, 2**40, 5])
    rows = edges_native.gather(cached, sent, index)
    assert rows[[1, 3, 4]].isnan().all() and torch.equal(rows[[0, 2, 5]], torch.cat([cached, sent])[[0, 8, 5]])
    assert abi.on_cuda(cached)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cached": torch.ones(5)}, r"cached is torch.float32 \[5\] on cpu; expected contiguous float32 or float64 \[\*, D\]"),
        ({"sent": torch.ones(4, 2)}, r"sent is torch.float32 \[4, 2\] on cpu; expected contiguous torch.float32 \[\*, 3\] on cpu"),
        ({"sent": torch.ones(4, 3).double()}, r"expected contiguous torch.float32 \[\*, 3\]"),
        ({"sent": torch.ones(4, 3, device="meta")}, "on cpu"),
        ({"index": torch.zeros(3)}, r"index is torch.float32 \[3\] on cpu; expected contiguous int32 or int64"),
        ({"index": torch.zeros(6, dtype=torch.int64)[::2]}, "not contiguous"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(change: dict[str, Tensor], message: str) -> None:
    sound = {"cached": torch.ones(5, 3), "sent": torch.ones(4, 3), "index": torch.zeros(3, dtype=torch.int64)}
    with pytest.raises(UserError, match=message):
        gather_rows(**{**sound, **change})


def test_the_registered_operator() -> None:
    cached, sent, index = normal(5, 3, torch.float64).requires_grad_(), normal(4, 3, torch.float64).requires_grad_(), drawn(7, 9)
    torch.library.opcheck(torch.ops.chronoscale.gather_rows, (cached, sent, index))
    assert torch.autograd.gradcheck(lambda *tables: torch.ops.chronoscale.gather_rows(*tables, index), (cached, sent))
