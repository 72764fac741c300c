"""STID beside what all forecasters must hold: which rows of its tables a time reads, and its dropout in training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from chronoscale.batching.signals.standardisation import fit_scaler
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets import store
from chronoscale.datasets.signals.calendar import with_day_of_week, with_time_of_day
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.real_exec.binding import bind_program, run_preparation
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.graph_blocks import GraphBlocks
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import make_lanes
from chronoscale.real_exec.job import Item, Settings
from chronoscale.real_exec.signals.forecast.model import Forecaster, forecaster
from chronoscale.real_exec.signals.program import SignalProgram
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

CPU = torch.device("cpu")
NO_EDGES = np.zeros((2, 0), np.int32)
HYPER = Hyper(batch_size=5, window=4, horizon=2, seed=3)


def days(steps: int, a_day: int, dtype: type[np.floating] = np.float32, nodes: int = 2) -> Signal:
    """Speeds, the time of day and the day of the week."""
    speeds = np.random.default_rng(1).normal(50, 10, (steps, nodes, 1)).astype(dtype)
    return with_day_of_week(with_time_of_day(Signal(speeds, NO_EDGES), a_day), a_day)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("a_day", "times"), [(288, 288), (24, 288), (24, 24), (96, 1440), (1440, 1440), (7, 7)])
def test_every_step_of_a_day_and_every_day_has_a_row_of_its_own(a_day: int, times: int, dtype: type[np.floating]) -> None:
    """By the gradient of the tables; shares come as a training brings them, standardised, in float32."""
    data = days(8 * a_day, a_day, dtype)
    scale = fit_scaler(data, Windows(len(data), 1, 1))
    shape = forecaster_shape(ModelChoice("stid", 2, times=times), 2, 3, 1, 1, calendar=2)
    model = forecaster(shape, NO_EDGES, None, 2, 1, 1, 0)
    model.standardise(scale)
    values = np.empty_like(data.values)
    scale.apply(data.values, values)
    expected = [np.arange(len(data)) % a_day * times // a_day, np.arange(len(data)) // a_day % 7 * times // 7]
    read = rows_read(model, torch.from_numpy(values[:, None]).float())
    for channel in range(2):
        np.testing.assert_array_equal(read[channel], np.repeat(expected[channel][:, None], 2, 1))


def rows_read(model: Forecaster, x: torch.Tensor) -> list[np.ndarray]:
    """The row of each table that each window's last step reads, of every node, int [windows, N]: by what each row adds to the output."""
    built = []
    for table in model.time.detach():
        with torch.no_grad():
            model.time.zero_()
            model.layers[0].outer.weight.zero_()
            model.readout.weight.zero_()
            model.node.zero_()
            place = 2 * (2 + len(built))  # beside the embeddings of the window and of the node
            model.readout.weight[0, place], model.readout.bias[0], model.layers[0].outer.bias[:] = 1, 0, 0
            table[:, 0] = torch.arange(len(table))
            built.append(model(x)[:, 0].round().long().numpy())
    return built


def test_every_channel_of_the_calendar_has_a_table() -> None:
    """Counted as torch has it."""
    for calendar in (1, 2, 3):
        shape = forecaster_shape(ModelChoice("stid", 5, 2, times=9), 4, 2 + calendar, 3, 2, calendar=calendar)
        model = forecaster(shape, NO_EDGES, None, 4, 3, 2, 0)
        assert model.time.shape == (calendar, 9, 5)
        assert shape.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_a_share_outside_the_day_reads_the_nearest_row() -> None:
    shape = forecaster_shape(ModelChoice("stid", 2, times=5), 1, 2, 1, 1, calendar=1)
    model = forecaster(shape, NO_EDGES, None, 1, 1, 1, 0)
    shares = torch.tensor([-3.0, -0.1, 0.0, 0.39, 0.4, 0.9999999, 1.0, 7.0])
    assert rows_read(model, torch.stack((torch.zeros(8), shares), 1)[:, None, None])[0][:, 0].tolist() == [0, 0, 0, 1, 2, 4, 4, 4]


def program(tmp_path: Path, dropout: float, settings: Settings | None = None, hyper: Hyper = HYPER) -> SignalProgram:
    data = days(60, 8, nodes=3)
    if not (tmp_path / "days").exists():
        store.save(tmp_path / "days", data)
    choice, planner = ModelChoice("stid", 4, 2, dropout=dropout, times=8), strategy("index")
    shape = forecaster_shape(choice, 3, 3, hyper.window, hyper.horizon, calendar=2)
    work = Workload("days", SignalStatistics(60, 3, 3, 0, calendar=2), shape, hyper)
    planner.prepare(work, 1, UNUSED).save(tmp_path / "before.parquet")
    item, context = (
        Item("days", "", str(tmp_path / "days"), hyper, prepare=str(tmp_path / "before.parquet")),
        Context(settings or Settings()),
    )
    run_preparation(item, choice, context)
    built = bind_program(item, planner.plan(work, 1, UNUSED), choice, context)
    assert isinstance(built, SignalProgram)
    built.schedule = planner.plan(work, 1, UNUSED)  # type: ignore[attr-defined]
    return built


def epoch(built: SignalProgram) -> np.ndarray:
    return np.asarray(execute(built.schedule, built, make_lanes(CPU), "cpu").losses)  # type: ignore[attr-defined]


def test_the_program_tells_the_model_how_the_calendar_was_standardised(tmp_path: Path) -> None:
    """A checkpoint has it, too, so that whoever loads the model predicts as it was trained."""
    built = program(tmp_path, 0.0)
    scale = fit_scaler(days(60, 8, nodes=3), Windows(60, 4, 2))
    for name, expected in (("mean", scale.mean[1:]), ("deviation", scale.deviation[1:])):
        np.testing.assert_allclose(built.model.state_dict()[name].numpy(), expected, rtol=1e-6)


def test_what_dropout_leaves_out_follows_from_seed_epoch_and_batch(tmp_path: Path) -> None:
    """An epoch that is taken up again drops the same; another epoch or seed drops other values; validation drops nothing."""
    built, expected = program(tmp_path, 0.5, Settings(learning_rate=1e-12)), []
    for _ in range(2):
        torch.manual_seed(len(expected))  # whatever was drawn before
        expected.append(epoch(built))
    again = program(tmp_path, 0.5, Settings(learning_rate=1e-12))
    again.epoch = 1
    np.testing.assert_allclose(epoch(again), expected[1], rtol=1e-6)
    plain = program(tmp_path, 0.0, Settings(learning_rate=1e-12))
    losses = epoch(plain)
    assert (np.abs(losses - expected[0]) > 1e-6).all()
    assert built.errors.mae == pytest.approx(plain.errors.mae, rel=1e-6), "validation drops"
    built.model.train()
    assert built.evaluate(built.deals[1]).mae == pytest.approx(plain.errors.mae, rel=1e-6), "the test drops"
    other = program(tmp_path, 0.5, Settings(learning_rate=1e-12), replace(HYPER, seed=3))
    other._seed = 9
    assert (np.abs(epoch(other) - expected[0]) > 1e-6).all()
    assert built.graph_blocks == "what dropout leaves out follows from the epoch, and is drawn anew for every batch"
    assert isinstance(plain.graph_blocks, GraphBlocks)


def test_dropout_scales_what_it_leaves(tmp_path: Path) -> None:
    """In a layer x + W_2 dropout(relu(W_1 x)), on average what it is without."""
    shape = forecaster_shape(ModelChoice("stid", 64, 1, dropout=0.25), 1, 2, 1, 1, calendar=1)
    layer = forecaster(shape, NO_EDGES, None, 1, 1, 1, 0).layers[0]
    x = torch.ones(20_000, 192)
    with torch.no_grad():
        layer.inner.weight.zero_(), layer.inner.bias.fill_(1.0), layer.outer.weight.copy_(torch.eye(192)), layer.outer.bias.zero_()
        factors = layer(x) - 1
        assert sorted(factors.unique().tolist()) == pytest.approx([0, 4 / 3]) and float((factors == 0).float().mean()) == pytest.approx(
            0.25, abs=0.01
        )
        assert torch.equal(layer.eval()(x), x + 1)
