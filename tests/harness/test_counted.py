"""Counts of snapshots are made once on a machine, and anew for anything that they follow from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.harness.keys.experiment_files import load
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.harness.workflows.snapshots import counted, data
from chronoscale.strategies.workload import Workload


@pytest.fixture
def counts(tmp_path, monkeypatch):
    """How often snapshots were counted, and a function that counts those of an experiment file's changes."""
    monkeypatch.setenv("CHRONOSCALE_CACHE", str(tmp_path / "cache"))
    times = []
    for module in (counted, data):
        real = module.statistics_of
        monkeypatch.setattr(module, "statistics_of", lambda snapshots, real=real: times.append(1) or real(snapshots))

    def count(**changes: object) -> Workload:
        path = Path("counted.yaml")
        path.write_text(json.dumps({"dataset": {"path": "graphs"}, "model": {"name": "t-gcn"}, **changes}))
        experiment = load(path)
        return workflow_of(experiment.family).workload(experiment)

    return times, count


def graphs(seed: int) -> None:
    shutil.rmtree("graphs")
    store.save(Path("graphs"), GrowthGraph.rmat(64, 300, 12, 0.1, seed).sequence())


def test_what_is_counted_anew(experiment, counts):
    times, count = counts
    first, again = count(), count()
    assert len(times) == 1 and first.snapshots.edges.tolist() == again.snapshots.edges.tolist()
    assert count(dataset={"path": "graphs", "scale": 3}).snapshots.edges.tolist() == (3 * first.snapshots.edges).tolist()
    assert len(times) == 1, "counts are scaled behind"
    assert len(count(groups=4).snapshots.edges) < len(first.snapshots.edges) and len(times) == 2
    assert len(count(dataset={"path": "graphs", "window": 2}).snapshots.edges) == len(first.snapshots.edges) and len(times) == 3
    graphs(2)
    assert count().snapshots.changed_nodes.tolist() != first.snapshots.changed_nodes.tolist() and len(times) == 4
    named = {"dataset": {"name": "dygraph_small"}, "groups": 4}
    one, other = count(**named, seed=0), count(**named, seed=1)
    assert one.snapshots.edges.tolist() != other.snapshots.edges.tolist() and len(times) == 6
    count(**named, seed=1)
    assert len(times) == 6
