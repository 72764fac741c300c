"""Scheduled sampling of DCRNN's decoder, against plain loops in float64 that take nothing but what was drawn."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from chronoscale.batching.signals.scheduled_sampling import ScheduledSampling
from chronoscale.datasets import store
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.errors import UserError
from chronoscale.real_exec.binding import bind_program, run_preparation
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.graph_blocks import GraphBlocks
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import make_lanes
from chronoscale.real_exec.job import Item, Settings
from chronoscale.real_exec.signals.forecast import walks as walks_module
from chronoscale.real_exec.signals.forecast.model import Forecaster, forecaster
from chronoscale.real_exec.signals.program import SignalProgram
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

NODES, WINDOW, HORIZON, HIDDEN = 5, 4, 6, 3
EDGES = np.array([[0, 0, 1, 2, 3], [1, 2, 2, 3, 3]], np.int32)  # node 4 is isolated
WEIGHT = np.array([0.5, 1, 2, 0.1, 1], np.float32)
NEVER, ALWAYS = 1e-9, 1e12


def terms() -> list[Tensor]:
    """Identity, and two steps of the walks along and against the edges, dense."""
    w = torch.zeros(NODES, NODES).double()
    for (source, destination), value in zip(EDGES.T.tolist(), WEIGHT.tolist(), strict=True):
        w[source, destination] = value
    along, against = (matrix / matrix.sum(1, keepdim=True).clamp(min=1e-300) for matrix in (w, w.T))
    return [torch.eye(NODES).double(), along, along @ along, against, against @ against]


def step(stack: torch.nn.Module, x: Tensor, states: list[Tensor]) -> list[Tensor]:
    """Li et al., eq. 3, layer by layer: x [N, D], states [N, H]."""

    def convolve(signal: Tensor, weight: Tensor) -> Tensor:
        return sum((term @ signal @ own.double() for term, own in zip(terms(), weight, strict=True)), torch.zeros(1).double())

    after = []
    for cell, h in zip(stack.cells, states, strict=True):
        base = convolve(x, cell.of_input) + cell.bias.double()
        z, r = torch.sigmoid(base[:, : 2 * HIDDEN] + convolve(h, cell.of_state)).split(HIDDEN, 1)
        x = z * h + (1 - z) * torch.tanh(base[:, 2 * HIDDEN :] + convolve(r * h, cell.of_candidate))
        after.append(x)
    return after


def decoded(model: Forecaster, window: Tensor, truth: Tensor, taught: tuple[bool, ...]) -> Tensor:
    """[horizon, N] of one window [window, N, C]: a step reads the last one's prediction, or its truth [horizon, N] where there is one."""
    states = [torch.zeros(NODES, HIDDEN).double() for _ in model.encoder.cells]
    for x in window:
        states = step(model.encoder, x, states)
    read, predictions = torch.zeros(NODES).double(), []
    for ahead in range(HORIZON):
        states = step(model.decoder, read[:, None], states)
        predictions.append((states[-1] @ model.readout.weight.double().T + model.readout.bias.double())[:, 0])
        read = predictions[-1]
        if ahead < HORIZON - 1 and taught[ahead]:
            read = torch.stack([own if math.isnan(true) else true for own, true in zip(read, truth[ahead], strict=True)])
    return torch.stack(predictions)


@pytest.mark.parametrize("at_once", [1, 100])
@pytest.mark.parametrize("taught", [(True,) * 5, (False,) * 5, (False, True, True, False, True)])
def test_a_taught_decoder_is_its_plain_loop(taught: tuple[bool, ...], at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions and gradients, with true values that are missing; all windows at once, and one after the other."""
    monkeypatch.setattr(walks_module.Walks, "windows_at_once", lambda *_: at_once)
    shape = forecaster_shape(ModelChoice("dcrnn", HIDDEN, 2), NODES, 2, WINDOW, HORIZON)
    model = forecaster(shape, EDGES, WEIGHT, NODES, WINDOW, HORIZON, 1).double()
    rng = np.random.default_rng(4)
    x, truth = torch.from_numpy(rng.normal(size=(3, WINDOW, NODES, 2))), torch.from_numpy(rng.normal(size=(3, HORIZON, NODES)))
    truth[torch.from_numpy(rng.random((3, HORIZON, NODES)) < 0.2)] = math.nan
    built = model.teach(x, truth, taught)
    expected = torch.stack([decoded(model, window, true, taught) for window, true in zip(x, truth, strict=True)])
    torch.testing.assert_close(built, expected, rtol=1e-5, atol=1e-6)
    seed, inputs = torch.from_numpy(rng.normal(size=built.shape)), tuple(model.parameters())
    ours, theirs = (torch.autograd.grad(values, inputs, seed) for values in (built, expected))
    for each, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(each, other, rtol=1e-5, atol=1e-6)
    assert torch.equal(model.teach(x, truth, (False,) * 5), model(x))


def test_without_a_decoder_there_is_nothing_to_teach() -> None:
    for name in ("pgt-dcrnn", "a3t-gcn"):
        shape = forecaster_shape(ModelChoice(name, HIDDEN), NODES, 2, 6, HORIZON)
        model = forecaster(shape, EDGES, WEIGHT, NODES, 6, HORIZON, 1)
        with pytest.raises(NotImplementedError, match="has no decoder to teach"):
            model.teach(torch.zeros(1, 6, NODES, 2), torch.zeros(1, HORIZON, NODES), (True,) * 5)


@pytest.mark.parametrize("decay", [1.0, 30.0, 2000.0])
def test_the_probability_is_that_of_inverse_sigmoid_decay(decay: float) -> None:
    sampling = ScheduledSampling(decay, 100, HORIZON, 0)
    for iteration in (0, 1, 17, 500, 600):
        assert sampling.probability(iteration) == pytest.approx(decay / (decay + math.exp(iteration / decay)), rel=1e-12)
    assert sampling.probability(10**9) == 0


def test_shares_of_steps_that_are_taught_are_the_probabilities() -> None:
    """Within four deviations at each step, in each eighth of 70 epochs of 100 batches; steps are drawn one by one."""
    decay, epochs, batches = 700.0, 70, 100
    sampling = ScheduledSampling(decay, batches, HORIZON, 7)
    drawn = np.array([sampling.taught(epoch, batch) for epoch in range(epochs) for batch in range(batches)])
    expected = np.array([decay / (decay + math.exp(i / decay)) for i in range(epochs * batches)])
    assert drawn.shape == (epochs * batches, HORIZON - 1)
    for part in np.array_split(np.arange(len(drawn)), 8):
        deviation = math.sqrt(max((expected[part] * (1 - expected[part])).sum(), 1.0))
        assert (np.abs(drawn[part].sum(0) - expected[part].sum()) < 4 * deviation + 1).all()
    middle = drawn[np.abs(expected - 0.5) < 0.2]
    assert np.abs(np.corrcoef(middle.T) - np.eye(HORIZON - 1)).max() < 0.15, "steps, or batches, are drawn together"


def test_draws_follow_from_seed_epoch_and_batch() -> None:
    """Of a batch about which a coin would do, of its number in another epoch, of the next batch, and of another seed."""
    known = {
        number: ScheduledSampling(50.0, 150, 400, number[0]).taught(*number[1:])
        for number in ((0, 1, 46), (0, 0, 196), (0, 1, 47), (1, 1, 46))
    }
    assert known[0, 1, 46] == ScheduledSampling(50.0, 150, 400, 0).taught(1, 46)
    assert len(set(known.values())) == 4
    for decay in (0.0, -2.0, math.inf, math.nan):
        with pytest.raises(UserError, match="teacher_decay: expected a number of iterations above 0"):
            ScheduledSampling(decay, 1, 2, 0)


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Speeds around 50 with a deviation of about 9, one in ten missing."""
    rng = np.random.default_rng(2)
    values = (50 + 9 * np.sin(np.arange(60)[:, None, None] / 3 + np.arange(NODES)[:, None]) + rng.normal(0, 1, (60, NODES, 1))).astype(
        np.float32
    )
    missing = rng.random(values.shape) < 0.1
    folder = tmp_path_factory.mktemp("readings") / "speeds"
    store.save(folder, Signal(np.where(missing, np.nan, values).astype(np.float32), EDGES, WEIGHT, missing))
    return folder


def bound(readings: Path, out: Path, decay: float, horizon: int = HORIZON, rate: float = 1e-12) -> SignalProgram:
    """The program of an epoch of two batches and a validation, on one rank; its rate changes nothing."""
    hyper, planner = Hyper(batch_size=8, window=WINDOW, horizon=horizon, batches=2, teacher_decay=decay, seed=3), strategy("index")
    choice = ModelChoice("dcrnn", HIDDEN, 2)
    shape = forecaster_shape(choice, NODES, 1, WINDOW, horizon)
    work = Workload("speeds", SignalStatistics(60, NODES, 1, 5), shape, hyper)
    planner.prepare(work, 1, UNUSED).save(out / "before.parquet")
    item = Item("speeds", "", str(readings), hyper, prepare=str(out / "before.parquet"))
    context = Context(Settings(seed=1, learning_rate=rate))
    run_preparation(item, choice, context)
    program = bind_program(item, planner.plan(work, 1, UNUSED), choice, context)
    assert isinstance(program, SignalProgram)
    program.schedule = planner.plan(work, 1, UNUSED)  # type: ignore[attr-defined]
    return program


def epoch(program: SignalProgram) -> np.ndarray:
    return np.asarray(execute(program.schedule, program, make_lanes(torch.device("cpu")), "cpu").losses)  # type: ignore[attr-defined]


@pytest.mark.parametrize("decay", [NEVER, 4.0, ALWAYS])
def test_losses_by_hand(readings: Path, tmp_path: Path, decay: float) -> None:
    """Of three epochs: a decoder is taught in the units that it predicts in. With the least decay losses are those of no teaching at all;
    the validation, the test and whoever predicts read no truth."""
    program = bound(readings, tmp_path, decay)
    plain = bound(readings, tmp_path, 0.0)
    sampling = ScheduledSampling(decay, 2, HORIZON, 1)
    data = store.load(readings)
    known = data.values[:, :, 0].astype(np.float64)
    training = known[: program.feed.windows.training_steps]
    mean, deviation = np.nanmean(training), np.nanstd(training)
    scaled, drawn = torch.from_numpy((known - mean) / deviation), []
    for number in range(3):
        losses, expected = epoch(program), []
        for batch, starts in enumerate(program.deals[0].starts(0, number)):
            drawn.append(sampling.taught(number, batch))
            wrong = []
            for start in starts.tolist():
                inputs = torch.nan_to_num(scaled[start : start + WINDOW])[:, :, None]
                truth = scaled[start + WINDOW : start + WINDOW + HORIZON]
                with torch.no_grad():
                    wrong.append((decoded(program.model, inputs, truth, drawn[-1]) - truth).abs() * deviation)
            expected.append(float(torch.stack(wrong).nanmean()))
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        without = epoch(plain)
        assert np.array_equal(without, losses) if decay == NEVER else (np.abs(losses / without - 1) > 1e-5).any()
        assert program.errors.mae == pytest.approx(plain.errors.mae, rel=1e-6), "validation reads the truth"
    shares = np.mean(drawn)
    assert shares == {NEVER: 0, ALWAYS: 1}.get(decay, shares) and (decay != 4.0 or 0.1 < shares < 0.9)
    program.model.train()
    assert program.evaluate(program.deals[1]).mae == pytest.approx(plain.errors.mae, rel=1e-6), "the test reads the truth"


def test_an_epoch_that_is_taken_up_again_teaches_the_same(readings: Path, tmp_path: Path) -> None:
    whole, again = bound(readings, tmp_path, 4.0), bound(readings, tmp_path, 4.0)
    torch.manual_seed(5)
    expected = [epoch(whole) for _ in range(3)]
    again.epoch = 2
    torch.manual_seed(6)
    np.testing.assert_allclose(epoch(again), expected[2], rtol=1e-6)


def test_taught_batches_are_not_captured(readings: Path, tmp_path: Path) -> None:
    reason = "which steps scheduled sampling teaches the decoder follows from the epoch, and is drawn anew for every batch"
    assert bound(readings, tmp_path, 4.0).graph_blocks == reason
    assert isinstance(bound(readings, tmp_path, 0.0).graph_blocks, GraphBlocks)


def test_one_step_ahead_has_nothing_to_teach(readings: Path, tmp_path: Path) -> None:
    assert ScheduledSampling(ALWAYS, 2, 1, 1).taught(0, 0) == ()
    np.testing.assert_array_equal(epoch(bound(readings, tmp_path, ALWAYS, 1)), epoch(bound(readings, tmp_path, 0.0, 1)))
