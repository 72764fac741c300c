"""DyGFormer: patches, which nodes are the same, what pairs keep, and what it refuses; its scores are of test_stream_models.py."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from stream_batches import EDGE, FEATURES, RandomBatch, build, logits_of, through
from torch import Tensor

from chronoscale.errors import UserError
from chronoscale.real_exec.streams.models import dygformer
from chronoscale.real_exec.streams.models.model import stream_model
from chronoscale.real_exec.streams.tree import Tree
from chronoscale.strategies.streams.models import stream_shape
from chronoscale.strategies.streams.rows.work import score_work
from chronoscale.strategies.workload import ModelChoice


@pytest.mark.parametrize(("patch", "clock"), [(2, "linear"), (3, "log"), (4, "gaps")])
def test_patches_are_the_oracles(patch: int, clock: str) -> None:
    """Of some places each, the last one's empty; or of all of a sequence."""
    model = build("dygformer", features=FEATURES, edge=EDGE if patch < 3 else 0, patch=patch, clock=clock)
    assert model.shape.patches == {2: 2, 3: 2, 4: 1}[patch] and model.shape.parameters == sum(p.numel() for p in model.parameters())
    batch = RandomBatch(model)
    expected = batch.oracle.logits(batch.first, batch.last, batch.others)
    torch.testing.assert_close(logits_of(model, batch), expected)
    with torch.no_grad(), mock.patch.object(dygformer, "PAIRS", 7):  # two events at once
        torch.testing.assert_close(logits_of(model, batch), expected.detach())


def test_a_sequence_of_equal_rows_is_known_by_its_nodes() -> None:
    """Rows that repeat nodes, as slots have them, give the scores of a row a node."""
    model = build("dygformer", features=FEATURES)
    batch = RandomBatch(model)
    (tree,) = batch.trees()
    rows, sizes = torch.from_numpy(batch.features), [len(level) for level in tree.levels]
    apart = Tree([*torch.arange(sum(sizes)).split(sizes)], tree.hops, tree.levels)
    repeated = torch.cat([rows[level] for level in tree.levels])
    result = [through(model, *each, batch.waited()) for each in ((rows, [tree]), (repeated, [apart]))]
    scores = [model.score(each[:2], each[2:6].view(2, 2, -1)) for each in result]
    torch.testing.assert_close(*scores)
    unnamed = through(model, repeated, [apart._replace(names=None)], batch.waited())
    assert not torch.equal(model.score(unnamed[:2], unnamed[2:6].view(2, 2, -1)), scores[0])


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_what_pairs_keep_for_their_gradients_is_planned(dropout: float) -> None:
    """Half of what is moved, as of layers: within a third of it."""
    shape, events = stream_shape(ModelChoice("dygformer", 8, 1, 4, heads=2, time=20, dropout=dropout), 4, 3, 0, 1, 5), 20
    model, places = stream_model(shape, 5, dropout), shape.patches * shape.patch
    sequences = torch.rand(3 * events, shape.patches * 3 * shape.hidden + places, requires_grad=True)
    sizes = {}

    def keep(tensor: Tensor) -> Tensor:
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = model.score(sequences[:events], sequences[events:].view(events, 2, -1))
    saved = sum(sizes.values()) - sum(4 * parameter.numel() for parameter in model.parameters())
    assert logits.requires_grad and 2 / 3 < saved / (score_work(shape, 2 * events, events)[1] / 2) < 3 / 2


def test_pairs_have_no_labels_and_others_no_patches() -> None:
    for name, patch, message in (
        ("tgn", 2, "model 'tgn' has no patches, got patch: 2"),
        ("dygformer", 5, "a patch of 5 places, and a sequence"),
    ):
        with pytest.raises(UserError, match=message):
            stream_shape(ModelChoice(name, patch=patch), 0, 0, 0, 1, 3)
    with pytest.raises(UserError, match="model 'dygformer' embeds a node beside the other end of its event, and predicts links alone"):
        stream_shape(ModelChoice("dygformer"), 0, 0, 2, 1, 3)
