"""Errors of forecasts where the truth is known, by brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chronoscale.real_exec.signals.forecast.masked_errors import MaskedErrors, masked_sum

values = st.one_of(st.just(float("nan")), st.sampled_from([0.0, 1e-4]), st.floats(-50, 50))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(-50, 50), values), min_size=1, max_size=12), st.integers(0, 12))
def test_masked_errors(pairs: list[tuple[float, float]], cut: int) -> None:
    prediction = torch.tensor([p for p, _ in pairs], dtype=torch.float64, requires_grad=True)
    target = torch.tensor([t for _, t in pairs], dtype=torch.float64)
    known = [(p, t) for p, t in pairs if t == t]
    total, count = masked_sum(prediction, target)
    assert int(count) == len(known)
    assert float(total.detach()) == pytest.approx(sum(abs(p - t) for p, t in known))
    total.backward()
    assert prediction.grad is not None and prediction.grad.tolist() == [float((p > t) - (p < t)) if t == t else 0.0 for p, t in pairs]
    errors = MaskedErrors.of(prediction[:cut], target[:cut]) + MaskedErrors.of(prediction[cut:], target[cut:]) + MaskedErrors()
    large = [(p, t) for p, t in known if abs(t) > 1e-3]
    sums = [sum(abs(p - t) for p, t in known), sum((p - t) ** 2 for p, t in known), sum(abs(p - t) / abs(t) for p, t in large)]
    np.testing.assert_allclose(errors.sums.numpy(), [*sums, len(known), len(large)], rtol=1e-9, atol=1e-12)
    if known:
        assert errors.mae == pytest.approx(sums[0] / len(known))
        assert errors.rmse == pytest.approx((sums[1] / len(known)) ** 0.5)
    if large:
        assert errors.mape == pytest.approx(sums[2] / len(large))
