"""What is printed of predictions without a network is what pandas, dictionaries and scikit-learn compute by code of their own.

So no verdict that a model beats them rests on ours alone. Contestants: ours, what `chronoscale train` writes beside a model's test; plain,
`benchmarks/rivals/plain_forecasts.py` and `plain_links.py`, which share splits and negatives with it and nothing else. All scores of the
test must agree to 1e-6, or the case fails; figures are the first score of every rival, and the strongest is named last. Sets are those at
hand, of flights the first 60,000 events.

Or those of your own experiments, `CHRONOSCALE_RIVALS=air.yaml:calls.yaml python benchmarks rivals`, with their window, horizon and batch.
Which periods readings have is then taken from ours; what is predicted by them is computed again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from core.case import Case, Passes, Setting, Subject
from core.turns import seconds_of
from rivals.plain_forecasts import forecasts, series
from rivals.plain_links import Candidates, History, links
from setups.data import events_of, load_data, sequence_of

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.batching.signals.rivals.evaluation import score_signal_rivals
from chronoscale.batching.signals.rivals.periods import periods_of
from chronoscale.batching.signals.windows import Windows
from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.batching.snapshots.link_rivals import HALF_LIVES as SNAPSHOTS
from chronoscale.batching.snapshots.links import LinkPairs, LinkProtocol
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.rivals import HALF_LIVES as EVENTS
from chronoscale.batching.streams.rivals import score_stream_rivals
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.scores import scores_present
from chronoscale.datasets.signals.calendar import with_time_of_day
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.data.opening import open_data
from chronoscale.harness.keys.experiment_files import load
from chronoscale.real_exec.snapshots.objective import objective_of
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.workload import Hyper

LINKS = {
    "EdgeBank": "EdgeBank",
    "EdgeBank of a window": "window",
    "edges of the last snapshot": "window",
    "times the pair was there": "frequency",
    "seen pair then popularity of late": "seen",
    "latest pair then popularity of late": "latest",
    "popularity of late": "popular",
    "preferential attachment": "attachment",
    "common recent neighbours": "neighbours",
}  # plain names of ours
SIGNALS = (("los_loop", 288, 12, 12), ("us_flights_hourly", 24, 12, 12), ("pygt_chickenpox", 0, 8, 4), ("covid_us_counties", 0, 12, 12))
HELD = HeldOut(0.15, 0.2)
BATCH = 200
OWN = "CHRONOSCALE_RIVALS"  # names experiment files, with : between
Plain = Callable[[], Mapping[str, Mapping[str, float]]]


def compare(ours: Callable[[], Sequence[RivalScores]], plain: Plain, named: Mapping[str, str] | None = None) -> Passes:
    """Compute both, and fail where they differ. named: ours -> the plain name, None: the same."""
    scored: list[RivalScores] = []
    others: dict[str, Mapping[str, float]] = {}
    passes = [{"seconds": seconds_of(lambda: scored.extend(ours()))}, {"seconds": seconds_of(lambda: others.update(plain()))}]
    (score, *_) = scores_present(one.scores for one in scored)
    for one in scored:
        other = others[named[one.name] if named else one.name]
        for key, value in one.scores.items():
            if not key.endswith("_new"):
                assert abs(value - other[key]) <= 1e-6 * abs(value), f"{one.name}, {key}: {value} and {other[key]}"
        passes[0][one.name] = passes[1][one.name] = one.scores[score.key]
    best = score.best(one.scores[score.key] for one in scored)
    print(f"strongest: {next(one.name for one in scored if one.scores[score.key] == best)}, {score.describe(best)}")
    return {"ours": [passes[0]], "plain": [passes[1]]}


def signal_of(name: str) -> Signal:
    """Return a signal of the catalogue."""
    data = load_data(name)
    assert isinstance(data, Signal), f"{name} has no readings"
    return data


def signal(read: Callable[[], Signal], day: int, window: int, horizon: int, setting: Setting) -> Passes:
    """Compare on a signal, whose day has so many steps (0: not known)."""
    data = read()
    whole = Windows(len(data), window, horizon)
    spans = {"day": (day, 0), "week": (7 * day, day)} if day else {}
    periods = {name: span for name, span in spans.items() if span[0] <= whole.training_steps}
    names = {"last value": "last value", "training mean": "training mean", "ridge regression on the window": "ridge"}
    names |= {"same time yesterday": "day before", "same time last week": "week before"}
    average = "historical average by time of day"
    names |= {average: "average by day", f"{average} and weekday": "average by week"}
    shown = with_time_of_day(data, day) if day and not data.calendar else data
    return compare(lambda: score_signal_rivals(shown, whole), partial(plain_forecasts, data, whole, periods), names)


def own_signal(data: Signal, window: int, horizon: int, setting: Setting) -> Passes:
    """Compare on a signal of which ours says the periods."""
    whole = Windows(len(data), window, horizon)
    periods = periods_of(data, whole)
    names = {"last value": "last value", "training mean": "training mean", "ridge regression on the window": "ridge"}
    for period in periods:
        names |= {period.again: f"{period.steps} before", period.average: f"average by {period.steps}"}
    spans = {f"{period.steps}": (period.steps, periods[0].steps if at else 0) for at, period in enumerate(periods)}
    return compare(lambda: score_signal_rivals(data, whole), partial(plain_forecasts, data, whole, spans), names)


def plain_forecasts(data: Signal, whole: Windows, spans: Mapping[str, tuple[int, int]]) -> Mapping[str, Mapping[str, float]]:
    """Score plain code's predictions of the first channel of a signal. spans: as `forecasts` takes periods."""
    values = data.values[:, :, 0].astype(np.float64)
    values = values if data.missing is None else np.where(data.missing[:, :, 0], np.nan, values)
    parts = {"train": whole.train, "validation": whole.validation, "test": whole.test}
    return forecasts(pd.DataFrame(values), whole.window, whole.horizon, parts, spans)


def stream(read: Callable[[], EventStream], events: int, batch: int, setting: Setting) -> Passes:
    """Compare on the first events of a stream (0: all), in batches of so many."""
    source = read()
    data = PreparedStream.of(source.span(0, events) if events else source, Protocol())
    whole = data.whole.stream
    t, end = whole.t, data.split.train_end

    def candidates_of(part: range, uses: tuple[str, ...]) -> list[Candidates]:
        candidates = np.concatenate(
            [np.asarray(whole.dst[part.start : part.stop])[:, None], *(data.negatives(use).dst for use in uses)], axis=1
        )
        starts = range(part.start, part.stop, batch)
        return [Candidates(whole.src[at : min(at + batch, part.stop)], candidates[at - part.start :][:batch], at) for at in starts]

    hops = 1 + (not set(whole.src[:end].tolist()) & set(whole.dst[:end].tolist()))
    half_lives = [*(one for one in EVENTS if one < len(whole)), np.inf]
    validation, test = candidates_of(data.split.validation, ("validation",)), candidates_of(data.split.test, ("test", "ranked"))
    window = (1 - data.protocol.train - data.protocol.validation) * float(t[end - 1] - t[0])

    def plain() -> Mapping[str, Mapping[str, float]]:
        history = History(whole.src, whole.dst, np.arange(len(whole)), t, half_lives, hops)
        return links(history, validation, test, window, apart=False)

    return compare(lambda: score_stream_rivals(data, batch), plain, LINKS)


def degrees(name: str, setting: Setting) -> Passes:
    """Compare forecasts of the degrees of the next snapshot."""
    data = sequence_of(name)
    split = HELD.split(len(data))
    objective = objective_of(task_of("degrees"), data, Hyper(4, task="degrees", held=HELD))
    values = np.stack([np.log1p(np.stack([one.in_degree(), one.out_degree()], 1)).astype(np.float32) for one in data]).astype(np.float64)
    parts = {"train": split.training, "validation": split.validation, "test": split.test}
    return compare(
        lambda: objective.rivals(split, split.test, 1),
        lambda: {one: {"mse": error} for one, error in series(values, parts, 1).items()},
    )


def edges(name: str, setting: Setting) -> Passes:
    """Compare links of the next snapshot."""
    data = sequence_of(name)
    split = HELD.split(len(data))
    pairs = LinkPairs(data, HELD, LinkProtocol())
    objective = objective_of(task_of("links"), data, Hyper(4, task="links", held=HELD))
    time = np.repeat(np.arange(len(data)), np.diff(data.ptr))
    trained = slice(int(data.ptr[split.training.stop]))
    hops = 1 + (not set(data.src[trained].tolist()) & set(data.dst[trained].tolist()))

    def candidates_of(part: range) -> list[Candidates]:
        rows = {t: pairs.evaluated(t) for t in part}
        return [Candidates(rows[t][:, 0], rows[t][:, 1:], int(data.ptr[t])) for t in part]

    def plain() -> Mapping[str, Mapping[str, float]]:
        history = History(np.asarray(data.src), np.asarray(data.dst), time, time, [*SNAPSHOTS, np.inf], hops)
        return links(history, candidates_of(split.validation), candidates_of(split.test), 0, apart=True)

    return compare(lambda: objective.rivals(split, split.test, 1), plain, LINKS)


def own_case(file: Path) -> Case:
    """Return the case of an experiment's data, which are readings or events."""
    experiment = load(file)
    training = experiment.training.model_dump()
    data = open_data(experiment.dataset, 0)
    if isinstance(data, Signal):
        measure = partial(own_signal, data, training["window"], training["horizon"])
        return Case({"set": file.stem, "predicted": "readings"}, measure)
    assert isinstance(data, EventStream), f"{file}: expected readings or events"
    return Case({"set": file.stem, "predicted": "links"}, partial(stream, lambda: data, 0, training["batch_size"]))


def cases(quick: bool) -> Iterator[Case]:
    """Yield those of somebody's experiments, the sets at hand, or generated ones."""
    if OWN in os.environ and not quick:
        yield from map(own_case, map(Path, os.environ[OWN].split(os.pathsep)))
        return
    if quick:
        traffic = TrafficSignal(6, 900, missing=0.05, steps_per_day=24).signal
        yield Case({"set": "traffic", "predicted": "readings"}, partial(signal, traffic, 24, 6, 3))
        yield Case({"set": "hubs-500-25", "predicted": "links"}, partial(stream, partial(events_of, "hubs-500-25"), 0, BATCH))
        yield Case({"set": "growth-60-200-20", "predicted": "degrees"}, partial(degrees, "growth-60-200-20"))
        yield Case({"set": "growth-60-200-20", "predicted": "links"}, partial(edges, "growth-60-200-20"))
        return
    for name, day, window, horizon in SIGNALS:
        yield Case({"set": name, "predicted": "readings"}, partial(signal, partial(signal_of, name), day, window, horizon))
    for name, events in (("uci_messages", 0), ("jodie_wikipedia", 0), ("us_flights_2001", 60_000)):
        yield Case({"set": name, "predicted": "links"}, partial(stream, partial(events_of, name), events, BATCH))
    for name in ("math_overflow_monthly", "enron_monthly"):
        yield Case({"set": name, "predicted": "degrees"}, partial(degrees, name))
        yield Case({"set": name, "predicted": "links"}, partial(edges, name))


SUBJECT = Subject(cases, 1)
