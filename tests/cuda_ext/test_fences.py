"""What the emulation cannot show: that a block's partial sums are seen by the block that adds them up. Read off the compiled kernels."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from emulation.builder import CSRC

ORDERED = ["membar", "bar", "atom", "bar", "membar"]  # written, all of the block's; counted; told to the block, and then read


@pytest.mark.slow
@pytest.mark.parametrize("file", ["aggregate.cu", "attention.cu"])
def test_partial_sums_are_fenced(tmp_path: Path, file: str) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    made = tmp_path / "kernels.ptx"
    subprocess.run(["nvcc", "-std=c++17", "-O3", "-ptx", "-o", made, CSRC / "cuda" / file], check=True, capture_output=True, timeout=120)
    counting = 0
    for kernel in made.read_text().split(".entry ")[1:]:
        steps = re.findall(r"^\s*(membar(?=\.gl)|bar(?=\.sync)|atom(?=\.global\.add))", kernel, re.MULTILINE)
        for at in (i for i, step in enumerate(steps) if step == "atom"):
            assert steps[at - 2 : at + 3] == ORDERED, f"{file}: {kernel.partition('(')[0]}"
            counting += 1
    assert counting >= 6
