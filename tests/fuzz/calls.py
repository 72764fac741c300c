"""Malformed calls of the kernels: a call ends in an error of ours or of torch's, or in what the reference makes of it.

Calls are made in another process, so that one which crashes it, or never ends, is that attempt's fault.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
SERVE = "from fuzz.malformed.server import serve; serve()"
SECONDS = 60  # a call takes milliseconds


def attempt(generator: np.random.Generator, folder: Path) -> str | None:
    seed = int(generator.integers(2**62))
    server = serving()
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(f"{seed}\n".encode())
    server.stdin.flush()
    ended = bool(select.select([server.stdout], [], [], SECONDS)[0])
    if ended and (line := server.stdout.readline()):
        problem: str | None = json.loads(line)
        return problem
    server.kill()
    serving.cache_clear()
    return f"seed {seed}: {f'the process ended with {server.wait()}' if ended else f'no end within {SECONDS} s'}"


@cache
def serving() -> subprocess.Popen[bytes]:
    """The process that makes the calls. What malloc gives out and takes back is overwritten, so that nothing is right by chance."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "MALLOC_PERTURB_": "165", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SERVE]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
