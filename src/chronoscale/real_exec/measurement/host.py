"""Host: what is known of this machine and its software without torch; planned and simulated figures carry that."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("chronoscale", "torch", "numpy", "dgl", "simpy")


def cpu_name() -> str:
    """Return the model name of this machine's CPU."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor() or platform.machine()
    )


def host_facts() -> dict[str, str]:
    """Return, by name, the CPU (`device`), its cores, the system, versions of Python and of packages, and the git commit of the working
    directory, if any.
    """
    values = {
        "device": cpu_name(),
        "cores": str(cores()),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        try:
            values[package] = version(package)
        except PackageNotFoundError:
            values[package] = "not installed"
    if commit := _commit():
        values["commit"] = commit
    return values


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _commit() -> str:
    """The commit of the working directory, shortened; '' outside of a repository, and where git is not there or cannot be executed."""
    try:
        git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return git.stdout.strip() if git.returncode == 0 else ""
