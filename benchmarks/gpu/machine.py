"""Machine: what a result was measured on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

PACKAGES = ("torch", "triton", "numpy", "scipy", "pandas", "scikit-learn", "pydantic", "simpy", "torch-geometric", "dgl")
ASKED = (
    "name",  # first: it alone may have commas
    "driver_version",
    "compute_cap",
    "memory.total",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "power.limit",
    "temperature.gpu",
)
SECONDS = 20  # for nvidia-smi
TOOLKIT = "/usr/local/cuda/bin"


def tool(name: str) -> str | None:
    """The path of one of the CUDA toolkit's programs, on PATH or where the toolkit is installed by default."""
    return shutil.which(name) or shutil.which(name, path=TOOLKIT)


def smi() -> dict[str, str]:
    """What nvidia-smi says of the first GPU, now; nothing where there is none."""
    try:
        command = ["nvidia-smi", f"--query-gpu={','.join(ASKED)}", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    fields = done.stdout.partition("\n")[0].rsplit(",", len(ASKED) - 1) if done.returncode == 0 else []
    return dict(zip(ASKED, map(str.strip, fields), strict=True)) if len(fields) == len(ASKED) else {}


def gpu() -> dict[str, str]:
    """`name` and `capability` ("9.0") of the GPU that torch uses; nothing where it finds none."""
    if torch is None or not torch.cuda.is_available():
        return {}
    return {"name": torch.cuda.get_device_name(), "capability": "{}.{}".format(*torch.cuda.get_device_capability())}


def processor() -> str:
    """The CPU's name."""
    with open("/proc/cpuinfo") as info:
        return next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), platform.machine())


def machine(device: str) -> dict[str, Any]:
    """Device, driver, clocks and versions. `device`: "cuda" or "cpu"."""
    facts: dict[str, Any] = {"device": gpu().get("name", "no device") if device == "cuda" else processor(), "gpu": smi() | gpu()}
    facts |= {"processor": processor(), "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    for package in PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = None
    if nvcc := tool("nvcc"):
        answer = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout.strip()
        facts["nvcc"] = answer.rpartition("\n")[2]
    return facts
