"""Calls of attention to sampled slots: a sound one is drawn, then something about its arguments is spoilt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from fuzz.malformed.spoilt import spoil
from torch import Tensor

from chronoscale.cuda_ext.operators.slots import Slots, attend

Call = Callable[[str], tuple[Any, ...]]
LEAVES = ("wanted", "source", "edge", "frequency", "phase")


def slots(generator: np.random.Generator) -> Call:
    targets, fanout, heads, width, edges, clock, sources = (int(generator.integers(0, most)) for most in (9, 6, 4, 9, 5, 9, 7))
    if generator.random() < 0.05:
        targets, fanout, heads, width, clock, sources = 700, 9, 2, 40, 20, 300  # enough for helpers
    dtype = (torch.float32, torch.float32, torch.float64)[generator.integers(3)]

    def floats(*size: int) -> Tensor:
        return torch.from_numpy(generator.normal(size=size)).to(dtype)

    a: dict[str, Any] = {
        "wanted": floats(targets, heads, width + edges + clock),
        "source": floats(sources, width),
        "slot": torch.from_numpy(generator.integers(0, max(sources, 1), (targets, fanout))),
        "there": torch.from_numpy(generator.random((targets, fanout)) < (0.7 if sources else 0)),
        "elapsed": 10 ** float(generator.integers(10)) * floats(targets, fanout).abs(),
        "edge": floats(targets, fanout, edges) if edges else None,
        "frequency": floats(clock),
        "phase": floats(clock),
        "keep": 2.0 * floats(targets, heads, fanout).gt(0).to(dtype) if generator.random() < 0.5 else None,
    }
    grades = [name for name in LEAVES if a[name] is not None and generator.random() < 0.7]
    for name in grades:
        a[name].requires_grad_()
    spoil(generator, a)
    writes, at, number = generator.random() < 0.1, generator.random(), int(generator.choice([-1, 9, 100, 2**30, -(2**63)]))

    def call(backend: str) -> tuple[Any, ...]:
        given = Slots(a["slot"], a["there"], a["elapsed"], a["edge"])
        sums = attend(a["wanted"], a["source"], given, (a["frequency"], a["phase"]), a["keep"], backend)
        if not sums.requires_grad:
            return (sums,)
        slot = a["slot"]
        if writes and slot.numel():
            slot.numpy().reshape(-1)[int(at * slot.numel())] = number  # past torch's counting
        (sums * torch.arange(sums.numel()).cos().view_as(sums)).sum().backward()
        # Gradients are differences: of numbers like 1e38 no digit is promised.
        tame = not writes and all(bool((a[name].detach().abs() < 1e3).all()) for name in (*LEAVES, "keep") if a[name] is not None)
        return (sums, *(leaf.grad for leaf in map(a.get, LEAVES) if tame and isinstance(leaf, Tensor) and leaf.grad is not None))

    return call


KINDS = (slots,)
