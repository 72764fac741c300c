"""Commands that list or refuse start at once, and ranks from the warm server in less time than under torchrun, the rival.

A pass is a process to its end; `CPU, s` and `MB` are of it and those that it has waited for. Its own seconds are wall time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path

import psutil
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns

from chronoscale.errors import MachineError
from chronoscale.real_exec.ranks.launch import start, wait
from chronoscale.real_exec.ranks.rank_group import server_of, spent_s
from chronoscale.real_exec.ranks.server import PRELOADED

Cost = dict[str, float]
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
MEETING = str(Path(__file__).parents[1] / "setups" / "meeting.py")
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
    """Run this interpreter once. Raises MachineError where it fails in another way than by refusing what it is given."""
    apart = subprocess.run([sys.executable, "-I", "-S", "-c", APART, *words], stdout=subprocess.PIPE, text=True, check=True)
    wall, cpu, megabytes, code = map(float, apart.stdout.split())
    if code not in (0, 2):
        raise MachineError(f"{' '.join(words)} ended with {code:.0f}")
    return {"seconds": wall, "CPU, s": cpu, "MB": megabytes}


def ranks() -> Cost:
    """Let two ranks of a server that is there meet and add up one number; CPU: theirs and the server's."""
    server = server_of(1)
    begin, spent, own = time.perf_counter(), spent_s(), psutil.Process(server.pid).cpu_times()
    wait(start("setups.meeting", Path("job"), 2, 1), "meeting")
    after = psutil.Process(server.pid).cpu_times()
    cpu = spent_s() - spent + after.user + after.system - own.user - own.system
    return {"seconds": time.perf_counter() - begin, "CPU, s": cpu}


def measure(ways: dict[str, Callable[[], Cost]], setting: Setting) -> Passes:
    """Begin all in a folder of files, once to have them and their bytecode cached."""
    for name, text in FILES.items():
        (setting.scratch / name).write_text(text)
    with chdir(setting.scratch):
        in_turns(ways, 1)
        return in_turns(ways, setting.repeats)


def cases(quick: bool) -> Iterator[Case]:
    """Yield commands, imports and two ranks."""
    commands = COMMANDS[:1] if quick else (*COMMANDS, "bench two.yaml")
    yield Case({"what": "commands"}, partial(measure, {words: partial(process, "-m", "chronoscale", *words.split()) for words in commands}))
    if quick:
        return
    imports = {modules: partial(process, "-c", f"import {modules}") for modules in IMPORTS}
    yield Case({"what": "imports"}, partial(measure, imports))
    torchrun = partial(process, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", MEETING, "job")
    yield Case({"what": "ranks"}, partial(measure, {"from the server": ranks, "torchrun": torchrun}))


SUBJECT = Subject(cases, 7)
