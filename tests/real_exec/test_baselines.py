"""Baselines executed on 1, 2 and 4 ranks reach the losses of an independent trainer; they move what was planned, and leave nothing."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from baseline_cases import CASES, CLASSES, INPUTS, SEED, WHOLE, plan, run
from dense_trainer import DenseTrainer, apart, weights
from pairwise import cover, fast
from rank_cases import parameters, run_on_ranks

from chronoscale.batching.snapshots.links import LinkPairs
from chronoscale.batching.snapshots.partition import VertexPartition, metis_partition
from chronoscale.cuda_ext.operators import aggregation
from chronoscale.datasets import catalogue, store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.sequence import Snapshot, SnapshotSequence
from chronoscale.errors import UserError
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.region import PartRegion


def busiest(sequence: SnapshotSequence, nodes: int) -> SnapshotSequence:
    """The same snapshots among the nodes with most edges, renumbered."""
    degree = np.bincount(np.concatenate([sequence.src, sequence.dst]), minlength=sequence.num_nodes)
    remaining = np.sort(np.argsort(-degree, kind="stable")[:nodes])
    place = np.full(sequence.num_nodes, -1)
    place[remaining] = np.arange(nodes)
    parts = []
    for s in sequence:
        src, dst = place[s.src], place[s.dst]
        inside = (src >= 0) & (dst >= 0) & (src != dst)
        parts.append(Snapshot.from_edges(nodes, src[inside], dst[inside]))
    return SnapshotSequence.from_snapshots(parts, "busiest")


EVERY = [(case, ranks) for case in CASES for ranks in case.ranks]
WITNESSES = {  # each the only one that notices some fault
    ("distdgl-evolvegcn-h-2-growth-mixed-4.1.1.2", 4),
    ("distdgl-gat-lstm-1-growth-mixed-4.1.1.2", 2),
    ("distdgl-t-gcn-1-growth-skewed-4.1.1.2-classes", 2),
    ("distdgl-t-gcn-1-growth-skewed-4.1.1.2-degrees", 2),
    ("esdg-t-gcn-1-growth-mixed-4.1.1.2", 2),
}
MODELLED = [(case.strategy in WHOLE or case.strategy, case.model, ranks) for case, ranks in EVERY]  # test_execution.py has models on WHOLE
SET = [(case.strategy, case.data, case.cut, case.hyper) for case, _ in EVERY]
COVER = set(cover(SET, cover(MODELLED, [i for i, (case, ranks) in enumerate(EVERY) if (case.label, ranks) in WITNESSES])))
RUNS = fast(EVERY, lambda number, _: number in COVER)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, request):
    """Sequences, their cuts, and what the cases that this session asks for gave on each of their ranks.

    Long enough for three optimiser steps: nine groups where all ranks train one or a few at a time, else seventeen for eight a step.
    """
    folder = tmp_path_factory.mktemp("baselines")
    sequences = {
        name: GrowthGraph.rmat(60, 200, n, 0.1, 1).sequence().without_self_edges() for name, n in (("growth", 13), ("growth-long", 21))
    }
    spaced = (Snapshot(300, 5 * one.src, 5 * one.dst) for one in sequences["growth-long"])
    sequences["idle"] = SnapshotSequence.from_snapshots(spaced, "idle")
    if (catalogue.data_folder() / "enron_monthly").exists():
        months = catalogue.load("enron_monthly", 0)
        for name, count in (("real", 13), ("real-long", 21)):
            sequences[name] = busiest(SnapshotSequence.from_snapshots([months[t] for t in range(12, 12 + count)]), 100)
    for name, sequence in sequences.items():
        classes = np.random.default_rng(0).permutation(np.arange(sequence.num_nodes) % (CLASSES + 1)) - 1
        store.save(folder / name, replace(sequence, classes=classes.astype(np.int32)))
        nodes = np.arange(sequence.num_nodes)
        quarters = np.random.default_rng(4).permutation(nodes % 4)
        for ranks in (1, 2, 4):
            cuts = {"striped": nodes % ranks, "skewed": np.minimum(nodes // 40, max(ranks - 2, 0))}  # skewed: the last part is empty
            if name.startswith("growth"):
                cuts["mixed"] = quarters // (4 // ranks)
            for cut, assignment in cuts.items():
                np.save(folder / f"{name}-{cut}-{ranks}.npy", assignment.astype(np.int32))
    labels = {ranks: [] for ranks in (1, 2, 4)}
    for case, ranks in ((call["case"], call["ranks"]) for call in parameters(request) if "case" in call):
        if case.data in sequences:
            plan(case, folder, ranks)
            labels[ranks].append(case.label)
    run(folder, 0, 1, labels.pop(1))
    run_on_ranks("baseline_cases", folder, labels)
    return folder


@cache
def oracle(folder, data, shape, hyper, steps):
    """Losses and weights of an independent trainer; strategies and rank counts that take the same steps share them."""
    sequence = store.load(folder / data)
    features = SnapshotMaterial(sequence, INPUTS).features(0)
    pairs = LinkPairs(sequence, hyper.held, hyper.links, hyper.seed)
    trainer = DenseTrainer(sequence, features, SnapshotModel(shape, SEED), hyper, lambda t: pairs.training(t, 0))
    return trainer.losses(steps), weights(trainer.model)


def iterations(case, groups, ranks):
    """Which groups make up each optimiser step."""
    team = {"psg": 1, "esdg": min(ranks, case.hyper.group_size), "distdgl": ranks}[case.strategy]
    count = ranks // team * case.hyper.groups_per_rank
    return [list(range(first, min(first + count, groups))) for first in range(0, groups, count)]


@pytest.mark.parametrize(("case", "ranks"), RUNS, ids=lambda value: getattr(value, "label", value))
def test_losses_are_the_oracles(folder, case, ranks):
    if not (folder / case.data).exists():
        pytest.skip("enron_monthly is not here; CHRONOSCALE_DATA names the folder")
    results = [json.loads((folder / f"found-{ranks}-{rank}.json").read_text())[case.label] for rank in range(ranks)]
    sequence = store.load(folder / case.data)
    hyper = case.hyper
    if hyper.variant == "as-published":  # full graphs differ by rounding alone
        hyper = replace(hyper, variant="exact")
    groups = (len(sequence) - hyper.group_size - hyper.horizon) // hyper.stride + 1
    steps = results[0]["steps"]
    assert sorted(unit for units in steps for unit in units) == list(range(groups))
    if case.strategy in ("psg", "esdg", "distdgl"):
        assert steps == iterations(case, groups, ranks)
    expected, trained = oracle(folder, case.data, case.shape, hyper, tuple(map(tuple, steps)))
    assert len(expected) >= 3
    for rank, each in enumerate(results):
        np.testing.assert_allclose(each["losses"], expected, rtol=1e-4)
        assert each["left"] == 0
        assert apart(np.load(folder / f"weights-{ranks}-{rank}.npz")[case.label], trained, SnapshotModel(case.shape, SEED)) < 1e-3


def test_communication_is_where_it_belongs(folder):
    """Bytes over all ranks: none on one rank or for whole groups, some for groups that are spread."""
    planned = {}
    for path in folder.glob("found-*.json"):
        for label, each in json.loads(path.read_text()).items():
            at = label, int(path.stem.split("-")[1])
            planned[at] = planned.get(at, 0) + each["planned"]
    for (label, ranks), size in planned.items():
        single = ranks == 1 or not label.startswith(("esdg", "distdgl")) or (label.startswith("esdg") and "-1.1.1." in label)
        trivial = ranks == 2 and "skewed" in label  # everything lies in one part
        assert (size == 0) == single or trivial, (label, ranks)


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("variant", ["exact", "as-published"])
def test_parts_make_up_the_snapshot(parts, variant):
    """Aggregating part by part, with remote rows where the routes put them, is aggregating the whole."""
    sequence = GrowthGraph.rmat(50, 300, 3, 0.2, 3).sequence().without_self_edges()
    cut = VertexPartition(np.random.default_rng(0).integers(0, parts, 50).astype(np.int32), parts)
    material = SnapshotMaterial(sequence, 4, variant)
    regions = [PartRegion(material, cut, part, torch.device("cpu")) for part in range(parts)]
    for region in regions:
        region.prepare(range(3), [2])
    for t in range(3):
        full = material.snapshots[t].csr(variant)
        dense = np.zeros((50, 50), np.float32)
        np.add.at(dense, (np.repeat(np.arange(50), np.diff(full.indptr)), full.indices), full.values)
        expected = torch.from_numpy(dense) @ material.features(t) * torch.from_numpy(full.scale)[:, None]
        for part, region in enumerate(regions):
            remote = []
            for other, source in enumerate(regions):
                if parts > 1:
                    route = source.route(t)
                    at = sum(route.rows[:part])
                    remote.append(source.features(t)[route.send[at : at + route.rows[part]]])
                    assert route.rows[part] == region.route(t).remote[other]
            form = region.graph(t)
            x = torch.cat([region.features(t), *remote])
            torch.testing.assert_close(
                aggregation.aggregate(form.graph, x) * form.scale[:, None], expected[torch.from_numpy(cut.nodes(part))]
            )
            assert torch.equal(region.target(t if t == 2 else 2), material.target(2)[torch.from_numpy(cut.nodes(part))])


def test_more_parts_than_nodes():
    with pytest.raises(UserError, match="60 nodes, which cannot be cut into 61 parts"):
        metis_partition(GrowthGraph.rmat(60, 200, 3, 0.1, 1).sequence(), 61)
