"""What a command and a rank import, by names."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

HEAVY = {
    *("torch", "pandas", "scipy", "sklearn", "matplotlib", "networkx", "h5py"),
    *("gurobipy", "highspy", "simpy", "dgl", "distributed", "dask"),
}
RANK = {"torch"}  # of those, what a rank takes
COMMANDS = {
    "keys": ["keys"],
    "list": ["data", "list"],
    "info": ["data", "info", "bad.csv"],
    "archive": ["data", "info", "good.npz"],
    "reproduce": ["reproduce", "real"],
    "key": ["bench", "--dry-run", "key.yaml"],
    "strategy": ["bench", "strategy.yaml"],
    "text": ["train", "text.yaml"],
    "advise": ["advise", "key.yaml"],
}
CODE = """
import json, os, sys
words, entry = json.loads(sys.argv[1]), sys.argv[2]
sys.stdout = sys.stderr = open(os.devnull, "w")
if entry == "command":
    from chronoscale.__main__ import main
    sys.argv = ["chronoscale", *words]
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
else:
    from importlib import import_module
    from chronoscale.real_exec.ranks.server import PRELOADED
    for name in PRELOADED:
        import_module(name)
    code = 0
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]), file=sys.__stdout__)
"""


def imported(words: list[str], folder: object, entry: str = "command") -> tuple[int, set[str]]:
    """Exit code, and top-level modules that a process has in the end."""
    run = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(words), entry],
        cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    code, names = json.loads(run.stdout)
    return code, set(names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("start")
    (found / "bad.csv").write_text("a,b\n")
    np.savez(found / "good.npz", src=np.arange(5), dst=np.arange(1, 6), t=np.arange(5))
    (found / "key.yaml").write_text("dataset: math_overflow_monthly\nmodle: x\n")
    (found / "strategy.yaml").write_text("dataset: math_overflow_monthly\nstrategies: [psgg]\n")
    (found / "text.yaml").write_text("dataset: {")
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_what_it_uses(name, folder):
    code, names = imported(COMMANDS[name], folder)
    assert code == (0 if name in ("keys", "list", "archive", "reproduce") else 2)
    assert not names & HEAVY, names & HEAVY


@pytest.mark.slow
def test_a_rank_imports_what_it_uses(folder):
    _, names = imported([], folder, "rank")
    assert names & HEAVY == RANK
