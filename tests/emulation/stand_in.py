"""The emulated library in the CPU library's place, so that CPU tensors go through the CUDA kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from chronoscale.cuda_ext import native
from emulation.builder import library

EMULATED = "emulated"  # the contract suite's parameter


class StandIn:
    """Answers the CPU interface's names by CUDA's functions, on device 0 and the default stream; `called` are those that were asked for."""

    def __init__(self, cuda: ctypes.CDLL) -> None:
        self.cuda = cuda
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cs_cuda_"):
            return getattr(self.cuda, name)
        function = getattr(self.cuda, name.replace("cs_", "cs_cuda_"))
        self.called.add(function.__name__)
        return lambda *arguments: function(*arguments, 0, None)


@contextmanager
def emulated(seed: int = 0, cuda: ctypes.CDLL | None = None) -> Iterator[StandIn]:
    """While it lasts, the backend 'cpu' is the emulated kernels."""
    stand_in = StandIn(library() if cuda is None else cuda)
    stand_in.cuda.emu_seed(seed)
    with mock.patch.object(native, "cpu_library", lambda: stand_in):
        yield stand_in
