"""Torch operators in C++ (csrc/torch): load them, and decide which calls they serve. They call our kernels without ctypes.

A call costs its host a fraction of what it costs by ctypes and Python's autograd. They are compiled for one release of torch, where
that is installed (`chronoscale compile`); nothing needs them. Where they are not compiled, or CHRONOSCALE_OPERATORS is "python", the
same kernels are called by ctypes.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native.backend import BackendName, unavailable_reason
from chronoscale.cuda_ext.native.loader import ABI_VERSION, cpu_library, cuda_library, library_folders
from chronoscale.errors import MachineError, UserError

CHOICE_VARIABLE = "CHRONOSCALE_OPERATORS"
PYTHON, CPP = "python", "c++"
REFUSALS = (RuntimeError, IndexError)  # what an operator raises, by the one or the other of torch's names
FAILED = "chronoscale native"  # how it begins where the operands were not the reason (csrc/torch/kernel.cpp)


def file_name() -> str:
    """Return the file name of the C++ operators' library for this ABI version and the installed torch; others are not looked at."""
    return f"libchronoscale_torch-{ABI_VERSION}-{torch.__version__}.so"


def cpp_serves(x: Tensor, backend: BackendName) -> bool:
    """Return whether the torch operators compiled from C++ serve a call on tensor x, so that no Python stands between it and the kernel.

    backend: the implementation that the caller names: None is served, so are 'cpu' and 'cuda' where x lies on such a device, and no other.
    They serve no call while calls of kernels are counted (abi.listeners).
    """
    if abi.listeners or not (backend is None or backend == x.device.type) or load_operators() is None:
        return False
    return x.is_cpu or (x.is_cuda and unavailable_reason("cuda", x.device.index) is None)


def raise_unless_refused(error: RuntimeError | IndexError) -> None:
    """Raise the error of a C++ operator unless it only refused its operands; then return, and the caller's checks name what is wrong.

    Raises MachineError where a kernel failed for another reason, and torch's own error where memory ran out.
    """
    if isinstance(error, torch.OutOfMemoryError):
        raise error
    if (message := str(error).splitlines()[0]).startswith(FAILED):
        raise MachineError(message) from error


class CppOperators:
    """Torch operators in C++ by name, each resolved to its one overload: a look-up at every call takes longer than some kernels do."""

    def __init__(self, ops: Any) -> None:
        self.open, self.version = ops._open, ops._version
        self.aggregate, self.increment, self.increment_ = map(_overload, (ops._aggregate, ops._increment, ops._increment_))
        self.attend, self.gates, self.encode = map(_overload, (ops._attend, ops._gates, ops._encode))
        self.aggregate_edges, self.gather_rows = _overload(ops._aggregate_edges), _overload(ops._gather_rows)
        self.edge_softmax = _overload(ops._edge_softmax)


def _overload(packet: Any) -> Any:
    """Return the function of an operator that has one overload."""
    return getattr(packet.default, "_op", packet.default)


@cache
def load_operators() -> Any:  # CppOperators or None
    """Load the torch operators in C++ once, and return them; None where they are not compiled or not wanted.

    Raises UserError for a choice that CHOICE_VARIABLE does not know, MachineError for a library that does not load or is of another
    version.
    """
    wanted = os.environ.get(CHOICE_VARIABLE, "")
    if wanted not in ("", PYTHON, CPP):
        raise UserError(f"{CHOICE_VARIABLE} is '{wanted}'; expected '{PYTHON}' or '{CPP}'")
    library = next((path for folder in library_folders() if (path := Path(folder) / file_name()).is_file()), None)
    if wanted == CPP and library is None:
        raise MachineError(f"{CHOICE_VARIABLE} is '{CPP}', and there is no {file_name()}; `chronoscale compile` makes it")
    if wanted == PYTHON or library is None or unavailable_reason("cpu") is not None:
        return None
    try:
        torch.ops.load_library(str(library))
    except OSError as error:
        raise MachineError(f"{library} does not load: {error}; `chronoscale compile` makes it anew") from error
    cpu, cuda = cpu_library(), cuda_library()
    assert cpu is not None
    try:
        ops = CppOperators(torch.ops.chronoscale)
    except AttributeError:
        raise MachineError(f"{library} is of another version of this package; `chronoscale compile` makes it anew") from None
    if (built := ops.version()) != ABI_VERSION:
        raise MachineError(f"{library} has version {built} of the native interface, not {ABI_VERSION}; `chronoscale compile` makes it anew")
    ops.open(cpu._name, "" if cuda is None else cuda._name, False)
    return ops
