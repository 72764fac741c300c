"""Incremental aggregation over a long run equals the whole: values and gradients, on every backend."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from changing_graphs import STEPS, changing, distance, operand
from torch import Tensor

from chronoscale.cuda_ext.operators.aggregation import aggregate, increment, increment_
from chronoscale.cuda_ext.operators.graph import Delta
from chronoscale.datasets.snapshots.csr import Variant
from chronoscale.datasets.snapshots.difference import delta_csr
from chronoscale.datasets.snapshots.sequence import Snapshot
from chronoscale.errors import UserError

WIDTH = 8


def delta(before: Snapshot, after: Snapshot, variant: Variant = "exact") -> Delta:
    made = delta_csr(before, after, variant)
    rows, indptr, indices, values, fresh = (torch.from_numpy(a) for a in (made.rows, made.indptr, made.indices, made.values, made.fresh))
    return Delta(rows, indptr, indices, values, before.num_nodes, before.num_nodes, fresh)


@pytest.fixture(scope="module")
def run() -> tuple[list[Snapshot], list[Delta]]:
    snapshots = list(changing())
    return snapshots, [delta(a, b) for a, b in pairwise(snapshots)]


def normal(rows: int, seed: int, device: str = "cpu") -> Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed)).to(device)


@pytest.mark.slow
def test_the_run_has_what_increments_find_hard(run: tuple[list[Snapshot], list[Delta]]) -> None:
    snapshots, deltas = run
    degree = snapshots[-1].in_degree()
    assert len(deltas) == STEPS and degree.max() > 200 and degree.min() == 0
    assert any(len(d.rows) == 0 for d in deltas)
    keys = [s.keys() for s in snapshots[:13]]
    assert np.array_equal(keys[11], keys[9]) and not np.array_equal(keys[10], keys[9])
    fresh = torch.cat([d.fresh for d in deltas if d.fresh is not None])
    assert 0 < int(fresh.sum()) < len(fresh)


@pytest.mark.sample(1)
def test_a_thousand_changes_equal_the_whole(run: tuple[list[Snapshot], list[Delta]], backend: str, device: str, steps: int) -> None:
    snapshots, deltas = run
    x = normal(snapshots[0].num_nodes, 1, device)
    sums = aggregate(operand(snapshots[0], device=device)[0], x, backend)
    worst = 0.0
    for t, change in enumerate(deltas[:steps], 1):
        touched = increment_(sums, change.to(device), x, backend)
        assert torch.equal(touched, sums[change.rows.long()])
        if t % 50 == 0:
            worst = max(worst, distance(sums, aggregate(operand(snapshots[t], device=device)[0], x, backend)))
    assert worst < 1e-6


@pytest.mark.slow
def test_gradients_of_a_thousand_changes_equal_those_of_the_whole(
    run: tuple[list[Snapshot], list[Delta]], backend: str, device: str, steps: int
) -> None:
    snapshots, deltas = run
    deltas = [change.to(device) for change in deltas[:steps]]
    watched = {steps: normal(snapshots[0].num_nodes, 2, device)}
    for more in ({}, {t: normal(snapshots[0].num_nodes, t, device) for t in (3 * steps // 10, 6 * steps // 10, 9 * steps // 10)}):
        watched |= more
        x, y = (normal(snapshots[0].num_nodes, 1, device).requires_grad_() for _ in range(2))
        sums = aggregate(operand(snapshots[0], device=device)[0], x, backend)
        loss = torch.zeros((), device=device)
        for t, change in enumerate(deltas, 1):
            sums, _ = increment(sums, change, x, backend)
            if t in watched:
                loss = loss + (sums * watched[t]).sum()
        loss.backward()
        whole = sum((aggregate(operand(snapshots[t], device=device)[0], y, backend) * g).sum() for t, g in watched.items())
        assert isinstance(whole, Tensor) and x.grad is not None
        whole.backward()
        assert y.grad is not None and distance(x.grad, y.grad) < 1e-6


def test_the_published_form_drifts_where_degrees_change(run: tuple[list[Snapshot], list[Delta]]) -> None:
    snapshots = run[0][:101]
    x = normal(snapshots[0].num_nodes, 1)
    sums = aggregate(operand(snapshots[0], "as-published")[0], x)
    for before, after in pairwise(snapshots):
        increment_(sums, delta(before, after, "as-published"), x)
    graph, scale = operand(snapshots[-1])
    error = distance(sums, aggregate(graph, x) * scale[:, None])
    print(f"as published, relative error after {len(snapshots) - 1} changes of 1 %: {error:.2e}")
    assert error > 1e-3


@pytest.mark.parametrize("width", [1, 3, 16, 33, 130])
def test_fresh_rows_do_not_read_the_old_sum(backend: str, device: str, width: int) -> None:
    before, *_, after = changing(200, 3000, 40)
    change, x = delta(before, after), torch.randn(200, width, dtype=torch.float64)
    assert change.fresh is not None and 0 < change.fresh.sum() < len(change.rows)
    sums = aggregate(operand(before)[0], x, "reference")
    sums[change.rows[change.fresh.bool()].long()] = torch.nan
    new, touched = increment(sums.to(device), change.to(device), x.to(device), backend)
    torch.testing.assert_close(new.cpu(), aggregate(operand(after)[0], x, "reference"), rtol=1e-6, atol=1e-6)
    assert torch.equal(touched, new[change.rows.long()])


def test_fresh_rows_stop_the_gradient(backend: str, device: str) -> None:
    before, after = list(changing(12, 30, 1))
    change = delta(before, after)
    change = Delta(change.rows, change.indptr, change.indices, change.values, 12, 12, torch.arange(len(change.rows)).to(torch.uint8) % 2)
    change = change.check().to(device)
    sums, x = (torch.randn(12, 3, dtype=torch.float64, device=device, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda sums, x: increment(sums, change, x, backend), (sums, x))
    (into,) = torch.autograd.grad(increment(sums, change, x, backend)[0].sum(), sums)
    expected = torch.ones_like(sums)
    expected[change.rows[1::2].long()] = 0
    assert torch.equal(into, expected)


def test_the_registered_operator_takes_fresh_rows() -> None:
    before, after = list(changing(12, 30, 1))
    d = delta(before, after)
    sums, x = (torch.randn(12, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    ops = torch.ops.chronoscale
    arguments = (sums, d.rows, d.indptr, d.indices, d.values, x, torch.ones(len(d.rows), dtype=torch.uint8))
    torch.library.opcheck(ops.increment, arguments)
    assert torch.autograd.gradcheck(lambda sums, x: ops.increment(sums, *arguments[1:5], x, arguments[6]), (sums, x))


def test_malformed_fresh_is_an_error() -> None:
    before, after = list(changing(12, 30, 1))
    d = delta(before, after)
    for fresh, message in (
        (torch.ones(len(d.rows)), "float32"),
        (torch.ones(99, dtype=torch.uint8), "99 entries"),
        (torch.full((len(d.rows),), 2, dtype=torch.uint8), "0 or 1"),
    ):
        with pytest.raises(UserError, match=message):
            Delta(d.rows, d.indptr, d.indices, d.values, 12, 12, fresh).check()
