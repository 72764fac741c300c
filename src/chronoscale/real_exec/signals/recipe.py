"""Windows: from a recipe to a program that trains on a signal's windows, its preparation done."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch

from chronoscale.datasets import store
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.standard import Period
from chronoscale.datasets.signals.windows import Windows
from chronoscale.errors import UserError
from chronoscale.real_exec.collective import Collective
from chronoscale.real_exec.environment import device_name
from chronoscale.real_exec.interpreter import Pass, execute
from chronoscale.real_exec.lanes import CpuLanes, lanes_for
from chronoscale.real_exec.signals.engine import Engine, Spread
from chronoscale.real_exec.signals.feeds import FEEDS, Feed
from chronoscale.real_exec.signals.forecast.model import forecaster
from chronoscale.real_exec.signals.program import PreparationProgram, WindowProgram
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.feeding import Feeding
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.signals.stores import SPREAD
from chronoscale.strategies.workload import Hyper


@dataclass(frozen=True, slots=True)
class Recipe:
    """A stored signal (folder), the schedule of its preparation (file), and the model that is trained on it."""

    dataset: str
    prepare: str
    hyper: Hyper
    model: str
    hidden: int
    layers: int
    hops: int
    heads: int
    learning_rate: float
    seed: int


def prepared(
    recipe: Recipe,
    schedule: Schedule,
    rank: int,
    device: torch.device,
    together: Collective,
    stack: ExitStack,
    feeds: dict[str, Feed] | None = None,
) -> tuple[WindowProgram, list[Pass]]:
    """The program of an epoch and the pass of its preparation, none if that is done: recipes with one `prepare` share what it made, in
    `feeds`. Called on every rank; what it starts ends with `stack`.

    Raises UserError for a dataset that is no signal, and as the models do.
    """
    signal, hyper = store.load(recipe.dataset), recipe.hyper
    if not isinstance(signal, Signal):
        raise UserError(f"{recipe.dataset}: expected a signal")
    windows = Windows(len(signal), hyper.window, hyper.horizon)
    done, feeds = [], {} if feeds is None else feeds
    if recipe.prepare not in feeds:
        series = (signal, windows, cast(Period, hyper.standardise), device)
        feeds[recipe.prepare], one = _prepare(recipe, schedule, series, rank, together, stack)
        done.append(one)
    feed, feeding = feeds[recipe.prepare], Feeding.of(schedule)
    sizes = (signal.num_nodes, signal.num_channels, recipe.hidden, recipe.layers, hyper.window, hyper.horizon, recipe.hops, recipe.heads)
    shape = forecaster_shape(recipe.model, *sizes, hyper.variant)
    graph = (signal.edge_index, signal.edge_weight, signal.num_nodes)
    model = forecaster(shape, *graph, hyper.window, hyper.horizon, recipe.seed, hyper.variant)
    deals = (feeding.training(windows, hyper, schedule.ranks), feeding.validation(windows, hyper, schedule.ranks))
    averaged = hyper.variant == "as-published"
    return WindowProgram(schedule, rank, feed, model, deals, hyper.window, device, together, recipe.learning_rate, averaged), done


def _prepare(
    recipe: Recipe,
    schedule: Schedule,
    series: tuple[Signal, Windows, Period, torch.device],
    rank: int,
    together: Collective,
    stack: ExitStack,
) -> tuple[Feed, Pass]:
    device, where = series[-1], Feeding.of(schedule).store
    feed: Feed
    if where is SPREAD:
        engine = Engine(rank, together.ranks)
        stack.callback(engine.close)
        feed = Spread(engine, Path(recipe.dataset), *series, rank)
    else:
        feed = FEEDS[where](*series)
    program = PreparationProgram(Schedule.load(Path(recipe.prepare)), rank, feed, device, together)
    lanes = lanes_for(device) if device.type == "cuda" else CpuLanes(False)
    return feed, execute(Schedule.load(Path(recipe.prepare)), program, lanes, device_name(device))
