"""Training on signals: strategies that must agree feed the same batches and end at the same losses, on one rank and on several."""

from __future__ import annotations

import json
import threading
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from chronoscale.batching.signals.standardisation import fit_scaler
from chronoscale.batching.signals.windows import WindowAssignment, Windows
from chronoscale.datasets import store
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.real_exec.binding import bind_program, run_preparation
from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import make_lanes
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.ranks.launch import launch, start, wait
from chronoscale.real_exec.signals.feeds import FEEDS
from chronoscale.real_exec.signals.program import SignalProgram
from chronoscale.real_exec.signals.recipe import feed_of
from chronoscale.real_exec.training.epoch_loop import ENTRY
from chronoscale.real_exec.training.training_end import TEST
from chronoscale.strategies.cluster import Device, Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.signals import stores
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

CPU = torch.device("cpu")
COSTS = DatasheetCosts(Device("none", 1, 1, 1, Link(1, 0), 0))
NODES, STEPS, CHANNELS = 5, 70, 2
HYPER = Hyper(batch_size=8, window=4, horizon=3, seed=3)
SAME = ("pgt", "index", "gpu-index", "dist-index")
MODEL = ModelChoice("dcrnn", 4)


def signal(dtype: type[np.floating] = np.float32) -> Signal:
    """A few waves with holes on a ring."""
    rng = np.random.default_rng(2)
    time, node = np.arange(STEPS)[:, None, None], np.arange(NODES)[None, :, None]
    values = (50 + 9 * np.sin(time / 5 + node) + rng.normal(0, 1, (STEPS, NODES, CHANNELS))).astype(dtype)
    missing = rng.random(values.shape) < 0.05
    values[missing] = np.nan
    ring = np.arange(NODES)
    edges = np.stack([ring, (ring + 1) % NODES]).astype(np.int32)
    return Signal(values, edges, rng.random(NODES).astype(np.float32) + 0.1, missing)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("signal") / "waves"
    store.save(path, signal())
    return path


def workload(hyper: Hyper = HYPER) -> Workload:
    shape = forecaster_shape(MODEL, NODES, CHANNELS, hyper.window, hyper.horizon)
    return Workload("waves", SignalStatistics(STEPS, NODES, CHANNELS, NODES), shape, hyper)


def schedules(name: str, ranks: int, out: Path, hyper: Hyper = HYPER) -> tuple[Schedule, Path]:
    planner = strategy(name)
    path = out / f"{name}-{ranks}.prepare.parquet"
    planner.prepare(workload(hyper), ranks, COSTS).save(path)
    return planner.plan(workload(hyper), ranks, COSTS), path


def trained(name: str, folder: Path, out: Path, epochs: int = 2, hyper: Hyper = HYPER) -> tuple[SignalProgram, np.ndarray]:
    """Losses [epochs, steps] of one rank."""
    schedule, prepare = schedules(name, 1, out, hyper)
    with open_context(Settings(seed=1, device="cpu")) as context:
        program, lanes = program_of(item_of(name, folder, prepare, hyper), schedule, context), context.lanes(schedule)
        return program, np.stack([execute(schedule, program, lanes, "cpu").losses for _ in range(epochs)])


def item_of(name: str, folder: Path, prepare: Path, hyper: Hyper, schedule: str = "") -> Item:
    return Item(name, schedule, str(folder), hyper, prepare=str(prepare))


def program_of(item: Item, schedule: Schedule, context: Context) -> SignalProgram:
    """An epoch's, its preparation done."""
    run_preparation(item, MODEL, context)
    program = bind_program(item, schedule, MODEL, context)
    assert isinstance(program, SignalProgram)
    return program


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_feeds_give_the_same_batches(dtype: type[np.floating]) -> None:
    data, windows = signal(dtype), Windows(STEPS, 4, 3)
    scale = fit_scaler(data, windows)
    whole = np.where(data.missing, np.nan, data.values)
    whole = ((whole - scale.mean.astype(dtype)) / scale.deviation.astype(dtype)).astype(dtype)
    for local in (False, True):
        for starts in WindowAssignment(windows.train, 1, 8, local, seed=1).starts(0, 0):
            expected = np.stack([whole[s : s + 7] for s in starts])
            for kind, make in FEEDS.items():
                if kind is stores.PART and not local:
                    continue
                feed = make(data, windows, "training", CPU)
                if kind is stores.DEVICE:
                    feed.transfer()
                feed.materialise()
                result = feed.cut(feed.read(starts), starts) if kind is stores.PART else feed.read(starts)
                np.testing.assert_array_equal(result.numpy(), expected, err_msg=kind)


@pytest.mark.parametrize("squared", [False, True])
def test_the_loss_is_of_the_steps_that_count(folder: Path, tmp_path: Path, squared: bool) -> None:
    """The first step's loss of each epoch, by hand: absolute or squared errors of one step ahead, then of two, of three, of three."""
    hyper = replace(HYPER, loss="mse" if squared else "mae", curriculum=1, batches=1)
    schedule, prepare = schedules("index", 1, tmp_path, hyper)
    with open_context(Settings(seed=1, device="cpu")) as context:
        program, lanes = program_of(item_of("index", folder, prepare, hyper), schedule, context), context.lanes(schedule)
        deviation = float(program.feed.scale.deviation[0])
        for steps in (1, 2, 3, 3):
            (starts,) = program.deals[0].starts(0, program.epoch)
            batch = program.feed.read(starts).float()
            with torch.no_grad():
                wrong = (program.model(batch[:, :4].nan_to_num()) - batch[:, 4:, :, 0])[:, :steps] * deviation
            expected = wrong.square().nanmean() if squared else wrong.abs().nanmean()
            assert execute(schedule, program, lanes, "cpu").losses.tolist() == pytest.approx([float(expected)], rel=1e-5)


def test_a_block_must_be_contiguous() -> None:
    feed = FEEDS[stores.PART](signal(), Windows(STEPS, 4, 3), "training", CPU)
    feed.materialise()
    with pytest.raises(ValueError, match="consecutive"):
        feed.read(np.array([1, 3]))


def test_a_mapped_signal_does_not_gather_in_memory(tmp_path: Path) -> None:
    """Pages of the file that the process holds, after every step was read; values are those of the array."""
    values = np.arange(1 << 22, dtype=np.float32).reshape(1 << 12, 1 << 9, 2)  # 16 MiB
    store.save(tmp_path / "wide", Signal(values, np.zeros((2, 1), np.int32)))
    mapped = store.load(tmp_path / "wide")
    assert isinstance(mapped, Signal)

    def resident_bytes() -> int:
        maps = Path("/proc/self/smaps").read_text().split("values.npy\n")[1:]
        return sum(int(each.split("Rss:")[1].split()[0]) << 10 for each in maps)

    np.testing.assert_array_equal(mapped.values[::64], values[::64])
    before = resident_bytes()
    feed = FEEDS[stores.PART](mapped, Windows(1 << 12, 4, 3), "series", CPU)
    feed.materialise()
    result = feed.read(np.arange(9, 4000)).numpy() * feed.scale.deviation + feed.scale.mean
    np.testing.assert_allclose(result, values[9:4006], atol=2)
    assert before > 1 << 22 and resident_bytes() < 1 << 20


def test_strategies_that_must_agree_end_at_identical_losses(folder: Path, tmp_path: Path) -> None:
    program, losses = trained("pgt", folder, tmp_path)
    assert losses.shape == (2, 6) and np.isfinite(losses).all() and losses[1].mean() < losses[0].mean()
    for name in SAME[1:]:
        other, result = trained(name, folder, tmp_path)
        np.testing.assert_array_equal(result, losses, err_msg=name)
        assert torch.equal(other.errors.sums, program.errors.sums)


def test_loss_and_validation_by_hand(folder: Path, tmp_path: Path) -> None:
    schedule, prepare = schedules("index", 1, tmp_path)
    data, windows = signal(), Windows(STEPS, 4, 3)
    with open_context(Settings(seed=1, device="cpu", learning_rate=1e-12)) as context:  # a rate that changes nothing
        program = program_of(item_of("index", folder, prepare, HYPER), schedule, context)
        losses = execute(schedule, program, make_lanes(CPU), "cpu").losses
    scale = fit_scaler(data, windows)
    mean, deviation = scale.mean[0], scale.deviation[0]

    def errors(starts: np.ndarray) -> np.ndarray:
        x = np.stack([np.where(data.missing, np.nan, data.values)[s : s + 7] for s in starts])
        inputs = torch.from_numpy(np.nan_to_num((x[:, :4] - scale.mean) / scale.deviation).astype(np.float32))
        with torch.no_grad():
            prediction = program.model(inputs).numpy() * deviation + mean
        return np.abs(prediction - x[:, 4:, :, 0])

    for step, starts in enumerate(program.deals[0].starts(0, 0)):
        assert losses[step] == pytest.approx(np.nanmean(errors(starts)), rel=1e-5)
    assert program.errors.mae == pytest.approx(np.nanmean(errors(np.array(windows.validation))), rel=1e-5)


def test_a_step_follows_the_gradient_of_the_mean(folder: Path, tmp_path: Path) -> None:
    """Plain gradient descent, where Adam would hide a gradient's scale, against autograd through the mean over readings."""
    hyper = replace(HYPER, batches=1)
    schedule, prepare = schedules("index", 1, tmp_path, hyper)
    data, scale = signal(), fit_scaler(signal(), Windows(STEPS, 4, 3))
    with open_context(Settings(seed=1, device="cpu")) as context:
        program = program_of(item_of("index", folder, prepare, hyper), schedule, context)
        program.learner.optimizer = torch.optim.SGD(program.model.parameters(), 1.0)
        before = deepcopy(program.model)
        before.zero_grad()
        execute(schedule, program, make_lanes(CPU), "cpu")
    x = torch.from_numpy(np.stack([np.where(data.missing, np.nan, data.values)[s : s + 7] for s in program.deals[0].starts(0, 0)[0]]))
    inputs = ((x[:, :4] - torch.from_numpy(scale.mean)) / torch.from_numpy(scale.deviation)).nan_to_num().float()
    known = ~x[:, 4:, :, 0].isnan()
    (before(inputs) * scale.deviation[0] + scale.mean[0] - x[:, 4:, :, 0])[known].abs().mean().backward()
    for old, new in zip(before.parameters(), program.model.parameters(), strict=True):
        torch.testing.assert_close(old.detach() - new.detach(), old.grad, rtol=1e-4, atol=1e-5)


def test_a_preparation_happens_once_for_all_that_share_it(folder: Path, tmp_path: Path) -> None:
    item = item_of("index", folder, schedules("index", 1, tmp_path)[1], HYPER)
    with open_context(Settings(device="cpu")) as context:
        assert len(run_preparation(item, MODEL, context)) == 1
        assert run_preparation(replace(item, label="again"), MODEL, context) == []


@pytest.fixture(scope="module")
def two(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two ranks with half the batch each have learnt by each strategy."""
    out, half, items = tmp_path_factory.mktemp("two"), replace(HYPER, batch_size=4), []
    for name in ("index", "dist-index", "gen-dist-index", "ddp"):
        schedule, prepare = schedules(name, 2, out, half)
        schedule.save(out / f"{name}.parquet")
        items.append(item_of(name, folder, prepare, half, str(out / f"{name}.parquet")))
    launch(Job("two", tuple(items), str(out), MODEL, 2, settings=Settings(seed=1, device="cpu")), 2, out)
    return out


def test_ranks_of_any_number_train_alike(folder: Path, two: Path, tmp_path: Path) -> None:
    """Two ranks with half the batch each take the optimiser steps that one takes."""
    program, first = trained("index", folder, tmp_path)
    for name in ("index", "dist-index", "ddp"):
        np.testing.assert_allclose(np.load(two / f"{name}-losses.npy"), first, rtol=1e-4, err_msg=name)
        validated = json.loads((two / f"{name}-scores.json").read_text())  # of all ranks' windows
        assert len(validated) == 2 and validated[-1] == pytest.approx(program.errors.scores, rel=1e-4), name
    local = np.load(two / "gen-dist-index-losses.npy")
    assert np.isfinite(local).all() and local[1].mean() < local[0].mean()


def test_test_errors_are_of_all_ranks_windows(folder: Path, tmp_path: Path) -> None:
    """Two ranks with half the batch each test as one does."""
    results = []
    for ranks in (1, 2):
        out, hyper = tmp_path / str(ranks), replace(HYPER, batch_size=HYPER.batch_size // ranks)
        (out / "epochs").mkdir(parents=True)
        schedule, prepare = schedules("dist-index", ranks, out, hyper)
        schedule.save(out / "schedule.parquet")
        item = item_of("dist-index", folder, prepare, hyper, str(out / "schedule.parquet"))
        job = Job("train", (item,), str(out), MODEL, 1, settings=Settings(seed=1, device="cpu"))
        job.save(out / "job.json")
        wait(start(ENTRY, out / "job.json", ranks, 1), "train")
        results.append(json.loads((out / TEST).read_text()))
    assert list(results[0]) == ["mae", "rmse", "mape"] and results[0] == pytest.approx(results[1], rel=1e-4)


class Alike:
    """What a rank hears of another one that has the very same windows."""

    ranks = 2

    def all_reduce(self, values: torch.Tensor) -> None:
        values *= 2

    def barrier(self) -> None:
        return None


@pytest.mark.parametrize("variant", ["exact", "as-published"])
def test_a_step_follows_the_mean_over_ranks(variant: str, folder: Path, tmp_path: Path) -> None:
    """Plain gradient descent, as Adam would hide a factor: two ranks of the same windows move by the gradient of the mean over them."""
    hyper = replace(HYPER, batches=1, variant=variant, validate=False)
    schedule, prepare = schedules("index", 2, tmp_path, hyper)
    item, context = item_of("index", folder, prepare, hyper), Context(Settings(seed=1), collective=Alike())
    feed = feed_of(item, schedule, context)
    feed.materialise()
    program = bind_program(item, schedule, MODEL, context)
    assert isinstance(program, SignalProgram)
    program.learner.optimizer = torch.optim.SGD(program.model.parameters(), 1.0)
    before = deepcopy(program.model)
    before.zero_grad()
    program.begin()
    for task in program.tasks:
        program.run(task)
    batch = feed.read(program.deals[0].starts(0, 0)[0])
    wrong = (before(batch[:, :4].nan_to_num().float()) - batch[:, 4:, :, 0]) * float(feed.scale.deviation[0])
    wrong[~wrong.isnan()].abs().mean().backward()
    for old, new in zip(before.parameters(), program.model.parameters(), strict=True):
        torch.testing.assert_close(old.detach() - new.detach(), old.grad, rtol=1e-4, atol=1e-5)


def test_the_next_block_is_read_while_a_batch_trains(folder: Path, tmp_path: Path) -> None:
    """The first batch's forward pass waits until the second one's block has been read, which only another thread can do meanwhile."""
    schedule, prepare = schedules("gen-dist-index", 1, tmp_path)
    read = threading.Event()
    with open_context(Settings(seed=1, device="cpu")) as context:
        program = program_of(item_of("gen-dist-index", folder, prepare, HYPER), schedule, context)
        run, met = program.run, []

        def watched(task: Task) -> None:
            if task.op is Op.FORWARD and task.unit == 0:
                met.append(read.wait(20))
            run(task)
            if task.op is Op.FETCH and task.unit == 1:
                read.set()

        program.begin()
        context.lanes(schedule).run(program.tasks, watched)
    assert met == [True]
