"""Sums over edges: one contract, every backend."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native import edges as edges_native
from chronoscale.cuda_ext.native.backend import TRITON, backends, set_threads, unavailable_reason
from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.errors import UserError

ROWS, NODES, EDGES = 70, 40, 900
WIDTHS = (1, 3, 16, 33, 100)


def drawn(edges: int = EDGES, rows: int = ROWS, skewed: bool = True, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Targets, of which row 7 has half, and sources."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, rows, (edges,), generator=generator)
    if skewed:
        target[torch.rand(edges, generator=generator) < 0.5] = 7
    return target, torch.randint(0, NODES, (edges,), generator=generator)


def normal(*size: int, dtype: torch.dtype = torch.float32, seed: int = 3) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def one_by_one(x: Tensor, target: Tensor, rows: int, source: Tensor | None) -> np.ndarray:
    out = np.zeros((rows, x.shape[1]))
    for e, row in enumerate(target.tolist()):
        out[row] += x[e if source is None else int(source[e])].double().numpy()
    return out


@pytest.mark.sample(11)
@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("order", ["any", "ascending", "ascending, told"])
@pytest.mark.parametrize("ids", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_sums_one_by_one(served: tuple[str, str], dtype: torch.dtype, ids: torch.dtype, order: str, deterministic: bool) -> None:
    backend, device = served
    target, source = drawn()
    target = target.sort().values if order != "any" else target
    for width in WIDTHS[1:4:2] if backend == TRITON else WIDTHS:  # it compiles for each
        for from_nodes in (True, False):
            x = normal(NODES if from_nodes else EDGES, width, dtype=dtype)
            begins = source if from_nodes else None
            given = x.to(device), target.to(device, ids), ROWS, None if begins is None else begins.to(device, ids)
            found = aggregate_edges(*given, deterministic, backend, ascending="told" in order).cpu().double().numpy()
            expected = one_by_one(x, target, ROWS, begins)
            scale = one_by_one(x.abs(), target, ROWS, begins).max()  # sums of numbers of both signs
            assert found.shape == (ROWS, width)
            np.testing.assert_allclose(found, expected, rtol=0, atol=(1e-6 if dtype == torch.float32 else 1e-14) * scale)


def test_nothing_to_sum(served: tuple[str, str]) -> None:
    backend, device = served
    none, ids = torch.zeros(0, 3, device=device), torch.zeros(0, dtype=torch.int64, device=device)
    assert torch.equal(aggregate_edges(none, ids, 4, backend=backend).cpu(), torch.zeros(4, 3))
    assert aggregate_edges(none, ids, 0, ids, backend=backend).shape == (0, 3)
    assert aggregate_edges(torch.zeros(5, 0, device=device), ids, 4, ids, backend=backend).shape == (4, 0)
    assert aggregate_edges(torch.zeros(2, 0, device=device), torch.tensor([3, 0], device=device), 4, backend=backend).shape == (4, 0)


def test_edges_that_lie_in_rows_equal_a_graphs_sums(served: tuple[str, str]) -> None:
    """Rows of every length around where pieces end; the kernel that goes by rows is another way to the same."""
    backend, device = served
    lengths = torch.tensor([0, 1, 511, 512, 513, 0, 1500, 3, 64, 64, 0])
    target = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    each = normal(len(target), 5, dtype=torch.float64)
    found = aggregate_edges(each.to(device), target.to(device), len(lengths), backend=backend)
    expected = torch.stack([part.sum(0) for part in each.split(lengths.tolist())])
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("from_nodes", [True, False])
@pytest.mark.parametrize("deterministic", [True, False])
def test_gradients(served: tuple[str, str], deterministic: bool, from_nodes: bool) -> None:
    backend, device = served
    target, source = drawn(12, 6, seed=1)
    x = normal(NODES if from_nodes else 12, 2, dtype=torch.float64).to(device).requires_grad_()
    target, begins = target.to(device), (source.to(device) if from_nodes else None)

    def call(x: Tensor) -> Tensor:
        return aggregate_edges(x, target, 8, begins, deterministic, backend)

    slack = 0.0 if deterministic else 1e-12  # atomics: other last bits in every run
    assert torch.autograd.gradcheck(call, x, nondet_tol=slack)
    assert torch.autograd.gradgradcheck(call, x, nondet_tol=slack)


def test_the_same_bits_in_every_run(served: tuple[str, str]) -> None:
    backend, device = served
    target, source = drawn(3_000)
    x = normal(NODES, 33).to(device).requires_grad_()
    made = []
    for _ in range(3):
        out = aggregate_edges(x, target.to(device), ROWS, source.to(device), backend=backend)
        made.append((out.detach(), *torch.autograd.grad(out.sin().sum(), x)))
    assert all(torch.equal(a, b) for other in made[1:] for a, b in zip(made[0], other, strict=True))


@pytest.mark.parametrize("ascending", [True, False])
def test_threads_change_no_bit(threads: None, ascending: bool) -> None:
    if "cpu" not in backends():
        pytest.skip("backend 'cpu' is not available on this machine")
    target, source = drawn(200_000, 5_000)  # enough for helpers to look at the ids, too
    target, x, results = target.sort().values if ascending else target, normal(NODES, 40), []
    for count in (1, 2, 5):
        set_threads(count)
        results.append(aggregate_edges(x, target, 5_000, source, backend="cpu"))
        assert torch.equal(aggregate_edges(x, target.int(), 5_000, source.int(), backend="cpu"), results[-1])
    assert all(torch.equal(results[0], other) for other in results[1:])


def test_sorted_or_not_the_cpu_sums_in_the_order_of_the_edges() -> None:
    """A stable sort: what comes out is bit for bit the sum over the same edges brought into rows."""
    if "cpu" not in backends():
        pytest.skip("backend 'cpu' is not available on this machine")
    target, source = drawn(20_000)
    order = target.argsort(stable=True)
    x = normal(NODES, 7)
    rows = aggregate_edges(x, target[order], ROWS, source[order], backend="cpu")
    assert torch.equal(aggregate_edges(x, target, ROWS, source, backend="cpu"), rows)


@given(st.data())
def test_any_edges(data: st.DataObject) -> None:
    rows, nodes, width = (data.draw(st.integers(1, most)) for most in (9, 9, 20))
    pairs = data.draw(st.lists(st.tuples(st.integers(0, rows - 1), st.integers(0, nodes - 1)), max_size=40))
    target, source = (torch.tensor([pair[i] for pair in pairs], dtype=torch.int64) for i in (0, 1))
    x = normal(nodes, width, dtype=torch.float64)
    for backend in {"reference", "cpu"} & set(backends()):
        found = aggregate_edges(x, target, rows, source, backend=backend)
        np.testing.assert_allclose(found.numpy(), one_by_one(x, target, rows, source), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("at", "value", "said"), [(0, -1, "from -1 to"), (3, 70, "to 70"), (899, 2**31 - 1, "to 2147483647")])
def test_ids_out_of_range_are_one_line(at: int, value: int, said: str) -> None:
    target, source = (ids.int() for ids in drawn())
    x = normal(NODES, 3)
    ends, begins = target.clone(), source.clone().long()
    ends[at], begins[at] = value, value if value != 70 else 40
    for backend in {"reference", "cpu"} & set(backends()):
        with pytest.raises(UserError, match=rf"aggregate_edges: target has ids .*{said}.*; expected ids in \[0, 70\)"):
            aggregate_edges(x, ends, ROWS, source, backend=backend)
        with pytest.raises(UserError, match=r"aggregate_edges: source has ids .*; expected ids in \[0, 40\)"):
            aggregate_edges(x, target.long(), ROWS, begins, backend=backend)


def test_emulated_a_row_of_many_pieces_is_all_of_them(emulated_kernels: None) -> None:
    """Of ten: more than a block's groups of lanes add up at once. Whole numbers: in any order the sum is exact."""
    x = torch.arange(10 * 512 * 33, dtype=torch.float64).view(-1, 33) % 97
    found = edges_native.aggregate(x, torch.zeros(len(x), dtype=torch.int64), 2, None, True, False)
    assert torch.equal(found, torch.stack([x.sum(0), torch.zeros(33).double()]))


def test_emulated_edges_to_no_row_are_left_out(emulated_kernels: None) -> None:
    """And from no row NaN: nothing is read or written where it should not be, in order or not."""
    target, source = torch.tensor([-1, 0, 5, 2, 2, 2**40]), torch.tensor([0, 1, 2, 3, 4, 5])
    x = normal(6, 3, dtype=torch.float64)
    for deterministic in (True, False):
        found = edges_native.aggregate(x, target, 5, source, deterministic, False)
        expected = torch.stack([x[1], torch.zeros(3).double(), x[3] + x[4], torch.zeros(3).double(), torch.zeros(3).double()])
        assert torch.equal(found, expected)
        lost = edges_native.aggregate(x, target, 5, source - 4, deterministic, False)
        assert lost[[0, 2]].isnan().all() and not lost[[1, 3, 4]].any()
    assert abi.on_cuda(x)


def test_emulated_targets_that_do_not_ascend_spoil_no_memory(emulated_kernels: None) -> None:
    """Sums of anything, even of what was never written; under the address sanitizer, of nothing beyond."""
    target, source = drawn(3_000)
    for width in (1, 8, 33):
        assert edges_native.aggregate(normal(NODES, width), target, ROWS, source, True, True).shape == (ROWS, width)


TARGET, SOURCE = drawn(6, 5, skewed=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"x": torch.ones(40)}, r"x is torch.float32 \[40\] on cpu; expected contiguous float32 or float64 \[\*, F\]"),
        ({"x": torch.ones(40, 3, dtype=torch.bfloat16)}, "expected contiguous float32 or float64"),
        ({"x": torch.ones(3, 40).T}, "not contiguous"),
        ({"target": TARGET.float()}, r"target is torch.float32 \[6\] on cpu; expected contiguous int32 or int64 \[fewer than 2\^31\]"),
        ({"target": TARGET[None]}, "target is"),
        ({"target": TARGET.to("meta")}, "expected contiguous int32 or int64 .* on cpu"),
        ({"source": SOURCE.int()}, r"source is torch.int32 \[6\] on cpu; expected contiguous torch.int64 \[6\]"),
        ({"source": SOURCE[:5]}, r"expected contiguous torch.int64 \[6\]"),
        ({"source": None}, r"target is torch.int64 \[6\] on cpu; expected contiguous int32 or int64 \[40\]"),
        ({"rows": -1}, "-1 rows"),
        ({"rows": 2**31}, "expected numbers below 2"),
        ({"backend": "cudo"}, "did you mean 'cuda'"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(change: dict[str, object], said: str) -> None:
    sound = {"x": torch.ones(40, 3), "target": TARGET, "rows": 5, "source": SOURCE}
    with pytest.raises(UserError, match=said):
        aggregate_edges(**{**sound, **change})  # type: ignore[arg-type]


def test_a_backend_that_is_not_there_says_why() -> None:
    if unavailable_reason(TRITON) is None:
        assert TRITON in backends()
    else:
        assert TRITON not in backends()
        with pytest.raises(
            UserError, match=r"backend 'triton' is not available here: (triton is not installed|torch finds no CUDA device)"
        ):
            aggregate_edges(torch.ones(40, 3), TARGET, 5, SOURCE, backend=TRITON)
    with pytest.raises(UserError, match="serves aggregate_edges, edge_softmax and gather_rows alone; expected one of reference, cpu, cuda"):
        aggregate(CSR(torch.tensor([0, 1]), torch.zeros(1, dtype=torch.int32), None, 1), torch.ones(1, 1), TRITON)


def test_the_registered_operator() -> None:
    x, ops = normal(NODES, 3, dtype=torch.float64).requires_grad_(), torch.ops.chronoscale
    for deterministic in (True, False):
        torch.library.opcheck(ops.aggregate_edges, (x, TARGET, 5, SOURCE, deterministic))
    each = normal(6, 3, dtype=torch.float64).requires_grad_()
    torch.library.opcheck(ops.aggregate_edges, (each, TARGET, 5))
    assert torch.autograd.gradcheck(lambda x: ops.aggregate_edges(x, TARGET, 5, SOURCE), x)
    assert torch.autograd.gradcheck(lambda x: ops.aggregate_edges(x, TARGET, 5), each)
    assert torch.equal(ops.aggregate_edges(x, TARGET, 5, SOURCE), aggregate_edges(x, TARGET, 5, SOURCE))
