"""What tests of the native CPU kernels share."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

import pytest

from chronoscale.cuda_ext.native import cpp_operators
from chronoscale.cuda_ext.native.backend import backends

HAS_CPU = "cpu" in backends()
CTYPES = "ctypes"  # the CPU's kernels without the operators in C++
PLACES = ["reference", *["cpu"] * HAS_CPU]  # backends of operations without kernels for CUDA
LAYERED = [*PLACES, *[CTYPES] * HAS_CPU]  # of those that are among the operators in C++
needs_cpu = pytest.mark.skipif(not HAS_CPU, reason="backend 'cpu' is not available on this machine")


def without_cpp_operators() -> AbstractContextManager[object]:
    """While it lasts no call goes to the operators in C++."""
    return mock.patch.object(cpp_operators, "load_operators", lambda: None)


def run_on(place: str, operator: Callable[..., Any], *operands: object) -> Any:
    """An operator on one of LAYERED."""
    with without_cpp_operators() if place == CTYPES else nullcontext():
        return operator(*operands, backend="cpu" if place == CTYPES else place)
