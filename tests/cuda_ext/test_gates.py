"""The gates of a GRU: against torch's own cell, on any number of threads."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from native_case import LAYERED, needs_cpu, run_on
from torch import Tensor

from chronoscale.cuda_ext.native import backend
from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.native.loader import cpu_library
from chronoscale.cuda_ext.operators.gates import gates
from chronoscale.errors import UserError

pytestmark = pytest.mark.usefixtures("threads")


def case(rows: int, hidden: int, seed: int = 0, size: float = 3.0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    """Draw from_input, from_memory, memory and mask."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)

    there = torch.rand(rows, generator=generator) > 0.3
    return size * random(rows, 3 * hidden), size * random(rows, 3 * hidden), random(rows, hidden), there


@pytest.mark.parametrize("backend", LAYERED)
@given(rows=st.integers(0, 130), hidden=st.integers(1, 40), seed=st.integers(0, 99))
def test_equals_torchs_cell(backend: str, rows: int, hidden: int, seed: int) -> None:
    x, state = torch.randn(rows, 4, generator=torch.Generator().manual_seed(seed)), case(rows, hidden, seed, dtype=torch.float32)[2]
    there, cell = case(rows, hidden, seed)[3], torch.nn.GRUCell(4, hidden)
    given_, kept = x @ cell.weight_ih.t() + cell.bias_ih, state @ cell.weight_hh.t() + cell.bias_hh
    found = run_on(backend, gates, given_, kept, state, there)
    torch.testing.assert_close(found[there], cell(x, state)[there], rtol=0, atol=2e-6)
    assert torch.equal(found[~there], state[~there])


@pytest.mark.parametrize("hidden", [5, 4])  # numbers alone, and packs of them
def test_gradients_of_gates(backend: str, device: str, hidden: int) -> None:
    before, kept, memory, there = (tensor.to(device) for tensor in case(9, hidden))
    asked = (before.requires_grad_(), kept.requires_grad_())
    assert torch.autograd.gradcheck(lambda g, k, s: gates(g, k, s, there, backend=backend), (*asked, memory.clone().requires_grad_()))
    gates(*asked, memory, there, backend=backend).sum().backward()
    assert memory.grad is None
    assert not before.grad[~there].any() and before.grad[there].any()  # type: ignore[index]


@pytest.mark.parametrize("size", [1e-4, 0.1, 0.3, 3.0, 40.0, 1e4])
def test_float32_is_as_near_as_torchs_operators(backend: str, device: str, size: float) -> None:
    """Beside float64, forward and backward, from where tanh is its argument to where everything is saturated."""
    given_ = tuple(tensor.to(device) for tensor in case(400, 20, size=size, dtype=torch.float32))
    into = torch.randn(400, 20, generator=torch.Generator().manual_seed(1)).to(device)

    def ran(tensors: tuple[Tensor, ...], backend: str, into: Tensor) -> list[Tensor]:
        leaves = [tensors[0].clone().requires_grad_(), tensors[1].clone().requires_grad_()]
        found = run_on(backend, gates, *leaves, *tensors[2:])
        return [found.detach(), *torch.autograd.grad(found, leaves, into)]

    as_given = tuple(t.double() if t.is_floating_point() else t for t in given_)
    truth = ran(as_given, "reference", into.double())
    for ours, theirs, right in zip(ran(given_, backend, into), ran(given_, "reference", into), truth, strict=True):
        assert (ours - right).abs().max() <= 4 * (theirs - right).abs().max() + 2e-7


@needs_cpu
@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.05, 0.2, 0.24, 0.26, 0.5, 2.0])
def test_small_candidates_keep_their_digits(size: float) -> None:
    """Where gates are shut against the past, new memory is tanh of what is given."""
    given_, kept = torch.zeros(1, 30), torch.zeros(1, 30)
    given_[:, 10:20], given_[:, 20:] = -200.0, size * torch.linspace(-1, 1, 10)
    found = gates(given_, kept, torch.ones(1, 10), torch.ones(1, dtype=torch.bool), backend="cpu")
    torch.testing.assert_close(found.double(), given_[:, 20:].double().tanh(), rtol=3e-6, atol=0)


@needs_cpu
def test_gates_do_not_depend_on_threads() -> None:
    tensors, into = case(1500, 70, dtype=torch.float32), torch.randn(1500, 70)
    found = []
    for count in (1, 2, 8):
        set_threads(count)
        leaves = [tensors[0].clone().requires_grad_(), tensors[1].clone().requires_grad_()]
        out = gates(*leaves, *tensors[2:], backend="cpu")
        found.append((out.detach(), *torch.autograd.grad(out, leaves, into)))
    assert all(torch.equal(one, other) for others in found[1:] for one, other in zip(found[0], others, strict=True))


@pytest.mark.parametrize("at", [0, 3, 5])
def test_nan_is_not_swallowed(backend: str, device: str, at: int) -> None:
    before, kept, memory, _ = (tensor.to(device) for tensor in case(1, 2, dtype=torch.float32))
    before[0, at] = torch.nan
    assert gates(before, kept, memory, torch.ones(1, dtype=torch.bool, device=device), backend=backend)[0, at % 2].isnan()


@pytest.mark.parametrize("hidden", [40, 260])
def test_wide_rows_and_rows_that_are_not_there(backend: str, device: str, hidden: int) -> None:
    """Packs side by side, more of them than lanes; beside the reference in float64."""
    tensors = case(37, hidden, dtype=torch.float32)
    made = []
    for name, there, dtype in ((backend, device, torch.float32), ("reference", "cpu", torch.float64)):
        leaves = [tensor.to(there, dtype).requires_grad_() for tensor in tensors[:3]]
        out = gates(*leaves, tensors[3].to(there), backend=name)
        made.append([tensor.detach().cpu().double() for tensor in (out, *torch.autograd.grad(out.sin().sum(), leaves))])
    for mine, theirs in zip(*made, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    assert torch.equal(made[0][0][~tensors[3]], tensors[2][~tensors[3]].double())


def test_what_does_not_fit_is_said() -> None:
    before, kept, memory, there = case(4, 3, dtype=torch.float32)
    for tensors, said in (
        ((before[:, :8], kept, memory, there), "from_input is"),
        ((before, kept.double(), memory, there), "from_memory is"),
        ((before, kept, memory[:3], there), "from_input is"),
        ((before, kept, memory[0], there), "memory is"),
        ((before, kept, memory, there.float()), "mask is"),
        ((before, kept, memory.t().contiguous().t(), there), "memory is"),
    ):
        with pytest.raises(UserError) as raised:
            gates(*tensors)
        assert said in str(raised.value)


@needs_cpu
def test_threads_that_were_set_stay() -> None:
    """Also where a device is asked about in another way than before."""
    library = cpu_library()
    assert library is not None
    set_threads(3)
    backend.unavailable_reason.cache_clear()
    backend._default.cache_clear()
    gates(*case(2, 3))
    gates(*case(2, 3), backend="cpu")
    assert library.cs_get_threads() == 3
