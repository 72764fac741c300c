"""Classes of nodes: the block model, and how they are kept, read and refused."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from chronoscale.datasets import catalogue, store
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.generate import generators
from chronoscale.datasets.generate.communities import CommunityGraph
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import UserError

GRAPH = CommunityGraph(nodes=300, edges=2000, snapshots=5, classes=4, features=6, apart=2.0, seed=3)


def test_the_blocks_are_what_was_asked():
    """Edges mostly inside, some drawn anew, features around their class's mean, so many without a class."""
    found = GRAPH.sequence()
    of = GRAPH._communities()
    assert np.bincount(of).tolist() == [75] * 4
    assert found.num_classes == 4 and np.count_nonzero(found.classes == -1) == 60
    assert (found.classes == of)[found.classes >= 0].all()
    inside = (of[found.src] == of[found.dst]).mean()
    assert abs(inside - (0.8 + 0.2 / 4)) < 0.02
    keys = [set(snapshot.keys().tolist()) for snapshot in found]
    for before, after in pairwise(keys):
        assert 0.05 < len(after - before) / len(after) < 0.12
    means = np.stack([found.features[of == one].mean(0) for one in range(4)])
    assert np.abs(found.features - means[of]).std() < 1.1
    assert min(np.abs(one - other).max() for i, one in enumerate(means) for other in means[:i]) > 1


def test_the_seed_is_all_that_is_drawn_from():
    one, same, other = (replace(GRAPH, seed=seed).sequence() for seed in (3, 3, 4))
    for name in ("src", "features", "classes"):
        assert np.array_equal(getattr(one, name), getattr(same, name))
        assert not np.array_equal(getattr(one, name), getattr(other, name))


def test_classes_are_kept_and_handed_on(tmp_path):
    found = catalogue.load("communities_small")
    store.save(tmp_path / "kept", found)
    for one in (store.load(tmp_path / "kept"), found.head(3), found.window(2), found.without_self_edges()):
        assert np.array_equal(one.classes, found.classes) and np.array_equal(one.features, found.features)
    heard = []
    generators.write_dataset(tmp_path / "made", catalogue.load_generator("communities_small"), heard.append)
    assert heard == [24] and np.array_equal(store.load(tmp_path / "made").classes, found.classes)


def archive(path, **changes):
    arrays = {"src": np.array([0, 1, 2]), "dst": np.array([1, 2, 0]), "ptr": np.array([0, 1, 3]), "num_nodes": np.array(3), **changes}
    np.savez(path / "graph.npz", **arrays)
    return open_dataset(path / "graph.npz", "npz")


def test_an_archive_has_them(tmp_path):
    found = archive(tmp_path, classes=np.array([2, -1, 0], np.int8))
    assert found.classes.tolist() == [2, -1, 0] and found.classes.dtype == np.int32 and "classes" in found.account["arrays"]
    assert archive(tmp_path).classes is None and archive(tmp_path).num_classes == 0


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (np.array([0, 1]), r"expected shape \(3\), got \(2,\)"),
        (np.array([0, -2, 1]), r"classes\[1\]: expected -1 \(unlabelled\) or 0\.\.65535, got -2"),
        (np.array([0, 1, 2**40]), r"classes\[2\]: expected .* got 1099511627776"),
        (np.array([0.0, 1.0, 1.5]), "classes: expected integers in 1 dimensions, got float64"),
    ],
)
def test_an_archive_with_other_classes_is_refused(tmp_path, classes, said):
    with pytest.raises(UserError, match=said):
        archive(tmp_path, classes=classes)


def test_a_sequence_refuses_them_too():
    found = GRAPH.sequence()
    for classes, said in ((found.classes[1:], r"classes: expected shape"), (found.classes - 1, r"classes\[\d+\]: expected -1")):
        with pytest.raises(UserError, match=f"SnapshotSequence.{said}"):
            replace(found, classes=classes)
    assert SnapshotSequence.from_snapshots(GRAPH).num_classes == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inside": 1.5}, "inside: expected a share in 0..1, got 1.5"),
        ({"classes": 301}, r"classes: expected 1..300, got 301"),
        ({"apart": -1.0}, "apart of at least 0"),
    ],
)
def test_parameters_out_of_range_are_refused(changes, said):
    with pytest.raises(UserError, match=f"communities: .*{said}"):
        replace(GRAPH, **changes)
