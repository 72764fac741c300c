"""Environment: the fingerprint of hardware and software that every measured figure carries."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from chronoscale.cuda_ext.native.backend import backends, unavailable_reason
from chronoscale.cuda_ext.native.cpp_operators import CPP, PYTHON, load_operators
from chronoscale.cuda_ext.native.loader import versions

PACKAGES = ("chronoscale", "torch", "numpy", "dgl", "simpy")


def device_name(device: torch.device) -> str:
    """Return a device's own name, for records of what ran on it: a GPU's, e.g. 'NVIDIA H200', or the CPU's model name."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor() or platform.machine()
    )


def fingerprint(device: torch.device) -> dict[str, str]:
    """Return, by name, what measured figures carry: hardware, library versions, kernels in use, and the git commit of the working
    directory, if any.
    """
    values = {
        "device": device_name(device),
        "cores": str(cores()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "kernels": ", ".join(backends()),
        "cuda kernels": unavailable_reason("cuda") or versions()["cuda"],
        "operators": PYTHON if load_operators() is None else CPP,
    }
    for package in PACKAGES:
        try:
            values[package] = version(package)
        except PackageNotFoundError:
            values[package] = "not installed"
    if device.type == "cuda":
        values["cuda"] = str(torch.version.cuda)
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False) if _has_git() else None
    if git is not None and git.returncode == 0:
        values["commit"] = git.stdout.strip()
    return values


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _has_git() -> bool:
    return any((Path(folder) / "git").exists() for folder in os.environ.get("PATH", "").split(os.pathsep))
