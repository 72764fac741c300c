"""The operators in C++ (csrc/torch): a call costs the host a fraction of what it costs by ctypes and Python's autograd.

They are compiled for one release of torch, where that is installed (`chronoscale compile`); nothing needs them. Where they are not there,
or CHRONOSCALE_OPERATORS is "python", the same kernels are called by ctypes.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chronoscale.cuda_ext import native
from chronoscale.cuda_ext.backend import Pinned, missing
from chronoscale.cuda_ext.loader import ABI_VERSION, cpu_library, cuda_library, folders
from chronoscale.errors import MachineError, UserError

CHOICE_VARIABLE = "CHRONOSCALE_OPERATORS"
PYTHON, CPP = "python", "c++"
REFUSED = (RuntimeError, IndexError)  # what an operator raises, by the one or the other of torch's names
FAILED = "chronoscale native"  # how it begins where the operands were not the reason (csrc/torch/layer.cpp)


def file_name() -> str:
    """Of the library for this native interface and the torch that is installed; others are not looked at."""
    return f"libchronoscale_torch-{ABI_VERSION}-{torch.__version__}.so"


def takes(x: Tensor, backend: Pinned) -> bool:
    """Whether the operators serve a call on x. Where somebody listens to calls of kernels (native.listeners), they do not."""
    if native.listeners or not (backend is None or backend == x.device.type) or operators() is None:
        return False
    return x.is_cpu or (x.is_cuda and missing("cuda", x.device.index) is None)


def unless_refused(error: RuntimeError | IndexError) -> None:
    """Nothing where an operator has refused its operands: the caller then takes Python's way, which says what is wrong with them. Raises
    MachineError where it failed for another reason, and torch's own error where memory ran out."""
    if isinstance(error, torch.OutOfMemoryError):
        raise error
    if (said := str(error).splitlines()[0]).startswith(FAILED):
        raise MachineError(said) from error


class Operators:
    """Them, by name, each the one overload that it has, as torch's dispatcher takes it: looking for it takes longer than some kernels."""

    def __init__(self, ops: Any) -> None:
        self.open, self.version = ops._open, ops._version
        self.aggregate, self.increment, self.increment_ = map(_called, (ops._aggregate, ops._increment, ops._increment_))
        self.attend, self.gates, self.encode = map(_called, (ops._attend, ops._gates, ops._encode))
        self.aggregate_edges, self.gather_rows = _called(ops._aggregate_edges), _called(ops._gather_rows)
        self.edge_softmax = _called(ops._edge_softmax)


def _called(packet: Any) -> Any:
    return getattr(packet.default, "_op", packet.default)


@cache
def operators() -> Any:  # Operators or None
    """Them, or None where they are not there or not wanted.

    Raises UserError for another choice than CHOICE_VARIABLE knows, MachineError for a library that does not load or is of another version.
    """
    wanted = os.environ.get(CHOICE_VARIABLE, "")
    if wanted not in ("", PYTHON, CPP):
        raise UserError(f"{CHOICE_VARIABLE} is '{wanted}'; expected '{PYTHON}' or '{CPP}'")
    found = next((path for folder in folders() if (path := Path(folder) / file_name()).is_file()), None)
    if wanted == CPP and found is None:
        raise MachineError(f"{CHOICE_VARIABLE} is '{CPP}', and there is no {file_name()}; `chronoscale compile` makes it")
    if wanted == PYTHON or found is None or missing("cpu") is not None:
        return None
    try:
        torch.ops.load_library(str(found))
    except OSError as error:
        raise MachineError(f"{found} does not load: {error}; `chronoscale compile` makes it anew") from error
    cpu, cuda = cpu_library(), cuda_library()
    assert cpu is not None
    try:
        ops = Operators(torch.ops.chronoscale)
    except AttributeError:
        raise MachineError(f"{found} is of another version of this package; `chronoscale compile` makes it anew") from None
    if (built := ops.version()) != ABI_VERSION:
        raise MachineError(f"{found} has version {built} of the native interface, not {ABI_VERSION}; `chronoscale compile` makes it anew")
    ops.open(cpu._name, "" if cuda is None else cuda._name, False)
    return ops
