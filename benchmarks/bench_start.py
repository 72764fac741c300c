"""How long it takes to begin: commands that only list or refuse, a rank's imports. Whole processes, `python benchmarks/bench_start.py
[--repeats N]`.

A row is a name and a function that does it once and says what that took; `ROWS` is all of them.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Cost(NamedTuple):
    """Seconds of wall time and of CPU, and MB at most, of a process and those that it has waited for."""

    wall: float
    cpu: float
    memory: float


FILES = {
    "bad.csv": "a,b\n",
    "good.txt": "".join(f"{i % 97} {i % 89} {i}\n" for i in range(1000)),
    "bad-key.yaml": "dataset: math_overflow_monthly\nmodle: x\n",
    "bad-strategy.yaml": "dataset: math_overflow_monthly\nstrategies: [psgg]\n",
    "good.yaml": "dataset: growth_small\nstrategies: [psg]\ngpus: [1, 2]\n",
}
COMMANDS = (
    *("--version", "--help", "strategies", "data list", "keys", "reproduce real", "data info bad.csv", "data info good.txt"),
    *("simulate --dry-run bad-key.yaml", "bench --dry-run bad-strategy.yaml", "simulate --dry-run good.yaml"),
)
IMPORTS = ("torch", "chronoscale.real_exec.worker", "chronoscale.real_exec.training")


def process(*words: str) -> Cost:
    """One process of this interpreter, to its end. Ends this one where it fails in another way than by refusing what it is given."""
    begin = time.perf_counter()
    child = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if (code := os.waitstatus_to_exitcode(status)) not in (0, 2):
        raise SystemExit(f"{' '.join(words)} ended with {code}")
    return Cost(time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)


def command(words: str) -> Callable[[], Cost]:
    """What a command takes."""
    return lambda: process("-m", "chronoscale", *words.split())


def imports(module: str) -> Callable[[], Cost]:
    """What a process takes that imports a module."""
    return lambda: process("-c", f"import {module}")


ROWS: Mapping[str, Callable[[], Cost]] = {
    **{f"`{words}`": command(words) for words in COMMANDS},
    **{f"import {module}": imports(module) for module in IMPORTS},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}; ", end="")
    versions = [f"{name} {version(name)}" for name in ("chronoscale", "torch", "numpy", "pandas")]
    print(f"Python {platform.python_version()}, {', '.join(versions)}\n")
    print("| begin | wall, s (half the interquartile range) | CPU, s (half the same) | MB |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, text in FILES.items():
            Path(name).write_text(text)
        for name, once in ROWS.items():
            once()  # files are cached, bytecode is there
            wall, busy, memory = np.array([once() for _ in range(repeats)]).T
            spread = [np.subtract(*np.quantile(found, [0.75, 0.25])) / 2 for found in (wall, busy)]
            print(
                f"| {name} | {np.median(wall):.2f} (±{spread[0]:.2f}) | {np.median(busy):.2f} (±{spread[1]:.2f}) | {memory.max():.0f} |",
                flush=True,
            )
        os.chdir("/")


if __name__ == "__main__":
    main()
