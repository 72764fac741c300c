"""Every forecaster on two ranks with half the batch each: the losses, validation errors and model of one rank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from virtual_ranks import Numbers, epochs_of, execute, prepare

from chronoscale.datasets import store
from chronoscale.datasets.signals.calendar import with_time_of_day
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.ranks.virtual import run_virtual
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.signals.forecasters import FORECASTERS, forecaster_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

NODES, STEPS, WINDOW = 4, 70, 4


@pytest.fixture(scope="module")
def waves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Waves on a ring with missing readings, and the time of day."""
    drawn, ring = np.random.default_rng(2), np.arange(NODES)
    values = (50 + 9 * np.sin(np.arange(STEPS)[:, None, None] / 5 + ring[:, None])).astype(np.float32)
    missing, edges = drawn.random(values.shape) < 0.05, np.stack([ring, (ring + 1) % NODES]).astype(np.int32)
    folder = tmp_path_factory.mktemp("signal") / "waves"
    store.save(folder, with_time_of_day(Signal(values, edges, None, missing), 12))
    return folder


def trained(name: str, ranks: int, waves: Path, out: Path, dropout: float = 0.0, decay: float = 0.0) -> Numbers:
    """Losses, validation and test errors and the last model of two epochs."""
    hyper, planner = Hyper(batch_size=8 // ranks, window=WINDOW, horizon=3, seed=3, teacher_decay=decay), strategy("dist-index")
    choice = ModelChoice(name, 4, FORECASTERS[name].least_layers(WINDOW), heads=2, dropout=dropout)
    shape = forecaster_shape(choice, NODES, 2, hyper.window, hyper.horizon, calendar=1)
    work = Workload("waves", SignalStatistics(STEPS, NODES, 2, NODES, calendar=1), shape, hyper)
    out.mkdir()
    planner.prepare(work, ranks, UNUSED).save(out / "before.parquet")
    planner.plan(work, ranks, UNUSED).save(out / "epoch.parquet")
    item = Item("waves", str(out / "epoch.parquet"), str(waves), hyper, prepare=str(out / "before.parquet"))
    job = prepare(Job("train", (item,), str(out), choice, 2, settings=Settings(seed=1, device="cpu")))
    run_virtual(lambda virtual: execute(job, virtual), ranks, "train")
    return epochs_of(job)


@pytest.mark.parametrize(("name", "decay"), [*((name, 0.0) for name in FORECASTERS), ("dcrnn", 4.0)])
def test_two_ranks_train_as_one(name: str, decay: float, waves: Path, tmp_path: Path) -> None:
    """A decoder that is taught, too, of which the batch decides."""
    one, two = (trained(name, ranks, waves, tmp_path / str(ranks), decay=decay) for ranks in (1, 2))
    assert one.keys() == two.keys() and len(one["losses"]) == 12 and one["test mae"][0] > 0
    for key, values in one.items():
        if not key.startswith("model "):  # Adam makes whole steps of gradients that are rounding alone
            np.testing.assert_allclose(two[key], values, rtol=1e-4, err_msg=key)


@pytest.mark.parametrize("name", [name for name, kind in FORECASTERS.items() if kind.drops])
def test_with_dropout_ranks_draw_for_themselves(name: str, waves: Path, tmp_path: Path) -> None:
    one, two = (trained(name, ranks, waves, tmp_path / str(ranks), 0.4) for ranks in (1, 2))
    again = trained(name, 2, waves, tmp_path / "again", 0.4)
    assert two == again
    assert abs(two["losses"][0] / one["losses"][0] - 1) > 1e-4
