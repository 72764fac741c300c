"""Environment: the fingerprint of hardware and software that every measured figure carries."""

from __future__ import annotations

import torch

from chronoscale.cuda_ext.native.backend import backends, unavailable_reason
from chronoscale.cuda_ext.native.cpp_operators import CPP, PYTHON, load_operators
from chronoscale.cuda_ext.native.loader import versions
from chronoscale.real_exec.measurement.host import cpu_name, host_facts


def device_name(device: torch.device) -> str:
    """Return a device's own name, for records of what ran on it: a GPU's, e.g. 'NVIDIA H200', or the CPU's model name."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()


def fingerprint(device: torch.device) -> dict[str, str]:
    """Return, by name, what measured figures carry: hardware, library versions, kernels in use, and the git commit of the working
    directory, if any.
    """
    values = host_facts() | {
        "device": device_name(device),
        "kernels": ", ".join(backends()),
        "cuda kernels": unavailable_reason("cuda") or versions()["cuda"],
        "operators": PYTHON if load_operators() is None else CPP,
    }
    return values | ({"cuda": str(torch.version.cuda)} if device.type == "cuda" else {})
