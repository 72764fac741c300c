"""Look at a dataset's files: what they would be read as, in ten lines, and the command that reads them; or what has to be answered
first."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from chronoscale.datasets.formats.epoch import find_epoch_unit, show_date
from chronoscale.datasets.formats.question import Question
from chronoscale.datasets.node_names import name_nodes
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.store import Dataset
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.unpacking import name_unpacked
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.data.opening import open_data
from chronoscale.harness.display.fact import Fact, Facts
from chronoscale.harness.keys.experiment import Data
from chronoscale.harness.keys.families import family_of_dataset

FIRST = 4  # nodes that are named
EDGELESS = "the sensors have no edges: nothing in the file says which are near each other"


@dataclass(frozen=True, slots=True)
class Way:
    """Way to read a dataset's files: what it takes them for, the command that converts them, and the lines of an experiment file."""

    meaning: str
    command: str
    lines: str


@dataclass(frozen=True, slots=True)
class Look:
    """Result of a look at a dataset's files: facts of what they are read as, and the way to read them so; or a question, no facts, and a
    way for each answer."""

    facts: Facts
    question: str
    ways: tuple[Way, ...]


def look_at(paths: Sequence[str], form: str | None, options: Mapping[str, str]) -> Look:
    """Look at the files of a dataset: read them, with a format and options of the reader, and say as what. What the reader asks is the
    result, not an error. Raises UserError for files that are missing or that nobody can read."""
    for path in paths:
        if not Path(path).exists():
            raise UserError(f"{path}: no such file or folder")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ChronoscaleWarning)
            dataset = open_data(Data(path=tuple(paths), format=form, options=dict(options)), 0)
    except Question as question:
        ways = [_way(paths, answer.meaning, answer.format or form, {**options, **answer.options}) for answer in question.answers]
        return Look([], question.text, tuple(ways))
    odd = [str(one.message) for one in caught if issubclass(one.category, ChronoscaleWarning)]
    return Look(_describe(dataset, odd), "", (_way(paths, "", form, options),))


def _way(paths: Sequence[str], meaning: str, form: str | None, options: Mapping[str, str]) -> Way:
    first = Path(paths[0])
    out = name_unpacked(first).rsplit(".", 1)[0] if first.is_file() else f"{first.name}-data"
    words = ["chronoscale", "data", "convert", *paths, out if out != first.name else f"{out}-data"]
    words += [] if form is None else ["--format", form]
    for name, value in options.items():
        words += ["--option", f"{name}={value}"]
    keys: dict[str, object] = {"path": paths[0] if len(paths) == 1 else list(paths)}
    keys |= {} if form is None else {"format": form}
    keys |= {"options": dict(options)} if options else {}
    lines = yaml.safe_dump({"dataset": keys}, default_flow_style=True, sort_keys=False, width=10_000).strip()
    return Way(meaning, shlex.join(words), lines.removeprefix("{").removesuffix("}"))


def _describe(dataset: Dataset, odd: Sequence[str]) -> Facts:
    account = dataset.account
    facts = [Fact("format", str(account.get("reader", ""))), Fact("read as", account.get("read as", family_of_dataset(dataset).name))]
    facts += [Fact("columns", value) for key in ("columns", "arrays") if (value := account.get(key))]
    if isinstance(dataset, EventStream):
        facts += _of_events(dataset)
    elif isinstance(dataset, Signal):
        facts += _of_readings(dataset)
    else:
        facts += _of_snapshots(dataset)
    if dropped := account.get("dropped"):
        facts.append(Fact("not read", dropped))
    return facts + [Fact("odd", text) for text in (*odd, *_oddities(dataset))]


def _of_events(stream: EventStream) -> Facts:
    facts = [Fact("nodes", f"{stream.num_nodes:,}: {_first_nodes(stream)}"), Fact("events", f"{len(stream):,}{_beside(stream)}")]
    if not len(stream):
        return facts
    first, last = stream.t[0].item(), stream.t[-1].item()
    facts.append(Fact("time", stream.account.get("time", f"{_show_time(first, last)} to {_show_time(last, first)}")))
    src, dst = name_nodes(stream, (int(stream.src[0]), int(stream.dst[0])))
    return [*facts, Fact("first", f"{src} -> {dst}, time {_show_time(first, last)}")]


def _beside(stream: EventStream) -> str:
    parts = [] if stream.features is None else [f"{stream.features.shape[1]:,} feature{'s' * (stream.features.shape[1] > 1)}"]
    parts += [] if stream.labels is None else ["labels"]
    return f", with {' and '.join(parts)}" if parts else ""


def _of_readings(signal: Signal) -> Facts:
    steps, sensors, channels = signal.values.shape
    share = signal.missing_count / max(signal.values.size, 1)
    sizes = f"{steps:,} steps, {channels:,} channel{'s' * (channels > 1)}, {share:.2%} of the readings missing"
    facts = [Fact("sensors", f"{sensors:,}: {_first_nodes(signal)}"), Fact("readings", sizes)]
    facts += [Fact(key, signal.account[key]) for key in ("time", "gaps") if key in signal.account]
    names = name_nodes(signal, range(min(FIRST, sensors)))
    there = [
        "missing" if signal.missing is not None and signal.missing[0, at, 0] else f"{signal.values[0, at, 0]:g}" for at in range(len(names))
    ]
    first = ", ".join(f"{name} {value}" for name, value in zip(names, there, strict=True))
    return [*facts, Fact("first", f"step 0: {first}")]


def _of_snapshots(sequence: SnapshotSequence) -> Facts:
    return [
        Fact("nodes", f"{sequence.num_nodes:,}: {_first_nodes(sequence)}"),
        Fact("snapshots", f"{len(sequence):,}, of {int(sequence.ptr[-1]):,} edges in all"),
    ]


def _first_nodes(dataset: Dataset) -> str:
    count = dataset.num_nodes
    return ", ".join(name_nodes(dataset, range(min(FIRST, count)))) + (", …" if count > FIRST else "")


def _oddities(dataset: Dataset) -> list[str]:
    if isinstance(dataset, Signal):
        lone = not dataset.edge_index.shape[1] and dataset.num_nodes > 1
        return [*[EDGELESS] * lone, *([str(dataset.account["no reading"])] if "no reading" in dataset.account else [])]
    if isinstance(dataset, EventStream) and len(dataset) and (dataset.src == dataset.dst).all():
        return ["every event goes from a node to itself"]
    return []


def _show_time(time: float, other: float) -> str:
    """Show a time of a stream for people: a date where it and another one look like seconds since 1970."""
    dated = find_epoch_unit(min(time, other), max(time, other)) == "s"
    return show_date(int(time), 1) if dated else f"{time:,}"
