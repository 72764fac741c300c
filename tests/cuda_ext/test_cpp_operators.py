"""The operators in C++: that they serve, what they refuse, what is said where they are not there. What they compute: the other files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from emulation.builder import library as emulated_library
from native_case import needs_cpu, without_cpp_operators
from torch import Tensor

from chronoscale.cuda_ext.native import abi, cpp_build, cpp_operators, loader
from chronoscale.cuda_ext.operators.aggregation import aggregate, increment, increment_
from chronoscale.cuda_ext.operators.edge_softmax import edge_softmax
from chronoscale.cuda_ext.operators.edges import aggregate_edges
from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.cuda_ext.operators.gates import gates
from chronoscale.cuda_ext.operators.graph import CSR, Delta
from chronoscale.cuda_ext.operators.slots import Slots, attend
from chronoscale.cuda_ext.operators.tables import gather_rows
from chronoscale.errors import MachineError, UserError

pytestmark = [needs_cpu, pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")]


def leaf(*size: int) -> Tensor:
    return torch.rand(*size, generator=torch.Generator().manual_seed(len(size)), dtype=torch.float64).requires_grad_()


def ints(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


GRAPH = CSR(torch.tensor([0, 2, 2, 5]), ints(0, 1, 0, 2, 1), torch.rand(5), 3)
CHANGE = Delta(ints(2, 0), torch.tensor([0, 1, 3]), ints(1, 0, 2), None, 3, 3, torch.tensor([0, 1], dtype=torch.uint8))
SLOTS = Slots(
    torch.tensor([[0, 1], [1, 0]]), torch.tensor([[True, False], [True, True]]), torch.rand(2, 2, dtype=torch.float64), leaf(2, 2, 1)
)
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {  # an operator, and what it is given
    "_aggregate": (aggregate, (GRAPH, leaf(3, 2))),
    "_increment": (increment, (leaf(3, 2), CHANGE, leaf(3, 2))),
    "_increment_": (increment_, (torch.ones(3, 2), CHANGE, torch.ones(3, 2))),
    "_attend": (attend, (leaf(2, 1, 6), leaf(2, 3), SLOTS, (leaf(2), leaf(2)))),
    "_attend to edges": (attend, (leaf(2, 1, 4), leaf(2, 3), SLOTS._replace(elapsed=None))),
    "_gates": (gates, (leaf(3, 6), leaf(3, 6), leaf(3, 2), torch.tensor([True, False, True]))),
    "_encode": (encode, (torch.rand(3, dtype=torch.float64), leaf(2), leaf(2))),
    "_aggregate_edges": (aggregate_edges, (leaf(3, 2), ints(0, 2, 0), 3)),
    "_gather_rows": (gather_rows, (leaf(2, 3), leaf(1, 3), ints(2, 0, 1, 2))),
    "_edge_softmax": (edge_softmax, (leaf(5, 2), torch.tensor([0, 2, 2, 5]))),
}
GRADED = [name for name in CALLS if name != "_increment_"]


def leaves(given: Any) -> list[Tensor]:
    parts = [given] if isinstance(given, Tensor) else [one for part in given for one in leaves(part)] if isinstance(given, tuple) else []
    return [part for part in parts if isinstance(part, Tensor) and part.requires_grad]


def first(made: Any) -> Tensor:
    return made[0] if isinstance(made, tuple) else made


@pytest.mark.parametrize("name", CALLS)
def test_an_operator_serves_what_fits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No call of a kernel goes through ctypes, backwards neither."""
    operator, given = CALLS[name]
    for way in ("call_for_status", "call"):
        monkeypatch.setattr(abi, way, lambda *_: pytest.fail("went through ctypes"))
    monkeypatch.setattr("chronoscale.cuda_ext.native.slots._call", lambda *_: pytest.fail("went through ctypes"))
    made = first(operator(*given))
    if name in GRADED:
        assert made.grad_fn is not None and "cpp_operators::" in made.grad_fn.name()
        made.sum().backward()


@pytest.mark.parametrize("name", GRADED)
def test_gradients_are_those_of_ctypes(name: str) -> None:
    operator, given = CALLS[name]
    found = []
    for way in (without_cpp_operators, None):
        if way is None:
            made = first(operator(*given))
        else:
            with way():
                made = first(operator(*given))
        found.append([made.detach(), *torch.autograd.grad((made * made).sum(), leaves(given), allow_unused=True)])
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", GRADED)
def test_each_gradient_alone(name: str) -> None:
    """Which operand needs one is found whatever stands before it."""
    operator, given = CALLS[name]
    everything = leaves(given)
    whole = torch.autograd.grad(first(operator(*given)).square().sum(), everything, allow_unused=True)
    for at, one in enumerate(everything):
        for other in everything:
            other.requires_grad_(other is one)
        try:
            alone = torch.autograd.grad(first(operator(*given)).square().sum(), [one], allow_unused=True)
        finally:
            for other in everything:
                other.requires_grad_()
        for mine, theirs in zip(alone, whole[at : at + 1], strict=True):
            assert (mine is None) == (theirs is None)
            assert mine is None or torch.equal(mine, theirs)


SPOILT: dict[str, Callable[[Tensor], Any]] = {
    "strided": lambda x: torch.stack([x] * 2, -1)[..., 0],
    "negated": lambda x: torch._neg_view(x) if x.is_floating_point() else x.bool(),
    "short": lambda x: shortened(x.detach().clone()),
    "of other numbers": lambda x: x.detach().half() if x.is_floating_point() else x.float(),
    "one more": lambda x: torch.cat([x.detach(), x.detach()[:1]]),
    "flat": lambda x: x.detach()[None],
    "one number": lambda x: x.detach().flatten()[0],
    "elsewhere": lambda x: torch.empty_like(x, device="meta"),
}


def shortened(tensor: Tensor) -> Tensor:
    tensor.untyped_storage().resize_(1)
    return tensor


def spoilt(given: Any, at: int, how: Callable[[Tensor], Any]) -> tuple[Any, int]:
    """What an operator is given, its at-th tensor spoilt, and how many tensors are left to pass by."""
    if isinstance(given, Tensor):
        return (how(given) if at == 0 else given), at - 1
    if not isinstance(given, tuple):
        return given, at
    parts = []
    for part in given:
        part, at = spoilt(part, at, how)
        parts.append(part)
    return (type(given)(*parts) if hasattr(given, "_fields") else tuple(parts)), at


@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize("name", CALLS)
def test_what_does_not_fit_is_refused_as_by_python(name: str, how: str) -> None:
    """Whatever is wrong with an operand: the same result, or the same words."""
    operator, given = CALLS[name]
    count = -spoilt(given, 10**6, SPOILT[how])[1] + 10**6

    def tried(at: int) -> Any:
        try:
            return first(operator(*spoilt(given, at, SPOILT[how])[0]))
        except Exception as error:  # of whatever kind: both ways have to end alike
            return type(error), str(error)

    for at in range(count):
        found = tried(at)
        with without_cpp_operators():
            expected = tried(at)
        if isinstance(expected, Tensor) and isinstance(found, Tensor):
            torch.testing.assert_close(found, expected)
        else:
            assert found == expected


@pytest.mark.parametrize("name", ["_attend", "_gates", "_encode", "_gather_rows", "_edge_softmax"])
def test_what_is_differentiable_once_says_so(name: str) -> None:
    operator, given = CALLS[name]
    (grad,) = torch.autograd.grad(first(operator(*given)).square().sum(), leaves(given)[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="differentiable once"):
        grad.sum().backward()


def test_a_gradient_asked_for_twice_is_kept_where_nobody_asks_again() -> None:
    operator, given = CALLS["_gates"]
    found = torch.autograd.grad(first(operator(*given)).square().sum(), leaves(given), create_graph=True)
    expected = torch.autograd.grad(first(operator(*given)).square().sum(), leaves(given))
    assert all(torch.equal(one.detach(), other) for one, other in zip(found, expected, strict=True))


def test_aggregation_is_differentiable_twice() -> None:
    assert torch.autograd.gradgradcheck(lambda x: aggregate(GRAPH, x), leaf(3, 2))


def test_without_a_gradient_nothing_is_kept() -> None:
    for name, (operator, given) in CALLS.items():
        with torch.no_grad():
            assert first(operator(*given)).grad_fn is None, name


def test_what_failed_for_another_reason_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, given = CALLS["_gates"]
    ops = cpp_operators.load_operators()
    monkeypatch.setattr(ops, "gates", lambda *_: (_ for _ in ()).throw(RuntimeError("chronoscale native gates: out of memory\nat …")))
    with pytest.raises(MachineError, match=r"^chronoscale native gates: out of memory$"):
        operator(*given)
    monkeypatch.setattr(ops, "gates", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("full")))
    with pytest.raises(torch.OutOfMemoryError):
        operator(*given)


def test_kernels_that_are_not_there_are_named() -> None:
    cpu, ops = loader.cpu_library(), cpp_operators.load_operators()
    assert cpu is not None
    ops.open("", "", False)
    try:
        with pytest.raises(MachineError, match="no cs_gates_f64 in the native libraries"):
            gates(*CALLS["_gates"][1])
    finally:
        ops.open(cpu._name, "", False)


def test_operators_of_other_sources_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp_operators, "_overload", lambda packet: packet.another)
    with pytest.raises(MachineError, match="is of another version of this package; `chronoscale compile` makes it anew"):
        cpp_operators.load_operators.__wrapped__()


def test_sums_that_were_written_are_known_to_have_been() -> None:
    sums, weight = torch.ones(3, 2), leaf(3, 2).float().detach().requires_grad_()
    made = (weight * sums).sum()
    with torch.no_grad():
        increment_(sums, CHANGE, torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.backward()


def test_tangents_are_refused_not_dropped() -> None:
    with torch.autograd.forward_ad.dual_level():
        frequency = torch.autograd.forward_ad.make_dual(torch.rand(2), torch.rand(2))
        with pytest.raises((RuntimeError, NotImplementedError)):
            encode(torch.rand(3), frequency, torch.rand(2))


def test_who_listens_hears_of_kernels() -> None:
    heard: list[str] = []
    listener = lambda name, *_: heard.append(name)  # noqa: E731
    abi.listeners.append(listener)
    try:
        aggregate(GRAPH, torch.ones(3, 2))
    finally:
        abi.listeners.remove(listener)
    assert heard == ["aggregate_f32"]


def test_who_wants_none_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    find = cpp_operators.load_operators.__wrapped__
    monkeypatch.setenv(cpp_operators.CHOICE_VARIABLE, "python")
    assert find() is None
    monkeypatch.setenv(cpp_operators.CHOICE_VARIABLE, "cpp")
    with pytest.raises(UserError, match=r"CHRONOSCALE_OPERATORS is 'cpp'; expected 'python' or 'c\+\+'"):
        find()


def test_what_is_not_there_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    find = cpp_operators.load_operators.__wrapped__
    monkeypatch.setattr(cpp_operators, "library_folders", lambda: [str(tmp_path)])
    monkeypatch.delenv(cpp_operators.CHOICE_VARIABLE, raising=False)
    assert find() is None
    monkeypatch.setenv(cpp_operators.CHOICE_VARIABLE, "c++")
    with pytest.raises(MachineError, match=r"there is no libchronoscale_torch-.*; `chronoscale compile` makes it"):
        find()
    (tmp_path / cpp_operators.file_name()).write_bytes(b"no library")
    with pytest.raises(MachineError, match=r"does not load: .*`chronoscale compile` makes it anew"):
        find()


def test_operators_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    name = cpp_operators.file_name()
    monkeypatch.setattr(cpp_operators, "ABI_VERSION", loader.ABI_VERSION + 1)
    monkeypatch.setattr(cpp_operators, "file_name", lambda: name)
    with pytest.raises(MachineError, match=rf"has version {loader.ABI_VERSION} of the native interface, not {loader.ABI_VERSION + 1}"):
        cpp_operators.load_operators.__wrapped__()


@pytest.mark.parametrize(
    ("compiler", "said"),
    [
        ("false", "false does not compile the operators"),
        ("no-such-compiler", "the operators cannot be compiled: no-such-compiler: no such file"),
        ("c++ --no-such-option", "does not compile the operators: .*no-such-option"),
    ],
)
def test_what_does_not_compile_is_said_and_leaves_nothing(compiler: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", compiler)
    library = loader.cpu_library()
    assert library is not None
    folder = Path(library._name).parent
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}
    with pytest.raises(MachineError, match=said):
        cpp_build.compile_operators()
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()} == before


LONG = ("_aggregate", "_increment", "_edge_softmax", "_aggregate_edges", "_encode")


def hub(entries: int = 1500) -> tuple[CSR, Delta]:
    """A matrix and a change with a row of more than two pieces (CUDA sums it by several blocks), one of none, and one of two."""
    pointer = torch.tensor([0, 2, 2, entries])
    ids = torch.randint(0, 3, (entries,), dtype=torch.int32, generator=torch.Generator().manual_seed(1))
    return CSR(pointer, ids, torch.rand(entries), 3), Delta(ints(2, 1, 0), pointer, ids, torch.rand(entries), 3, 3)


@pytest.mark.parametrize(("name", "long"), [*((name, False) for name in GRADED), *((name, True) for name in LONG)])
def test_launches_on_cuda(name: str, long: bool, emulation: None) -> None:
    """With the emulated kernels in CUDA's place: what is handed to them is right, rooms for long rows too."""
    operator, given = CALLS[name]
    if long:
        graph, change = hub()
        given = {
            "_aggregate": (graph, leaf(3, 2)),
            "_increment": (leaf(3, 2), change, leaf(3, 2)),
            "_edge_softmax": (leaf(graph.nnz, 2), graph.indptr),
            "_aggregate_edges": (leaf(graph.nnz, 2), graph.indices, 3),
            "_encode": (torch.rand(graph.nnz, dtype=torch.float64), *given[1:]),
        }[name]
    expected = [made := first(operator(*given)), *torch.autograd.grad(made.square().sum(), leaves(given), allow_unused=True)]
    cpu, ops = loader.cpu_library(), cpp_operators.load_operators()
    assert cpu is not None
    ops.open(cpu._name, emulated_library()._name, True)
    try:
        found = [made := first(operator(*given)), *torch.autograd.grad(made.square().sum(), leaves(given), allow_unused=True)]
    finally:
        ops.open(cpu._name, "", False)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other, rtol=1e-12, atol=1e-12)
    assert "cpp_operators::" in found[0].grad_fn.name()
