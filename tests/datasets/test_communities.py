"""Classes of nodes: the block model, and how they are kept, read and refused."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from chronoscale.datasets import catalogue, store
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.generate import generators
from chronoscale.datasets.generate.communities import CommunityGraph
from chronoscale.datasets.generate.growth import stackoverflow_trend
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import UserError

GRAPH = CommunityGraph(nodes=300, edges=2000, snapshots=5, classes=4, features=6, apart=2.0, seed=3)


def test_the_blocks_have_the_requested_sizes():
    """Edges mostly inside, some drawn anew, features around their class's mean, so many without a class."""
    sequence = GRAPH.sequence()
    of = GRAPH._communities()
    assert np.bincount(of).tolist() == [75] * 4
    assert sequence.num_classes == 4 and np.count_nonzero(sequence.classes == -1) == 60
    assert (sequence.classes == of)[sequence.classes >= 0].all()
    inside = (of[sequence.src] == of[sequence.dst]).mean()
    assert abs(inside - (0.8 + 0.2 / 4)) < 0.02
    keys = [set(snapshot.keys().tolist()) for snapshot in sequence]
    for before, after in pairwise(keys):
        assert 0.05 < len(after - before) / len(after) < 0.12
    means = np.stack([sequence.features[of == one].mean(0) for one in range(4)])
    assert np.abs(sequence.features - means[of]).std() < 1.1
    assert min(np.abs(one - other).max() for i, one in enumerate(means) for other in means[:i]) > 1


def test_the_seed_is_all_that_is_drawn_from():
    one, same, other = (replace(GRAPH, seed=seed).sequence() for seed in (3, 3, 4))
    for name in ("src", "features", "classes"):
        assert np.array_equal(getattr(one, name), getattr(same, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name))


def test_edges_of_one_static_graph_are_deleted_and_restored():
    """REAL §7.1: every snapshot is a part of one graph with communities; edge counts follow Stackoverflow's; a step replaces `churn`."""
    sequence = replace(GRAPH, deletes=True, snapshots=9, churn=0.2, unlabelled=0.0).sequence()
    of, keys = GRAPH._communities(), [set(snapshot.keys().tolist()) for snapshot in sequence]
    static = next(iter(GRAPH))
    whole = set(static.keys().tolist())
    assert all(one < whole for one in keys)
    assert [len(one) for one in keys] == np.rint(stackoverflow_trend(9) * len(whole)).astype(int).tolist()
    assert [len(before - after) for before, after in pairwise(keys)] == [round(0.1 * len(before)) for before in keys[:-1]]
    assert (sequence.classes == of).all() and abs((of[sequence.src] == of[sequence.dst]).mean() - 0.85) < 0.02
    assert np.array_equal(sequence.features, GRAPH.sequence().features)


def nearest_mean(features: np.ndarray, classes: np.ndarray) -> float:
    """Share of the nodes that are nearest to their own class's mean."""
    means = np.stack([features[classes == one].mean(0) for one in range(classes.max() + 1)])
    return float((np.linalg.norm(features[:, None] - means, axis=2).argmin(1) == classes).mean())


@pytest.mark.parametrize(
    ("name", "degree", "alone", "with_neighbours"),
    [("arxiv", 10.6, 0.555, 0.717), ("products", 15.0, 0.611, 0.756), ("reddit", 137.3 / 4, 0.585, 0.930)],
)
def test_blocks_of_the_catalogue_are_as_hard_as_the_originals(name, degree, alone, with_neighbours):
    """Mean degrees of REAL's Table 3, and accuracies that OGB and GraphSAGE print of models without and with the graph."""
    own, shared = [], []
    for seed in range(6):
        sequence = replace(catalogue.load_generator(f"{name}_blocks"), seed=seed).sequence()
        own.append(nearest_mean(sequence.features, sequence.classes))
        dense, last = np.eye(sequence.num_nodes, dtype=np.float32), sequence[len(sequence) - 1]
        dense[last.dst, last.src] = 1
        shared.append(nearest_mean(dense @ sequence.features / dense.sum(1, keepdims=True), sequence.classes))
    assert len(sequence.src) / len(sequence) / sequence.num_nodes == pytest.approx(degree, rel=0.01)
    assert np.mean(own) == pytest.approx(alone, abs=0.01) and np.mean(shared) == pytest.approx(with_neighbours, abs=0.01)


def test_classes_are_saved_and_passed_on(tmp_path):
    loaded = catalogue.load("communities_small")
    store.save(tmp_path / "kept", loaded)
    for one in (store.load(tmp_path / "kept"), loaded.head(3), loaded.window(2), loaded.without_self_edges()):
        assert np.array_equal(one.classes, loaded.classes) and np.array_equal(one.features, loaded.features)
    heard = []
    generators.write_dataset(tmp_path / "made", catalogue.load_generator("communities_small"), heard.append)
    assert heard == [24] and np.array_equal(store.load(tmp_path / "made").classes, loaded.classes)


def archive(path, **changes):
    arrays = {"src": np.array([0, 1, 2]), "dst": np.array([1, 2, 0]), "ptr": np.array([0, 1, 3]), "num_nodes": np.array(3), **changes}
    np.savez(path / "graph.npz", **arrays)
    return open_dataset(path / "graph.npz", "npz")


def test_an_archive_has_them(tmp_path):
    dataset = archive(tmp_path, classes=np.array([2, -1, 0], np.int8))
    assert dataset.classes.tolist() == [2, -1, 0] and dataset.classes.dtype == np.int32 and "classes" in dataset.account["arrays"]
    assert archive(tmp_path).classes is None and archive(tmp_path).num_classes == 0


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (np.array([0, 1]), r"expected shape \(3\), got \(2,\)"),
        (np.array([0, -2, 1]), r"classes\[1\]: expected -1 \(unlabelled\) or 0\.\.65535, got -2"),
        (np.array([0, 1, 2**40]), r"classes\[2\]: expected .* got 1099511627776"),
        (np.array([0.0, 1.0, 1.5]), "classes: expected integers in 1 dimensions, got float64"),
    ],
)
def test_an_archive_with_other_classes_is_refused(tmp_path, classes, message):
    with pytest.raises(UserError, match=message):
        archive(tmp_path, classes=classes)


def test_a_sequence_refuses_them_too():
    sequence = GRAPH.sequence()
    for classes, message in ((sequence.classes[1:], r"classes: expected shape"), (sequence.classes - 1, r"classes\[\d+\]: expected -1")):
        with pytest.raises(UserError, match=f"SnapshotSequence.{message}"):
            replace(sequence, classes=classes)
    assert SnapshotSequence.from_snapshots(GRAPH).num_classes == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inside": 1.5}, "inside: expected a share in 0..1, got 1.5"),
        ({"classes": 301}, r"classes: expected 1..300, got 301"),
        ({"apart": -1.0}, "apart of at least 0"),
    ],
)
def test_parameters_out_of_range_are_refused(changes, message):
    with pytest.raises(UserError, match=f"communities: .*{message}"):
        replace(GRAPH, **changes)
