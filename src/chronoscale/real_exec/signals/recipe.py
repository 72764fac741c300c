"""Recipe: builds what training on a signal's windows takes, from an item: the signal, its feed, the model, the program."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from chronoscale.batching.signals.standardisation import Period
from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets import store
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.signals.feeds import FEEDS, Feed, VirtualFeed
from chronoscale.real_exec.signals.forecast.model import Forecaster, forecaster
from chronoscale.real_exec.signals.program import SUMS, SignalProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.signals.feeding import SignalFeeding
from chronoscale.strategies.signals.forecasters import forecaster_shape
from chronoscale.strategies.signals.stores import PART, SPREAD
from chronoscale.strategies.workload import ModelChoice


def signal_of(item: Item) -> Signal:
    """Load the signal that an item trains on, memory-mapped, on this rank. Raises UserError for another kind of dataset."""
    signal = store.load(item.dataset)
    if not isinstance(signal, Signal):
        raise UserError(f"{item.dataset}: expected a signal")
    return signal


def feed_of(item: Item, schedule: Schedule, context: Context) -> Feed:
    """Return the source of this rank's batches, which items with the same preparation share and the preparation fills.

    schedule: an epoch or its preparation; it says how batches are fed. What the source starts ends with the context. Raises UserError for
    an item without a preparation, and for a dataset that is no signal.
    """
    if not item.prepare:
        raise UserError(f"schedule '{schedule.name}' trains on windows, and its item names no preparation")

    def make() -> Feed:
        signal = signal_of(item)
        hyper = item.hyper
        store_kind = SignalFeeding.of(schedule).store
        series = (signal, Windows(len(signal), hyper.window, hyper.horizon), cast(Period, hyper.standardise), context.device)
        if context.virtual and store_kind is not PART:
            return VirtualFeed(*series, lambda make: context.share_between_ranks(("standardised", item.prepare), make))
        if store_kind is not SPREAD:
            return FEEDS[store_kind](*series)
        from chronoscale.real_exec.signals.engine import Engine, EngineFeed  # noqa: PLC0415 (Dask, for schedules that ask for it)

        engine = Engine(context.collective)
        context.stack.callback(engine.close)
        return EngineFeed(engine, Path(item.dataset), *series, context.rank)

    return context.share(("feed", item.prepare), make)


def model_of(item: Item, choice: ModelChoice, seed: int) -> Forecaster:
    """Return the untrained forecasting model of an item, on the host; parameters come from the seed.

    Raises UserError for an unknown model or impossible sizes.
    """
    signal, hyper = signal_of(item), item.hyper
    sizes = (signal.num_nodes, signal.num_channels, hyper.window, hyper.horizon)
    shape = forecaster_shape(choice, *sizes, hyper.variant, signal.calendar)
    graph = (signal.edge_index, signal.edge_weight, signal.num_nodes)
    return forecaster(shape, *graph, hyper.window, hyper.horizon, seed)


def learner_of(item: Item, choice: ModelChoice, context: Context) -> Learner[Forecaster]:
    """Return the untrained forecasting model of an item on this rank, with its optimiser; parameters come from the job's seed. Raises as
    `model_of`."""
    return Learner(model_of(item, choice, context.settings.seed), context, SUMS)


def program_of(item: Item, schedule: Schedule, learner: Learner[Forecaster], context: Context) -> SignalProgram:
    """Return this rank's program for an epoch on a signal, once the item's data are prepared.

    item: data and hyper-parameters. schedule: of kind "windows". learner: the model with its optimiser.
    """
    feed, feeding = feed_of(item, schedule, context), SignalFeeding.of(schedule)
    learner.model.standardise(feed.scale)
    deals = (feeding.training(feed.windows, item.hyper, schedule.ranks), feeding.validation(feed.windows, item.hyper, schedule.ranks))
    return SignalProgram(schedule, feed, learner, deals, item.hyper, context)
