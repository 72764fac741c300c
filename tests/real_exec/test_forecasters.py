"""Forecasters against plain dense forms in float64; their sizes and saved bytes against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from chronoscale.real_exec.signals.forecast import normalised_graph as graph_module
from chronoscale.real_exec.signals.forecast import walks as walks_module
from chronoscale.real_exec.signals.forecast.model import Forecaster, forecaster
from chronoscale.real_exec.signals.forecast.walks import Walks
from chronoscale.strategies.signals.forecasters import FORECASTERS, forecaster_shape, forward_bytes, forward_flops, saved_bytes
from chronoscale.strategies.workload import ModelChoice

NODES, CHANNELS, WINDOW, HORIZON = 7, 2, 5, 3  # node 6 is isolated, node 5 has no edge out
EDGES = np.array([[0, 0, 1, 2, 3, 3, 4, 4], [1, 2, 2, 3, 3, 4, 0, 5]], np.int32)
WEIGHT = np.array([0.5, 1, 2, 0.1, 1, 0.7, 3, 1], np.float32)
DEEP = {"dcrnn": 2, "st-transformer": 2, "stid": 2, "graph-wavenet": 4}


def build(name: str, variant: str = "exact", seed: int = 1) -> Forecaster:
    shape = forecaster_shape(ModelChoice(name, 8, DEEP.get(name, 1), heads=2), NODES, CHANNELS, WINDOW, HORIZON, variant, 1)
    return forecaster(shape, EDGES, WEIGHT, NODES, WINDOW, HORIZON, seed).double()


def windows(batch: int = 3, channels: int = CHANNELS) -> Tensor:
    return torch.from_numpy(np.random.default_rng(5).normal(size=(batch, WINDOW, NODES, channels)))


def powers(published: bool) -> list[Tensor]:
    """Identity and diffusions, dense, by loops over edges; identity twice where published."""
    w, along, against, plain = (torch.zeros(NODES, NODES).double() for _ in range(4))
    for (i, j), value in zip(EDGES.T.tolist(), WEIGHT.tolist(), strict=True):
        w[i, j] = value
    eye = torch.eye(NODES).double()
    if not published:
        for i in range(NODES):
            along[i] = w[i] / w[i].sum() if w[i].sum() else 0
            against[i] = w[:, i] / w[:, i].sum() if w[:, i].sum() else 0
        return [eye, along, along @ along, against, against @ against]
    backwards = sorted((j, i) for i, j in EDGES.T.tolist())
    for (i, j), (a, b) in zip(EDGES.T.tolist(), backwards, strict=True):
        plain[j, i] = 1 / w[i].sum()
        against[b, a] = 1 / w[:, i].sum() if w[:, i].sum() else 0
    return [eye, eye, plain, 2 * plain @ plain - eye, against, 2 * against @ against - eye]


def diffusion_cell(cell: torch.nn.Module, x: Tensor, h: Tensor, terms: list[Tensor]) -> Tensor:
    """Li et al., eq. 3, one window: x [N, D], h [N, H]."""

    def conv(signal: Tensor, weight: Tensor) -> Tensor:
        return sum((term @ signal @ own for term, own in zip(terms, weight, strict=True)), torch.zeros(1).double())

    width = h.shape[1]
    given_x = conv(x, cell.of_input) + cell.bias
    gates = torch.sigmoid(given_x[:, : 2 * width] + conv(h, cell.of_state))
    z, r = gates[:, :width], gates[:, width:]
    return z * h + (1 - z) * torch.tanh(given_x[:, 2 * width :] + conv(r * h, cell.of_candidate))


def diffusion_reference(model: Forecaster, window: Tensor, published: bool) -> Tensor:
    terms = powers(published)

    def step(stack: torch.nn.Module, x: Tensor, states: list[Tensor]) -> list[Tensor]:
        built = []
        for cell, h in zip(stack.cells, states, strict=True):
            x = diffusion_cell(cell, x, h, terms)
            built.append(x)
        return built

    states = [torch.zeros(NODES, 8).double() for _ in model.encoder.cells]
    outputs = []
    for x in window:
        states = step(model.encoder, x, states)
        outputs.append(model.readout(states[-1])[:, 0])
    if model.decoder is None:
        return torch.stack(outputs[-HORIZON:])
    outputs, symbol = [], torch.zeros(NODES, 1).double()
    for _ in range(HORIZON):
        states = step(model.decoder, symbol, states)
        symbol = model.readout(states[-1])
        outputs.append(symbol[:, 0])
    return torch.stack(outputs)


def a3t_reference(model: Forecaster, window: Tensor, published: bool) -> Tensor:
    """[gcn(x), h] side by side, a gate at a time. As published every step starts from zeros, and the shares of steps are those of trained
    scores; in the paper the graph convolution has two layers and no bias, and scores are computed from the states."""
    matrix = torch.eye(NODES).double()
    for (i, j), value in zip(EDGES.T.tolist(), WEIGHT.tolist(), strict=True):
        matrix[j, i] = value
    degree = matrix.sum(1)
    matrix = matrix / degree.sqrt()[:, None] / degree.sqrt()[None]
    own = [model.of_state[:, :8], model.of_state[:, 8:], model.of_candidate]
    h = zero = torch.zeros(NODES, 8).double()

    def gate(at: int, x: Tensor, state: Tensor) -> Tensor:
        if published:
            convolved = matrix @ x @ model.convolution[at] + model.convolution_bias[at]
            return torch.cat((convolved, state), 1) @ torch.cat((model.mix[at], own[at])) + model.bias[at]
        columns = slice(8 * at, 8 * at + 8)
        convolved = 1 / (1 + torch.exp(-matrix @ torch.clamp(matrix @ x @ model.inner, min=0) @ model.outer))
        return torch.cat((convolved, state), 1) @ torch.cat((model.of_input[:, columns], own[at])) + model.bias[columns]

    states = []
    for x in window:
        h = zero if published else h
        z, r = torch.sigmoid(gate(0, x, h)), torch.sigmoid(gate(1, x, h))
        h = z * h + (1 - z) * torch.tanh(gate(2, x, r * h))
        states.append(h)
    if published:
        scores = model.scores.exp()
    else:
        scores = torch.stack([(model.of_sensors[0] * (state @ model.of_values[:, 0] + 0.3)).sum() for state in states]).exp()  # any bias
    context = sum((share * state for share, state in zip(scores / scores.sum(), states, strict=True)), zero)
    return ((torch.clamp(context, min=0) if published else context) @ model.readout.weight.T + model.readout.bias).T


def transformer_reference(model: Forecaster, window: Tensor, published: bool) -> Tensor:
    def norm(x: Tensor, layer: torch.nn.Module) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        return centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt() * layer.weight + layer.bias

    def linear(x: Tensor, layer: torch.nn.Module) -> Tensor:
        return x @ layer.weight.T + layer.bias

    x = linear(window[:, :, 0].T, model.token) + model.node + linear(window[-1, :, 1:2], model.clock)
    for block in model.blocks:
        queries, keys, values = linear(norm(x, block.before), block.queries_keys_values).split(8, 1)
        heads = []
        for head in (slice(0, 4), slice(4, 8)):
            scores = (queries[:, head] @ keys[:, head].T / 2).exp()
            heads.append(scores / scores.sum(1, keepdim=True) @ values[:, head])
        x = x + linear(torch.cat(heads, 1), block.mix)
        up = linear(norm(x, block.between), block.up)
        x = x + linear(up * 0.5 * (1 + torch.erf(up / 2**0.5)), block.down)
    return linear(norm(x, model.norm), model.readout).T


def stid_reference(model: Forecaster, window: Tensor, published: bool) -> Tensor:
    """A node at a time. Windows are not standardised, so that the clock is read as it is; 288 rows."""

    def linear(x: Tensor, layer: torch.nn.Module) -> Tensor:
        return layer.weight @ x + layer.bias

    columns = []
    for node in range(NODES):
        series = linear(torch.cat([window[step, node] for step in range(WINDOW)]), model.series)
        row = min(max(int(np.floor(float(window[-1, node, 1]) * 288 + 1e-3)), 0), 287)
        x = torch.cat((series, model.node[node], model.time[0, row]))
        for layer in model.layers:
            x = x + linear(torch.clamp(linear(x, layer.inner), min=0), layer.outer)
        columns.append(linear(x, model.readout))
    return torch.stack(columns, 1)


def wavenet_reference(model: Forecaster, window: Tensor, published: bool) -> Tensor:
    """Step by step and sensor by sensor: Wu et al., eqs. 5 to 8, with dilations 1, 2, 1, 2; steps before the window are zeros.

    As published, matrices are transposed. Instead of a batch, sensors and steps of a window are normalised.
    """

    def linear(x: Tensor, layer: torch.nn.Module) -> Tensor:
        return layer.weight @ x + layer.bias

    learnt = torch.clamp(model.sources @ model.targets, min=0).exp()
    learnt = learnt / learnt.sum(1, keepdim=True)
    _, *matrices = [*powers(False), learnt, learnt @ learnt]
    if published:
        matrices = [matrix.T for matrix in matrices]
    steps = {
        t: [linear(window[t, n] if t >= 0 else torch.zeros(CHANNELS).double(), model.start) for n in range(NODES)] for t in range(-2, 5)
    }
    lasts = []
    for layer, dilation in enumerate((1, 2, 1, 2)):
        gated = {}
        for t in [t for t in steps if t - dilation in steps]:
            both = [linear(torch.cat((steps[t - dilation][n], steps[t][n])), model.gated[layer]) for n in range(NODES)]
            gated[t] = torch.stack([torch.tanh(each[:8]) * torch.sigmoid(each[8:]) for each in both])
        lasts.append(gated[4])
        if layer == 3:
            break
        conv, after = model.graph[layer], {}
        for t, x in gated.items():
            mixed = x @ conv.weight[0] + sum(matrix @ x @ own for matrix, own in zip(matrices, conv.weight[1:], strict=True))
            after[t] = mixed + conv.bias + torch.stack(steps[t])
        every = torch.stack([*after.values()])
        mean = every.mean((0, 1))
        spread = ((every - mean) ** 2).mean((0, 1))
        steps = {t: [*((x - mean) / (spread + 1e-5).sqrt() * conv.scale + conv.shift)] for t, x in after.items()}
    columns = []
    for n in range(NODES):
        hidden = torch.clamp(linear(torch.cat([last[n] for last in lasts]), model.skip), min=0)
        columns.append(linear(torch.clamp(linear(hidden, model.end), min=0), model.readout))
    return torch.stack(columns, 1)


REFERENCES = {
    "dcrnn": diffusion_reference,
    "pgt-dcrnn": diffusion_reference,
    "a3t-gcn": a3t_reference,
    "st-transformer": transformer_reference,
    "stid": stid_reference,
    "graph-wavenet": wavenet_reference,
}


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
