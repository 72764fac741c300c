from __future__ import annotations

import pytest
import torch

from chronoscale.cuda_ext.operators.aggregation import aggregate, increment, increment_, rebuild
from chronoscale.cuda_ext.operators.attention import attention, attention_increment
from chronoscale.cuda_ext.operators.graph import CSR, Delta, EdgeMap, _Operand
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
    first, second, apart = graph.copy(), graph.copy().copy(), graph.copy(shares=False)
    assert first.transpose() is second.transpose() is graph.transpose() is not apart.transpose()
    assert apart.transpose().indices.tolist() == graph.transpose().indices.tolist()
    for copy in (first, second, apart):
        assert copy.indices.tolist() == graph.indices.tolist() and copy.indices.data_ptr() != graph.indices.data_ptr()
        assert (copy.values is None) == (values is None) and (copy.num_rows, copy.num_cols, copy.nbytes) == (3, 4, graph.nbytes)
        assert copy.indices[copy.order()].tolist() == sorted(graph.indices.tolist())
        assert copy.order().tolist() == graph.order().tolist() == [2, 0, 3, 1]
    assert first.to("cpu").transpose() is not graph.transpose()  # another device would have its own


@pytest.mark.parametrize("written", ["copy", "source", "values"])
def test_a_transpose_is_made_anew_after_torch_wrote_into_the_matrix(written: str) -> None:
    graph = CSR(pointer(0, 2, 2, 4), ints(1, 3, 0, 1), torch.tensor([1.0, 2.0, 3.0, 4.0]), 4)
    copy = graph.copy()
    before = copy.transpose()
    changed = graph if written == "source" else copy
    assert changed.values is not None
    if written == "values":
        changed.values[1] = 9.0
    else:
        changed.indices[1] = 2
    assert changed.transpose() is not before and changed.transpose() is changed.transpose()
    assert changed.transpose().indices.tolist() == [2, 0, 2, 0]
    assert changed.transpose().indptr.tolist() == ([0, 1, 3, 3, 4] if written == "values" else [0, 1, 3, 4, 4])
    assert (copy if changed is graph else graph).transpose().values.tolist() == [3.0, 1.0, 4.0, 2.0]  # type: ignore[union-attr]


def test_the_longest_row_is_known_once_it_was_looked_at() -> None:
    graph = CSR(pointer(0, 2, 2, 5), ints(1, 3, 0, 1, 2), None, 4)
    assert graph.longest_row is None and graph.transpose().longest_row is None
    assert graph.check().longest_row == 3 == graph.to("cpu", copy=True).longest_row == graph.copy().longest_row
    change = EdgeMap(ints(0), pointer(0, 1), ints(1), torch.ones(1, dtype=torch.int8), 4)
    assert change.to("cpu", copy=True).longest_row is None and change.check().longest_row == 1
    assert CSR(pointer(0), ints(), None, 4).check().longest_row == 0


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
        (lambda: CSR(pointer(0, 1), ints(0), None, 2**31), "ids are int32"),
        (lambda: Delta(ints(0), pointer(0, 1), ints(0), None, -1, 1), "expected a size"),
        (lambda: CSR(pointer(0, 1), ints(1), None, 1).transpose(), r"in \[0, 1\)"),
        (lambda: CSR(pointer(0, 1), torch._neg_view(ints(0)), None, 1), "not contiguous"),
        (lambda: EdgeMap(ints(0, 1), pointer(0, 1, 1), ints(1), torch.ones(1, dtype=torch.int8), 3).check(), "one at least"),
    ],
)
def test_malformed_operands_are_one_clear_error(build: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build()  # type: ignore[operator]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is looked at from now on."""
    looks: list[str] = []
    for kind in (CSR, Delta, EdgeMap):
        look = kind._check_values

        def seen(self: _Operand, look: object = look) -> None:
            looks.append(type(self).__name__)
            look(self)  # type: ignore[operator]

        monkeypatch.setattr(kind, "_check_values", seen)
    return looks


def test_an_operand_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, x = counted(monkeypatch), torch.ones(3, 2, requires_grad=True)
    graph = CSR(pointer(0, 1, 2, 3), ints(0, 1, 2), None, 3)
    for _ in range(3):
        aggregate(graph, x).sum().backward()
    aggregate(graph.transpose().to("cpu", copy=True), x)
    assert looks == ["CSR"]
    change = Delta(ints(1), pointer(0, 1), ints(0), None, 3, 3)
    for _ in range(3):
        increment_(torch.zeros(3, 2), change, x.detach())
    aggregate(change.compact(), x)
    aggregate(change.to("cpu", copy=True).transpose(), torch.ones(1, 2))
    assert looks == ["CSR", "Delta"]
    edges = EdgeMap(ints(0), pointer(0, 1), ints(1), torch.ones(1, dtype=torch.int8), 3)
    made, _ = rebuild(graph, edges)
    aggregate(made, x)
    rebuild(made, EdgeMap(ints(0), pointer(0, 1), ints(2), edges.sign, 3).mark_checked())
    assert looks == ["CSR", "Delta", "EdgeMap"]


def test_an_operand_is_looked_at_again_after_torch_wrote_into_it() -> None:
    graph, x = CSR(pointer(0, 1, 2), ints(0, 1), None, 2).check(), torch.ones(2, 1)
    graph.indices[1] = 7
    for _ in range(2):
        with pytest.raises(UserError, match=r"in \[0, 2\)"):
            aggregate(graph, x)
    with pytest.raises(UserError, match=r"in \[0, 2\)"):
        aggregate(graph.to("cpu", copy=True), x)  # nor has a copy of it been looked at
    graph.indices[1] = 0
    assert aggregate(graph, x).tolist() == [[1.0], [1.0]]


def test_an_operand_of_inference_mode_is_looked_at_in_every_call() -> None:
    with torch.inference_mode():
        graph, x = CSR(pointer(0, 1, 2), ints(0, 1), None, 2), torch.ones(2, 1)
        for _ in range(2):
            assert aggregate(graph, x).tolist() == [[1.0], [1.0]]
        graph.indices[1] = 7
        with pytest.raises(UserError, match=r"in \[0, 2\)"):
            aggregate(graph, x)


def test_ids_that_were_written_since_the_forward_pass_are_refused_in_the_backward_pass() -> None:
    x, sums = torch.ones(3, 2, requires_grad=True), torch.zeros(3, 2)
    graph = CSR(pointer(0, 1, 2, 3), ints(0, 1, 2), None, 3)
    change = Delta(ints(1), pointer(0, 1), ints(0), None, 3, 3)
    edges = EdgeMap(ints(0), pointer(0, 1), ints(1), torch.ones(1, dtype=torch.int8), 3)
    following, _ = rebuild(graph, edges)
    values = x, torch.ones(3), torch.ones(3)

    def attended() -> torch.Tensor:
        return attention_increment(attention(graph, *values), following, edges, *values)[1]

    for call, ids in (
        (lambda: aggregate(graph, x), graph.indices),
        (lambda: increment(sums, change, x)[0], change.rows),
        (lambda: increment(sums, change, x)[0], change.indices),
        (lambda: attention(graph, *values).total, graph.indices),
        (attended, edges.indices),
        (attended, edges.rows),
        (attended, following.indices),
    ):
        out, before = call(), ids.clone()
        ids.fill_(2**30)
        with pytest.raises((UserError, RuntimeError), match=r"in \[0, 3\)|modified by an inplace operation"):
            out.sum().backward()
        ids.copy_(before)
        call().sum().backward()  # and all is well again
    registered, three = torch.ops.chronoscale, pointer(0, 1, 2, 3)
    for call, ids in (
        (lambda: registered.aggregate(three, graph.indices, None, x), three),
        (lambda: registered.increment(sums, change.rows, change.indptr, change.indices, None, x)[0], change.rows),
    ):
        out, before = call(), ids.clone()
        ids[0] = 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()
        ids.copy_(before)


def test_what_was_never_checked_is_refused_by_every_operator(backend: str, device: str) -> None:
    x = torch.ones(2, 1, device=device)
    with pytest.raises(UserError, match=r"in \[0, 2\)"):
        aggregate(CSR(pointer(0, 1, 2), ints(0, 2), None, 2).to(device), x, backend)
    with pytest.raises(UserError, match="must ascend"):
        increment_(x.clone(), Delta(ints(0), pointer(0, 2**40), ints(0), None, 2, 2).to(device), x, backend)
    with pytest.raises(UserError, match=r"in \[0, 2\)"):
        rebuild(
            CSR(pointer(0, 1, 2), ints(0, 1), None, 2).to(device),
            EdgeMap(ints(0), pointer(0, 1), ints(-1), torch.ones(1, dtype=torch.int8), 2).to(device),
            backend=backend,
        )
    if backend == "reference":
        return
    with pytest.raises(UserError, match=r"in \[0, 2\)"):
        torch.ops.chronoscale.aggregate(pointer(0, 1, 2).to(device), ints(0, -1).to(device), None, x)
    with pytest.raises(UserError, match="twice"):
        torch.ops.chronoscale.increment_(x, ints(1, 1).to(device), pointer(0, 0, 0).to(device), ints().to(device), None, x.clone())
