"""Stand-in for the CUDA library: the emulated one, so that CPU tensors go through the CUDA kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch

from chronoscale.cuda_ext.native import abi, backend, cpp_operators
from chronoscale.cuda_ext.reference import aggregation as reference
from emulation.builder import library

EMULATED = "emulated"  # the contract suite's parameter


class StandIn:
    """The emulated library; `called` holds the functions that were called."""

    def __init__(self, cuda: ctypes.CDLL) -> None:
        self.cuda = cuda
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.called.add(name)
        return getattr(self.cuda, name)


@contextmanager
def emulated(seed: int = 0, cuda: ctypes.CDLL | None = None) -> Iterator[StandIn]:
    """While it lasts, CPU tensors go through the emulated kernels, on device 0 and the default stream; operations without kernels for CUDA
    through the reference's, as there."""
    stand_in = StandIn(library() if cuda is None else cuda)
    stand_in.cuda.emu_seed(seed)
    patches = {"cuda_library": lambda: stand_in, "on_cuda": lambda x: True, "_on_device": lambda x: nullcontext(0)}
    without = mock.patch.object(
        backend, "select_kernels", lambda device, pinned: reference
    )  # as backend's own functions find it, and no other's
    zeros = mock.patch.dict(abi._zeros, clear=True)  # a launch that failed leaves them as they are
    with mock.patch.multiple(abi, **patches), zeros, without, mock.patch.object(cpp_operators, "load_operators", lambda: None):
        abi._counters(torch.device("cpu"), 0, 1 << 12)  # made once a stream: no call of a steady iteration
        yield stand_in
