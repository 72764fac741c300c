"""What a command and a rank import, by names."""

import contextlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from command_line import command

HEAVY = {
    *("torch", "pandas", "scipy", "sklearn", "matplotlib", "networkx", "h5py"),
    *("gurobipy", "highspy", "simpy", "dgl", "distributed", "dask"),
}
RANK = {"torch"}  # of those, what a rank takes
TABLES = {"pandas"}  # what commands that print tables of runs take beside
DRAWINGS = TABLES | {"matplotlib"}  # and those that draw
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
SIMULATIONS = {
    "simulate": (["simulate", "small.yaml"], TABLES),
    "advise": (["advise", "small.yaml", "--workers", "1"], DRAWINGS),
    "replay": (["replay", "traces/sim-00001-psg/sim-00001-psg.0.et"], TABLES),
    "report": (["report", "runs/small-simulate-1"], DRAWINGS),
}
FAMILIES = {
    "signals": "dataset: {name: traffic_small}\nmodel: pgt-dcrnn\nstrategies: [index]\ngpus: [2]\nassumptions: {draws: 0}\n",
    "streams": "dataset: {name: events_small}\nmodel: tgn\nstrategies: [tgl]\ngpus: [2]\nassumptions: {draws: 0}\n",
}
CODE = """
import json, os, sys
from importlib.abc import MetaPathFinder

words, entry, heavy = json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])

class Asked(MetaPathFinder):
    importers = {}

    def find_spec(self, name, path, target=None):
        if name in heavy:
            frame = sys._getframe(1)
            while frame and not frame.f_globals.get("__name__", "").startswith("chronoscale"):
                frame = frame.f_back
            self.importers[name] = frame.f_globals["__name__"] if frame else "?"

asked = Asked()
sys.meta_path.insert(0, asked)
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
loaded = {name: importer for name, importer in asked.importers.items() if name in sys.modules}
print(json.dumps([code, loaded]), file=sys.__stdout__)
"""


def imported(words: list[str], folder: object, entry: str = "command") -> tuple[int, dict[str, str]]:
    """Exit code, and heavy modules that a process has in the end, each with the module of the package that imported it first."""
    run = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(words), entry, json.dumps(sorted(HEAVY | {"scipy.stats"}))],
        cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    code, importers = json.loads(run.stdout)
    return code, importers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    started = tmp_path_factory.mktemp("start")
    (started / "bad.csv").write_text("a,b\n")
    np.savez(started / "good.npz", src=np.arange(5), dst=np.arange(1, 6), t=np.arange(5))
    (started / "key.yaml").write_text("dataset: math_overflow_monthly\nmodle: x\n")
    (started / "strategy.yaml").write_text("dataset: math_overflow_monthly\nstrategies: [psgg]\n")
    (started / "text.yaml").write_text("dataset: {")
    return started


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_what_it_uses(name, folder):
    code, names = imported(COMMANDS[name], folder)
    assert code == (0 if name in ("keys", "list", "archive", "reproduce") else 2)
    assert not names


@pytest.mark.slow
def test_a_rank_imports_what_it_uses(folder):
    _, names = imported([], folder, "rank")
    assert set(names) == RANK


@pytest.fixture(scope="module")
def simulated(folder):
    """The folder, with a run of the smallest simulation, and its traces as another tool would read them."""
    (folder / "small.yaml").write_text("dataset: growth_small\nstrategies: [psg]\ngpus: [1]\nassumptions: {draws: 0}\n")
    with contextlib.chdir(folder):
        command("simulate", "small.yaml")
        command("trace", "runs/small-simulate-1", "--format", "chakra")
    return folder


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", SIMULATIONS)
def test_what_plans_and_replays_needs_no_torch(name, simulated):
    words, takes = SIMULATIONS[name]
    code, names = imported(words, simulated)
    assert code == 0 and {module: by for module, by in names.items() if module not in takes} == {}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_family_needs_torch_to_be_simulated(family, folder):
    (folder / f"{family}.yaml").write_text(FAMILIES[family])
    code, names = imported(["simulate", f"{family}.yaml"], folder)
    assert code == 0 and {module: by for module, by in names.items() if module not in TABLES | {"scipy"}} == {}  # which generates data
