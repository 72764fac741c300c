"""The process that makes the calls: a seed a line in, as JSON what went wrong or null out."""

from __future__ import annotations

import json
import resource
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from emulation.builder import compiler
from emulation.stand_in import emulated
from fuzz.malformed import edges, groups, slots, temporal, tensors

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.errors import MachineError, UserError

REFUSED = (UserError, MachineError, RuntimeError, TypeError)  # torch raises the last two
Kind = Callable[[np.random.Generator], tensors.Call]
MEMORY = 12 << 30  # of address space: what asks for more is refused it, as on a full machine
KINDS = (*tensors.KINDS, *groups.KINDS, *temporal.KINDS, *slots.KINDS, *edges.KINDS)


def serve() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    set_threads(3)
    for line in sys.stdin:
        print(json.dumps(problem_of(int(line))), flush=True)


def problem_of(seed: int) -> str | None:
    """What is wrong with the call of this seed, one in eight of them also on the emulated CUDA kernels."""
    kind = KINDS[np.random.default_rng([seed, 0]).integers(len(KINDS))]
    wrong = _wrong(kind, seed, nullcontext())
    if wrong is None and seed % 8 == 0 and compiler() is not None and kind in tensors.KINDS:
        wrong = _wrong(kind, seed, emulated(seed))
        wrong = wrong and f"emulated: {wrong}"
    return wrong and f"seed {seed}: {wrong}"


def _wrong(kind: Kind, seed: int, where: AbstractContextManager[object]) -> str | None:
    """The call is drawn twice, for calls write into their arguments."""
    calls = [kind(np.random.default_rng([seed, 1])) for _ in range(2)]
    with where:
        native = _outcome(calls[0], "cpu")
    if isinstance(native, MachineError) and "launch failed" in str(native):
        return str(native)
    if isinstance(native, str):
        return native
    if isinstance(native, BaseException):
        return None  # refused; that what is sound is not refused, other tests hold
    if not native or any(isinstance(made, torch.Tensor) and made.is_meta for made in native):
        return None  # nothing that is promised, or a shape, from a registered operator
    reference = _outcome(calls[1], "reference")
    if isinstance(reference, BaseException | str):
        return f"{kind.__name__} gave a result, the reference {reference!r}"
    same = len(native) == len(reference) and all(_same(a, b) for a, b in zip(native, reference, strict=True))
    return None if same else f"{kind.__name__} gave {native!r:.300}, the reference {reference!r:.300}"


def _outcome(call: tensors.Call, backend: str) -> tuple[object, ...] | BaseException | str:
    """What it returned, how it was refused, or the error that it should not have raised."""
    try:
        return call(backend)
    except REFUSED as error:
        return error
    except Exception:
        return traceback.format_exc()


def _same(a: object, b: object) -> bool:
    if not isinstance(a, torch.Tensor):
        return bool(np.array_equal(np.asarray(a), np.asarray(b)))
    assert isinstance(b, torch.Tensor)
    if (a.dtype, a.shape, a.device) != (b.dtype, b.shape, b.device):
        return False
    tolerance = 2e-2 if a.dtype == torch.bfloat16 else 1e-4
    # Sums in another order: of large numbers all digits may differ, and be infinite in one order alone.
    a, b = (torch.nan_to_num(t.detach().double(), posinf=1e30, neginf=-1e30).clamp(-1e30, 1e30) for t in (a, b))
    return bool(torch.allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, *(float(t.abs().max()) for t in (a, b) if t.numel()), 0.0)))
