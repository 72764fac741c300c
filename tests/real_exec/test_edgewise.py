"""Attention edge by edge, by either operator, against the one that goes over slots in one pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from stream_case import one_pass, prepared, stream

from chronoscale.cuda_ext.operators.slots import Slots
from chronoscale.cuda_ext.operators.slots import attend as in_one_pass
from chronoscale.real_exec.streams.models import edgewise
from chronoscale.strategies.streams.feeding import OPERATORS, Operators

EDGEWISE = OPERATORS[1:]


def case(targets: int = 7, fanout: int = 4, edge: int = 2, share: float = 0.6) -> tuple[list[torch.Tensor], Slots, torch.Tensor, int]:
    torch.manual_seed(targets)
    there = torch.arange(fanout) < torch.randint(0, fanout + 1, (targets, 1)) * (share > 0)
    slot = torch.randint(0, 5, (targets, fanout)) * there
    beside = torch.randn(targets, fanout, edge).double() if edge else None
    slots = Slots(slot, there, 10 * torch.rand(targets, fanout).double(), beside)
    queries, source = torch.randn(targets, 2, 3 + edge + 3).double(), torch.randn(5, 3).double()
    leaves = [queries, source, torch.rand(3).double(), torch.rand(3).double(), *([beside] if beside is not None else [])]
    return [leaf.requires_grad_() for leaf in leaves], slots, (torch.rand(targets, 2, fanout) > 0.3).double(), int(there.sum())


@pytest.mark.parametrize("operators", EDGEWISE)
@pytest.mark.parametrize(("edge", "kept", "share"), [(2, True, 1.0), (0, False, 1.0), (2, False, 0.0)])
def test_it_is_the_other_with_its_gradients(operators: Operators, edge: int, kept: bool, share: float) -> None:
    leaves, slots, keep, filled = case(edge=edge, share=share)
    queries, source, *encoding = leaves[:4]
    keep = keep if kept else None
    clock = encoding[0], encoding[1]
    first = edgewise.attend(queries, source, slots, filled, clock, keep, operators)
    other = in_one_pass(queries, source, slots, clock, keep)
    torch.testing.assert_close(first, other, rtol=0, atol=1e-12)
    into = torch.randn_like(first)
    built = (torch.autograd.grad(out, leaves, into, allow_unused=True, materialize_grads=True) for out in (first, other))
    for got, wanted_grad in zip(*built, strict=True):
        torch.testing.assert_close(got, wanted_grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("model", ["tgn", "tgat"])
def test_an_epoch_with_either_is_the_same_to_rounding(tmp_path: Path, model: str) -> None:
    folder = prepared(tmp_path, stream(features=3, events=80))
    built = {name: one_pass(folder, model, name, layers=2) for name in ("tgl", "fast-none", "fast-sc", "fast-sc-te", "fast-sc-te-ta")}
    words = {name: each.learner.model.operators for name, (each, _) in built.items()}
    assert words == {"tgl": "", "fast-none": "nodes", "fast-sc": "nodes", "fast-sc-te": "edges", "fast-sc-te-ta": "edges"}
    losses = {name: done.losses for name, (_, done) in built.items()}
    for name in losses:
        np.testing.assert_allclose(losses[name], losses["tgl"], rtol=2e-5)
    assert (losses["fast-none"] == losses["fast-sc"]).all() and (losses["fast-sc-te"] == losses["fast-sc-te-ta"]).all()
