"""Machine: what a result was measured on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("torch", "triton", "numpy", "scipy", "pandas", "scikit-learn", "pydantic", "simpy", "torch-geometric", "dgl")
ASKED = (
    "name",
    "driver_version",
    "compute_cap",
    "memory.total",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "power.limit",
    "temperature.gpu",
)


def gpu() -> dict[str, str]:
    """What nvidia-smi says of the first GPU, now; nothing where there is none."""
    if shutil.which("nvidia-smi") is None:
        return {}
    asked = ["nvidia-smi", f"--query-gpu={','.join(ASKED)}", "--format=csv,noheader"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return dict(zip(ASKED, (field.strip() for field in lines[0].split(",")), strict=True)) if lines else {}


def processor() -> str:
    """The CPU's name."""
    with open("/proc/cpuinfo") as info:
        return next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), platform.machine())


def machine(device: str) -> dict[str, Any]:
    """Device, driver, clocks and versions. `device`: "cuda" or "cpu"."""
    found: dict[str, Any] = {"device": gpu().get("name", "no device") if device == "cuda" else processor(), "gpu": gpu()}
    found |= {"processor": processor(), "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    if nvcc := shutil.which("nvcc"):
        found["nvcc"] = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout.strip().splitlines()[-1]
    return found
