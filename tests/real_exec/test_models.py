"""Models: sizes are what the shape says, parts do what the papers say."""

import pytest
import torch

from chronoscale.errors import UserError
from chronoscale.real_exec.snapshots.model import EvolvingBlock, SnapshotModel
from chronoscale.strategies.snapshots.models import MODELS, model_shape


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_parameters_are_counted(name, layers):
    shape = model_shape(name, 5, 7, layers)
    assert sum(p.numel() for p in SnapshotModel(shape).parameters()) == shape.parameters


@pytest.mark.parametrize("name", MODELS)
def test_seeds_decide(name):
    shape = model_shape(name, 5, 7)
    first, same, other = (torch.cat([p.flatten() for p in SnapshotModel(shape, seed).parameters()]) for seed in (1, 1, 2))
    assert torch.equal(first, same) and not torch.equal(first, other)


def test_evolving_weights_are_read_by_columns():
    """One step of -H by hand: a GRU over columns of W, fed with the best rows of x."""
    block = SnapshotModel(model_shape("evolvegcn-h", 4, 3)).block(0)
    assert isinstance(block, EvolvingBlock)
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    scores = x @ block.scorer / block.scorer.norm()
    best = sorted(range(9), key=lambda i: -scores[i].item())[:3]
    fed = torch.stack([x[i] * torch.tanh(scores[i]) for i in best])
    torch.testing.assert_close(block.evolve(None, x)[0], block.step.cell(fed, block.initial))
    weights = block.evolve(block.evolve(None, x), x)
    torch.testing.assert_close(block.transform(x, weights), torch.relu(x @ weights[0].T))


def test_a_summary_needs_its_nodes():
    block = SnapshotModel(model_shape("evolvegcn-h", 4, 10)).block(0)
    with pytest.raises(UserError, match=r"10 nodes.*has 3"):
        block.evolve(None, torch.zeros(3, 4))
