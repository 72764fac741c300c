"""The as-published diffusion cell is PyTorch Geometric Temporal's, with the same weights; needs that package's file, not its install."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from chronoscale.real_exec.signals.forecast.dcrnn import DiffusionGru
from chronoscale.real_exec.signals.forecast.walks import Walks

NODES, WIDTH, HIDDEN = 9, 2, 6


@pytest.fixture(scope="module")
def upstream() -> ModuleType:
    """Its dcrnn.py alone: the package's own import needs more than this file does."""
    result, other = (importlib.util.find_spec(name) for name in ("torch_geometric_temporal", "torch_geometric"))
    if result is None or result.origin is None or other is None:
        pytest.skip("torch_geometric_temporal is not installed")
    path = Path(result.origin).parent / "nn" / "recurrent" / "dcrnn.py"
    spec = importlib.util.spec_from_file_location("upstream_dcrnn", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["upstream_dcrnn"] = module  # where torch_geometric looks up the types of its methods
    spec.loader.exec_module(module)
    return module


def graph() -> tuple[np.ndarray, np.ndarray]:
    """Edges in random order, no two alike; every node has some out and some in."""
    rng = np.random.default_rng(4)
    matrix = (rng.random((NODES, NODES)) < 0.3) | np.eye(NODES, k=1, dtype=bool) | np.eye(NODES, k=1 - NODES, dtype=bool)
    edges = rng.permutation(np.argwhere(matrix), axis=0).T.astype(np.int32)
    return edges, rng.uniform(0.2, 2, edges.shape[1]).astype(np.float32)


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("batched", [False, True])
def test_as_published_cell(upstream: ModuleType, hops: int, batched: bool) -> None:
    edges, weight = graph()
    torch.manual_seed(0)
    theirs = (upstream.BatchedDCRNN if batched else upstream.DCRNN)(WIDTH, HIDDEN, hops + 1)
    ours, walks = DiffusionGru(WIDTH, HIDDEN, hops, published=True), Walks(edges, weight, NODES, hops, published=True)
    with torch.no_grad():
        convolutions = (theirs.conv_x_z, theirs.conv_x_r, theirs.conv_x_h)
        for convolution in convolutions:
            torch.nn.init.normal_(convolution.bias)
        # theirs [2, K, in, out] a gate; ours: both identities, then steps along, then against, the gates side by side
        beside = torch.cat([torch.cat((c.weight[:, 0], c.weight[0, 1:], c.weight[1, 1:])) for c in convolutions], -1)
        ours.of_input.copy_(beside[:, :WIDTH])
        ours.of_state.copy_(beside[:, WIDTH:, : 2 * HIDDEN])
        ours.of_candidate.copy_(beside[:, WIDTH:, 2 * HIDDEN :])
        ours.bias.copy_(torch.cat([c.bias for c in convolutions]))
    index, values = torch.from_numpy(edges).long(), torch.from_numpy(weight)
    x = torch.randn(3, NODES, WIDTH)  # three steps of one window
    expected, state = [], None
    if batched:
        expected = list(theirs(x[None], index, values)[0])
    else:
        for step in x:
            state = theirs(step, index, values, state)
            expected.append(state)
    state = None
    for step, queries in zip(x, expected, strict=True):
        weights = ours.weights()
        state = ours(ours.narrow(walks(step), weights), state, weights, walks)
        torch.testing.assert_close(state, queries, rtol=1e-5, atol=1e-5)
