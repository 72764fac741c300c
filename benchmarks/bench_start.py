"""How long it takes to begin: commands that only list or refuse, a rank's imports, two ranks from the warm server and, its rival, under
torchrun: `python benchmarks/bench_start.py [--repeats N]`. Rows take turns.

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
import psutil

from chronoscale.real_exec.ranks.launch import start, wait
from chronoscale.real_exec.ranks.rank_group import server_of, spent_s
from chronoscale.real_exec.ranks.server import PRELOADED


class Cost(NamedTuple):
    """Seconds of wall time and of CPU, and MB at most, of a process and those that it has waited for."""

    wall: float
    cpu: float
    memory: float


FILES = {
    "bad.csv": "a,b\n",
    "good.txt": "".join(f"{i % 97} {i % 89} {i}\n" for i in range(1000)),
    "two.yaml": "dataset: growth_small\nmodel: {name: wd-gcn, hidden: 32}\nstrategies: [psg, blad]\ngroups: 4\nranks: [2]\nrepeats: 3\n",
    "bad-key.yaml": "dataset: math_overflow_monthly\nmodle: x\n",
    "bad-strategy.yaml": "dataset: math_overflow_monthly\nstrategies: [psgg]\n",
    "good.yaml": "dataset: growth_small\nstrategies: [psg]\ngpus: [1, 2]\n",
}
COMMANDS = (
    *("--version", "--help", "strategies", "data list", "keys", "reproduce real", "data info bad.csv", "data info good.txt"),
    *("simulate --dry-run bad-key.yaml", "bench --dry-run bad-strategy.yaml", "simulate --dry-run good.yaml"),
)
MEETING = str(Path(__file__).parent.resolve() / "meeting.py")
IMPORTS = ("torch", ",".join(PRELOADED[:2]), ",".join(PRELOADED))


# Begins a process and prints its wall time, CPU, memory and exit code. It is small: what it begins is counted from its own memory on, since
# Linux keeps the largest memory of a process over exec, that of a fork's parent included.
APART = """
import os, sys, time
begin = time.perf_counter()
nowhere = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
_, status, used = os.wait4(os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ, file_actions=nowhere), 0)
print(time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6, os.waitstatus_to_exitcode(status))
"""


def process(*words: str) -> Cost:
    """One process of this interpreter, to its end. Ends this one where it fails in another way than by refusing what it is given."""
    apart = subprocess.run([sys.executable, "-I", "-S", "-c", APART, *words], stdout=subprocess.PIPE, text=True, check=True)
    *cost, code = map(float, apart.stdout.split())
    if code not in (0, 2):
        raise SystemExit(f"{' '.join(words)} ended with {code:.0f}")
    return Cost(*cost)


def command(words: str) -> Callable[[], Cost]:
    """What a command takes."""
    return lambda: process("-m", "chronoscale", *words.split())


def imports(modules: str) -> Callable[[], Cost]:
    """What a process takes that imports some modules."""
    return lambda: process("-c", f"import {modules}")


def ranks() -> Cost:
    """What two ranks take that meet and add up one number, from a server that is there: theirs and its own; MB: none told."""
    server = server_of(1)
    begin, spent, own = time.perf_counter(), spent_s(), psutil.Process(server.pid).cpu_times()
    wait(start("meeting", Path("job"), 2, 1), "meeting")
    after = psutil.Process(server.pid).cpu_times()
    cpu = spent_s() - spent + after.user + after.system - own.user - own.system
    return Cost(time.perf_counter() - begin, cpu, float("nan"))


ROWS: Mapping[str, Callable[[], Cost]] = {
    **{f"`{words}`": command(words) for words in COMMANDS},
    **{f"import {modules.replace(',', ', ')}": imports(modules) for modules in IMPORTS},
    "`bench`, two ranks": command("bench two.yaml"),
    "two ranks, from the server": ranks,
    "two ranks, torchrun": lambda: process("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", MEETING, "job"),
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
        for once in ROWS.values():
            once()  # files are cached, bytecode and the server are there
        costs: dict[str, list[Cost]] = {name: [] for name in ROWS}
        for _ in range(repeats):
            for name, once in ROWS.items():
                costs[name].append(once())
        for name, found in costs.items():
            wall, busy, memory = np.array(found).T
            spread = [np.subtract(*np.quantile(one, [0.75, 0.25])) / 2 for one in (wall, busy)]
            print(f"| {name} | {np.median(wall):.2f} (±{spread[0]:.2f}) | {np.median(busy):.2f} (±{spread[1]:.2f}) | {memory.max():.0f} |")
        os.chdir("/")


if __name__ == "__main__":
    main()
