"""Training with memory spread over ranks: ranks against one rank with all of it, lanes that overlap against lanes in turn."""

from pathlib import Path

import numpy as np
import pytest
from spread_ranks import MODELS, NAMES, PIPELINED, POLICIES, cases
from stream_case import prepared, stream
from stream_ranks import found as alone

from chronoscale.datasets.streams.prepared import Prepared
from chronoscale.real_exec.context import Context
from chronoscale.real_exec.launch import start, wait

COUNTS = (2, 4)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spread")
    prepared(folder, stream(features=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        for count in COUNTS:
            wait(start("spread_ranks", folder, count, 1), "ranks")
    return folder, {tuple(path.stem.rsplit("-", 2)): dict(np.load(path)) for path in sorted(folder.glob("*-*-*.npz"))}


@pytest.fixture(scope="module")
def whole(ranks):
    """One rank that has everything."""
    return {
        (model, layers): alone(ranks[0] / "prepared", model, Context()) for model, layers in MODELS if (model == "tgn") == (layers == 2)
    }


LABELS = [
    (",".join([name, model, str(layers), *[policy] * (policy != POLICIES[0])]), (model, layers))
    for model, layers in MODELS
    if (model == "tgn") == (layers == 2)
    for name in NAMES
    for policy in POLICIES
]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("label", "model"), LABELS)
def test_ranks_with_parts_are_one_with_all(ranks, whole, label, model, count):
    """However the stream is cut, whatever is shared."""
    one = whole[model]
    for rank in range(count):
        other = ranks[1][label, str(count), str(rank)]
        for name, value in one.items():
            here = ~np.isnan(other[name]) if name in ("memory", "updated", "mail", "mailed", "sent") else np.ones(value.shape, bool)
            np.testing.assert_allclose(other[name][here], value[here], atol=1e-4, err_msg=f"{label}, {count} ranks, rank {rank}: {name}")


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", PIPELINED)
@pytest.mark.parametrize("model", ["tgn", "apan"])
def test_lanes_that_overlap_change_no_bit(ranks, name, model, count):
    for rank in range(count):
        one, other = (ranks[1][f"{name},{model}{way}", str(count), str(rank)] for way in ("", ",beside"))
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[key], other[key], equal_nan=True) for key in one)


@pytest.mark.parametrize("count", COUNTS)
def test_every_node_is_where_it_belongs(ranks, count):
    """Of every case, ranks together have all nodes, and each node once, or everywhere."""
    for label, (name, *_) in cases():
        held = sum(~np.isnan(ranks[1][label, str(count), str(rank)]["updated"]) for rank in range(count))
        assert set(held.tolist()) <= ({count} if name == "disttgl" else {1, count}), label


def test_the_stream_is_as_large_as_it_is(ranks):
    assert Prepared.load(ranks[0] / "prepared").statistics.num_nodes == 9
