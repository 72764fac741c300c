"""One thread for torch: tests compare numbers, not speeds, and share the machine."""

import gc
import json
import signal
from pathlib import Path

import pytest
import torch

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph

pytest_plugins = ["budget", "profiles", "sample"]
torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background jobs, of which tests interrupt some
    signal.signal(signal.SIGINT, signal.default_int_handler)
SMALL = {"model": {"name": "t-gcn", "hidden": 8, "inputs": 8}, "groups": 6, "ranks": [1], "repeats": 2, "warmup": 0}


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Thousands of tests are no garbage, neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Nothing that tests make is kept for others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHRONOSCALE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """A folder to work in, with a dataset of 12 snapshots and a function that writes experiment files."""
    monkeypatch.chdir(tmp_path)
    store.save(tmp_path / "graphs", GrowthGraph.rmat(64, 300, 12, 0.1, 1).sequence())

    def write(stem: str = "small", **changes: object) -> Path:
        path = tmp_path / f"{stem}.yaml"
        path.write_text(json.dumps({"dataset": {"path": "graphs"}, **SMALL, **changes}))
        return path

    return write
