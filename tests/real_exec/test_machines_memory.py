"""Machines with less memory than the data: what is sent to them in batches and read from files of their own."""

import os
from pathlib import Path

import numpy as np
import pytest
from machine_cases import COMMON, SIGNALS, STREAMS, alone, begin, learnt, outputs
from namespaces import CGROUPS, machines, permitted
from numpy.lib.format import open_memmap

from chronoscale.datasets import store
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.streams.events import EventStream

LIMITED = permitted() and (CGROUPS / "memory.limit_in_bytes").exists() and os.access(CGROUPS, os.W_OK)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not LIMITED, reason="namespaces and memory groups (cgroup v1) need root")]

DATA, MEMORY = 1_600_000_000, 1_200_000_000  # bytes: of the array; of each machine, for all processes and pages of files


def drawn(file: Path, *shape: int) -> np.ndarray:
    """A mapped array of DATA bytes, float32 [n, *shape]."""
    array = open_memmap(file, "w+", np.float32, (DATA // 4 // int(np.prod(shape)), *shape))
    rng = np.random.default_rng(0)
    for part in np.array_split(array, 64):
        part[:] = rng.standard_normal(part.shape, np.float32)
    return array


def make(family: str, folder: Path) -> None:
    array = drawn(folder / "drawn.npy", *{"signals": (20_000, 1), "streams": (2000,)}[family])
    if family == "signals":
        ring = np.arange(20_000, dtype=np.int32)
        store.save(folder / "data", Signal(array, np.stack([ring, np.roll(ring, 1)])))
    else:
        src, dst = np.random.default_rng(1).integers(0, 5000, (2, len(array))).astype(np.int32)
        store.save(folder / "data", EventStream(5000, src, dst, np.arange(len(array)), array))
    (folder / "drawn.npy").unlink()


@pytest.mark.parametrize(("family", "name"), [("signals", "gen-dist-index"), ("streams", "memshare")])
def test_data_larger_than_memory_are_trained_on(tmp_path: Path, family: str, name: str) -> None:
    """To the bit as on one machine that has all of it."""
    make(family, tmp_path)
    experiment = COMMON | (SIGNALS if family == "signals" else STREAMS)
    training = experiment["training"] | {"batches": 3, "batch_size": 2 if family == "signals" else 100}
    experiment |= {"dataset": {"path": str(tmp_path / "data")}, "training": training, "strategies": [name], "ranks": [2]}
    expected = alone(tmp_path, experiment, "bench")
    with machines(2, tmp_path) as made:
        made.limit(MEMORY)
        started = begin(made, experiment, "bench", [1, 1])
        said = outputs(started)
    assert [process.returncode for process in started] == [0, 0], said
    assert learnt(tmp_path / "node0") == expected and expected
