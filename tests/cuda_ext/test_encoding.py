"""Encodings of elapsed times: against the cosine of the right angle, on any number of threads."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from native_case import LAYERED, needs_cpu, run_on

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.cuda_ext.operators.encoding import encode
from chronoscale.errors import UserError

pytestmark = pytest.mark.usefixtures("threads")


@pytest.mark.parametrize("backend", LAYERED)
@given(rows=st.integers(0, 90), clock=st.integers(0, 40), longest=st.sampled_from([1.0, 1e4, 1e9, 1e12]), seed=st.integers(0, 99))
def test_encodings_equal_the_cosine_of_the_right_angle(backend: str, rows: int, clock: int, longest: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    elapsed, frequency, phase = (torch.rand(count, generator=generator) for count in (rows, clock, clock))
    outputs = run_on(backend, encode, longest * elapsed, frequency, phase)
    angle = (longest * elapsed).double()[:, None] * frequency.double() + phase.double()
    torch.testing.assert_close(outputs.double(), angle.cos(), rtol=0, atol=3e-7)


@pytest.mark.parametrize("rows", [8, 600])  # more rows than are summed at once
def test_gradients_of_encodings(backend: str, device: str, rows: int) -> None:
    elapsed = torch.linspace(0, 9, rows, dtype=torch.float64, device=device)
    parameters = tuple(torch.rand(2, dtype=torch.float64, device=device, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda f, p: encode(elapsed, f, p, backend=backend), parameters)


@pytest.mark.parametrize("clock", [36, 200])
def test_angles_and_sums_in_packs(backend: str, device: str, clock: int) -> None:
    """Elapsed times near and far, of which angles have every quarter of a turn; beside the formula in float64."""
    generator = torch.Generator().manual_seed(clock)
    elapsed = torch.rand(700, generator=generator) * torch.tensor([1.0, 1e3, 1e6, 1e10]).repeat(175)
    leaves = [torch.randn(clock, generator=generator) for _ in range(2)]
    into = torch.randn(700, clock, generator=generator)
    mine = [leaf.to(device).requires_grad_() for leaf in leaves]
    theirs = [leaf.double().requires_grad_() for leaf in leaves]
    cosines = encode(elapsed.to(device), *mine, backend=backend)
    right = (elapsed.double()[:, None] * theirs[0] + theirs[1]).cos()
    torch.testing.assert_close(cosines.cpu().double(), right, rtol=0, atol=3e-7)
    grads, expected = torch.autograd.grad(cosines, mine, into.to(device)), torch.autograd.grad(right, theirs, into.double())
    for one, other, size in zip(grads, expected, (float(elapsed.sum()), 700.0), strict=True):
        torch.testing.assert_close(one.cpu().double(), other, rtol=0, atol=1e-6 * size)


@needs_cpu
def test_encodings_do_not_depend_on_threads() -> None:
    given_ = torch.rand(3000) * 1e6, torch.rand(100), torch.rand(100)
    results = []
    for count in (1, 2, 8):
        set_threads(count)
        results.append(encode(*given_, backend="cpu"))
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_frequency_that_is_no_number_spoils_only_itself(backend: str, device: str, at: int) -> None:
    frequency = torch.tensor([3e30, 3e20, 1.0])
    frequency[at] = torch.nan
    cosines = encode(torch.tensor([3.0], device=device), frequency.to(device), torch.zeros(3, device=device), backend=backend)[0].cpu()
    right = (3 * frequency.double()).cos().float()
    torch.testing.assert_close(cosines, right, equal_nan=True, rtol=0, atol=1e-6)


@needs_cpu
@pytest.mark.usefixtures("python_operators")
def test_sines_are_computed_only_for_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    made, phase = [], torch.rand(2, requires_grad=True)
    monkeypatch.setattr(torch, "empty_like", lambda tensor: made.append(1) or tensor.clone())
    encode(torch.rand(3), torch.rand(2), phase.detach(), backend="cpu")
    with torch.no_grad():
        encode(torch.rand(3), torch.rand(2), phase, backend="cpu")
    assert not made
    encode(torch.rand(3), torch.rand(2), phase, backend="cpu")
    assert made


def test_operands_that_do_not_fit_are_errors() -> None:
    for times, message in (
        ((torch.rand(3, 1), torch.rand(2), torch.rand(2)), "elapsed is"),
        ((torch.rand(3), torch.rand(2), torch.rand(3)), "frequency is"),
        ((torch.rand(3), torch.rand(2).double(), torch.rand(2)), "frequency is"),
        ((torch.rand(3), torch.rand(2), torch.tensor(1.0)), "phase is"),
        ((torch.rand(3, requires_grad=True), torch.rand(2), torch.rand(2)), "expected a constant"),
    ):
        with pytest.raises(UserError) as raised:
            encode(*times)
        assert message in str(raised.value)
