"""How long commands take that only list something: whole processes, `python benchmarks/bench_start.py [--repeats N]`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import numpy as np

COMMANDS = ("--help", "strategies", "data list", "keys", "--version")


def once(command: str) -> tuple[float, float, float]:
    """Seconds of wall time and of CPU, and MB at most, of one process."""
    begin = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "chronoscale", *command.split()], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"chronoscale {command} ended with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    print("| command | wall, s (half the interquartile range) | CPU, s | MB |\n|---|---:|---:|---:|")
    for command in COMMANDS:
        once(command)  # files are cached, bytecode is there
        wall, busy, memory = np.array([once(command) for _ in range(repeats)]).T
        spread = np.subtract(*np.quantile(wall, [0.75, 0.25])) / 2
        print(f"| `{command}` | {np.median(wall):.2f} (±{spread:.2f}) | {np.median(busy):.2f} | {memory.max():.0f} |")


if __name__ == "__main__":
    main()
