"""What the driver and the CUDA toolkit say of a machine, without torch."""

from __future__ import annotations

import shutil
import subprocess

# The name is first: it alone may have commas.
ASKED = ("name", "driver_version", "compute_cap", "memory.total", "clocks.max.sm", "clocks.mem", "power.limit", "temperature.gpu")
SECONDS = 20  # for nvidia-smi
TOOLKIT = "/usr/local/cuda/bin"


def tool(name: str) -> str | None:
    """Return the path of one of the CUDA toolkit's programs, on PATH or where the toolkit is installed by default."""
    return shutil.which(name) or shutil.which(name, path=TOOLKIT)


def smi() -> dict[str, str]:
    """Return what nvidia-smi says of the first GPU, now; nothing where there is none."""
    command = ["nvidia-smi", f"--query-gpu={','.join(ASKED)}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    fields = answer.partition("\n")[0].rsplit(",", len(ASKED) - 1)
    return dict(zip(ASKED, map(str.strip, fields), strict=True)) if len(fields) == len(ASKED) else {}
