"""Forecasters against plain dense forms in float64; their sizes and saved bytes against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from dense_forecasters import CHANNELS, DEEP, EDGES, HORIZON, NODES, REFERENCES, WEIGHT, WINDOW, build, windows
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from chronoscale.real_exec.signals.forecast import normalised_graph as graph_module
from chronoscale.real_exec.signals.forecast import walks as walks_module
from chronoscale.real_exec.signals.forecast.model import forecaster
from chronoscale.real_exec.signals.forecast.walks import Walks
from chronoscale.strategies.signals.forecasters import FORECASTERS, forecaster_shape, forward_bytes, forward_flops, saved_bytes
from chronoscale.strategies.workload import ModelChoice


@pytest.mark.parametrize("dense", [512, 0])
@pytest.mark.parametrize("variant", ["exact", "as-published"])
@pytest.mark.parametrize("name", FORECASTERS)
def test_model_is_its_dense_form(name: str, variant: str, dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks_module, "DENSE_NODES", dense)
    monkeypatch.setattr(graph_module, "DENSE_NODES", dense)
    model, x = build(name, variant), windows()
    built = model(x)
    assert built.shape == (3, HORIZON, NODES)
    expected = torch.stack([REFERENCES[name](model, window, variant == "as-published") for window in x])
    torch.testing.assert_close(built, expected, rtol=1e-5, atol=1e-6)
    inputs = tuple(model.parameters())
    seed = torch.randn(built.shape, generator=torch.Generator().manual_seed(0)).double()
    ours, theirs = (torch.autograd.grad(values, inputs, seed, materialize_grads=True, allow_unused=True) for values in (built, expected))
    for each, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(each, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dense", [512, 0])
@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("hops", [1, 3])
def test_neighbour_sums_are_the_matrices_products(published: bool, dense: int, hops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, where most pairs have no edge: diffusions, convolutions, gradients, of edges that come twice, loops, and a node alone."""
    rng, nodes = np.random.default_rng(3), 40
    edges, weight = rng.integers(0, nodes - 1, (2, 90)).astype(np.int32), rng.random(90).astype(np.float32)
    edges[:, :4], edges[:, 4] = edges[:, 4:8], 7
    monkeypatch.setattr(walks_module, "DENSE_NODES", dense)
    walks = []
    for share in (0.25, 0):
        monkeypatch.setattr(walks_module, "SPARSE", share)
        walks.append(Walks(edges, weight, nodes, hops, published))
    assert walks[0]._neighbours and not walks[1]._neighbours
    drawn = [torch.from_numpy(rng.normal(size=size).astype(np.float32)) for size in ((nodes * 3, 5), (1 + 2 * hops, 5, 7), (nodes * 3, 7))]
    results = []
    for each in walks:
        x, matrices, base = (part.clone().requires_grad_() for part in drawn)
        spread, out = each(x.view(nodes, 3, 5)), each.convolve(x, matrices, base)
        (spread.square().sum() + out.square().sum()).backward()
        results.append((spread, out, x.grad, matrices.grad, base.grad))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * float(theirs.detach().abs().max()))


@pytest.mark.parametrize("name", ["dcrnn", "pgt-dcrnn"])
def test_windows_are_forecast_alike_some_at_a_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 7 windows, 3 at once or fewer as a CPU's cache holds them: forecasts and gradients are those of all together."""
    model, x, results = build(name).float(), windows().float(), []
    x = torch.cat([x, x.flip(1), x[:1] * 2])
    for cached in (1 << 18, 3 * NODES * 2 * model.encoder.hidden):
        monkeypatch.setattr(walks_module, "CACHED", cached)
        model.zero_grad()
        forecasts = model(x)
        forecasts.square().sum().backward()
        results.append([forecasts, *(parameter.grad.clone() for parameter in model.parameters())])
    assert model.walks.windows_at_once(2 * model.encoder.hidden, x) == 3 < len(x) == 7
    for whole, parts in zip(*results, strict=True):
        torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("variant", "differs"), [("exact", True), ("as-published", False)])
def test_attention_over_steps_depends_on_the_window(variant: str, differs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the paper's A3T-GCN, whose shares are those of the steps' states; upstream has the same shares for every window."""
    shares = []
    softmax = Tensor.softmax

    def noted(scores: Tensor, dim: int) -> Tensor:
        shares.append(softmax(scores, dim))
        return shares[-1]

    monkeypatch.setattr(Tensor, "softmax", noted)
    build("a3t-gcn", variant)(windows(2))
    (share,) = shares
    torch.testing.assert_close(share.sum(0), torch.ones_like(share.sum(0)))
    assert share.shape == ((WINDOW, 2) if differs else (WINDOW,))
    assert not differs or not torch.allclose(share[:, 0], share[:, 1], rtol=1e-3)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", FORECASTERS)
def test_gradients(name: str) -> None:
    model = build(name)
    assert torch.autograd.gradcheck(model, windows(1).requires_grad_())


@pytest.mark.parametrize("name", FORECASTERS)
def test_windows_are_independent_and_any_view_will_do(name: str) -> None:
    model, x = build(name), windows(4)
    built = model(x)
    assert built.isfinite().all()
    torch.testing.assert_close(built[1:2], model(x[1:2]))
    other = x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    torch.testing.assert_close(model(other), built)


@pytest.mark.parametrize("variant", ["exact", "as-published"])
@pytest.mark.parametrize("name", FORECASTERS)
def test_parameters_are_counted_and_come_from_the_seed(name: str, variant: str) -> None:
    layers = max(DEEP.get(name, 1), FORECASTERS[name].least_layers(9))
    shape = forecaster_shape(ModelChoice(name, 12, layers, hops=3, heads=3), NODES, 3, 9, 4, variant, 1)
    model = forecaster(shape, EDGES, None, NODES, 9, 4, 11)
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    torch.manual_seed(99)
    again = forecaster(shape, EDGES, WEIGHT, NODES, 9, 4, 11)
    other = forecaster(shape, EDGES, None, NODES, 9, 4, 12)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert model(torch.zeros(2, 9, NODES, 3)).isfinite().all()


@pytest.mark.parametrize("name", FORECASTERS)
def test_every_channel_is_read(name: str) -> None:
    """Three values and, behind them, two channels of the calendar; all steps of a value count, of the calendar the last does."""
    choice = ModelChoice(name, 8, FORECASTERS[name].least_layers(WINDOW), heads=2)
    shape = forecaster_shape(choice, NODES, 5, WINDOW, HORIZON, calendar=2)
    model, x = forecaster(shape, EDGES, WEIGHT, NODES, WINDOW, HORIZON, 1).double(), windows(1, 5)
    built = model(x)
    for channel in range(5):
        for step in range(WINDOW) if channel < 3 else [WINDOW - 1]:
            other = x.clone()
            other[0, step, 2, channel] += 1
            assert not torch.allclose(model(other), built), (channel, step)


@pytest.mark.parametrize("nodes", [60, 600])
@pytest.mark.parametrize(
    ("name", "above", "variant"),
    [*((name, above, "exact") for name in FORECASTERS for above in (0, 1) if not above or name in DEEP), ("a3t-gcn", 0, "as-published")],
)
def test_saved_bytes_are_what_autograd_keeps(name: str, above: int, variant: str, nodes: int) -> None:
    rng = np.random.default_rng(2)
    edges = rng.integers(0, nodes, (2, 4 * nodes)).astype(np.int32)
    shape = forecaster_shape(ModelChoice(name, 16, FORECASTERS[name].least_layers(6) + above), nodes, CHANNELS, 6, 4, variant, 1)
    model, x = forecaster(shape, edges, None, nodes, 6, 4, 0), torch.randn(4, 6, nodes, CHANNELS)
    remaining: dict[int, int] = {}
    left = {t.untyped_storage().data_ptr() for t in (*model.parameters(), x)}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in left:
            remaining[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = model(x)
    assert out.requires_grad
    assert saved_bytes(shape, nodes, edges.shape[1], 4, 6, 4) == pytest.approx(sum(remaining.values()), rel=0.15)


@pytest.mark.parametrize("name", FORECASTERS)
def test_work_grows_with_windows(name: str) -> None:
    shape = forecaster_shape(ModelChoice(name, layers=FORECASTERS[name].least_layers(12)), 700, 2, calendar=1)
    batches = np.array([0, 1, 64], np.int64)
    for work in (forward_flops, forward_bytes, saved_bytes):
        many = work(shape, 700, 5000, batches, 12, 12)
        assert many.dtype == np.int64
        assert many.tolist() == [work(shape, 700, 5000, int(b), 12, 12) for b in batches]
        assert isinstance(work(shape, 700, 5000, 3, 12, 12), int)


def test_a_matrix_that_is_learnt_is_kept_once_a_batch() -> None:
    """Its relu and its softmax, whatever the number of windows."""
    shape = forecaster_shape(ModelChoice("graph-wavenet", layers=8), 700, 2)
    none, one, two = (saved_bytes(shape, 700, 5000, windows, 12, 12) for windows in (0, 1, 2))
    assert none == 4 * 2 * 700**2 and two - one == one - none > 0


class Products(TorchDispatchMode):
    """Counts the multiply-adds of matrix products, times 2."""

    flops = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        built = func(*args, **(kwargs or {}))
        if "scaled_dot_product" in str(func):
            self.flops += 4 * args[0].numel() * args[1].shape[-2]
            return built
        factors = args[1:3] if "addmm" in str(func) else args[:2] if ".mm" in str(func) or ".bmm" in str(func) else ()
        if factors:
            entries = factors[0].values().numel() if factors[0].layout == torch.sparse_csr else factors[0].numel()
            self.flops += 2 * entries * factors[1].shape[-1]
        return built


@pytest.mark.parametrize(("name", "variant"), [*((name, "exact") for name in FORECASTERS), ("a3t-gcn", "as-published")])
@pytest.mark.parametrize("nodes", [60, 600])
def test_flops_are_those_of_the_products(name: str, variant: str, nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a GPU's form, which has no neighbour sums."""
    monkeypatch.setattr(walks_module, "SPARSE", 0)
    edges = np.stack([np.arange(4 * nodes) % nodes, np.arange(4 * nodes) // 4]).astype(np.int32)
    choice = ModelChoice(name, 16, max(DEEP.get(name, 1), FORECASTERS[name].least_layers(6)))
    shape = forecaster_shape(choice, nodes, CHANNELS, 6, 4, variant, 1)
    model = forecaster(shape, edges, None, nodes, 6, 4, 0)
    counter = Products()
    with torch.no_grad(), counter:
        model(torch.randn(2, 6, nodes, CHANNELS))
    counted = counter.flops
    once = name == "graph-wavenet" or variant == "as-published"  # products of weights, once a batch, are not counted
    assert forward_flops(shape, nodes, edges.shape[1], 2, 6, 4) == pytest.approx(counted, rel=0.02 if once else 0.001)
