"""The door to the baselines: partitions of experiments, profiles that fit them, workers that refuse."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chronoscale.batching.snapshots.partition import VertexPartition, expected_halo
from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.errors import ChronoscaleWarning, MachineError, UserError
from chronoscale.harness.execute.jobs import make_job
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.snapshots import partitions
from chronoscale.harness.workflows.snapshots.data import load_snapshots, workload
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.worker import run_job
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy

COSTS = DatasheetCosts(presets.cluster("h200").device)


@pytest.fixture
def make(tmp_path):
    """An experiment on 30 nodes, in a folder to work in."""
    store.save(tmp_path / "graphs", GrowthGraph.rmat(30, 100, 8, 0.1, 1).sequence())

    def experiment(**changes: object):
        small = {"dataset": {"path": str(tmp_path / "graphs")}, "model": {"name": "t-gcn", "hidden": 8, "inputs": 8}, "repeats": 1}
        return check({"strategies": ["esdg", "distdgl"], "gpus": [1, 3], "device": "cpu", **small, **changes}, "test")

    return experiment


def test_snapshots_at_hand_are_cut_by_metis_once(make, tmp_path, monkeypatch):
    asked = []

    def cut(sequence, parts):
        asked.append(parts)
        return np.arange(sequence.num_nodes, dtype=np.int32) % parts

    monkeypatch.setattr(partitions, "metis_partition", cut)
    experiment, run = make(), Run(tmp_path / "run")
    for _ in range(2):
        works = partitions.partition_for_simulation(experiment, workload(experiment), experiment.gpus, run)
    assert asked == [1, 3] and works[3].partition.origin == "METIS"
    sequence = load_snapshots(experiment)
    halo = VertexPartition(np.arange(30) % 3, 3).count(sequence)[2]
    assert (works[3].partition.halo == halo).all() and works[1].partition.halo.sum() == 0
    unpartitioned = partitions.partition_for_simulation(make(strategies=["psg"]), workload(experiment), [3], run)
    assert unpartitioned[3].partition is None


def test_scaled_and_streamed_sequences_get_an_estimate_that_says_so(make):
    for data in ({"path": make().dataset.path, "scale": 10}, "dygraph_10k"):
        experiment = make(dataset=data, groups=3)
        work = workload(experiment)
        with pytest.warns(ChronoscaleWarning, match=r"an estimate from degrees; METIS would cut less"):
            works = partitions.partition_for_simulation(experiment, work, experiment.gpus, None)
        partition = works[3].partition
        assert partition.origin.startswith("expected") and not works[1].partition.halo.any()
        assert (partition.rows.sum(1) == work.snapshots.num_nodes).all() and (partition.edges.sum(1) == work.snapshots.edges).all()
        strategy("distdgl").plan(works[3], 3, COSTS)
        if isinstance(data, dict):
            degree = load_snapshots(make())[2].out_degree()
            assert partition.halo[2, 0] == np.ceil(10 * expected_halo(degree, 3))


def test_more_gpus_than_nodes(make):
    experiment = make(gpus=[4, 31])
    with pytest.raises(UserError, match="has 30 nodes, which cannot be cut into 31 parts"):
        partitions.partition_for_simulation(experiment, workload(experiment), experiment.gpus, None)


def test_metis_that_fails_says_so(make, monkeypatch):
    monkeypatch.setattr("chronoscale.batching.snapshots.partition._METIS", "import no_such_library")
    with pytest.raises(MachineError, match=r"METIS \(dgl==1.1.3, .*No module named 'no_such_library'"):
        partitions.metis_partition(load_snapshots(make()), 2)


def test_a_worker_needs_its_cut_and_a_kind_that_it_knows(make, tmp_path):
    experiment = make()
    parts = partitions.count_partition(load_snapshots(experiment), _saved(tmp_path, np.zeros(30, np.int32)), 1)
    work = replace(workload(experiment), partition=parts)
    schedule = strategy("distdgl").plan(work, 1, COSTS)
    for changed, message in ((schedule, "names no partition"), (replace(schedule, kind="chunks"), "of kind 'chunks'")):
        changed.save(tmp_path / "s.parquet")
        item = Item("x", str(tmp_path / "s.parquet"), str(experiment.dataset.path), experiment.hyper)
        with pytest.raises(UserError, match=message):
            run_job(make_job(experiment, "job", [item], tmp_path))


def _saved(folder: Path, assignment: np.ndarray) -> Path:
    np.save(folder / "cut.npy", assignment)
    return folder / "cut.npy"
