"""Description of a dataset: what papers print of it, what its reader understood, and what is counted in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets import catalogue
from chronoscale.errors import UserError
from chronoscale.harness.data.counts import COUNTERS, printed_sizes
from chronoscale.harness.data.graphs import check_picture, draw_graph, require_signal, with_graph
from chronoscale.harness.data.opening import open_data
from chronoscale.harness.display.fact import Fact, Facts, facts_of
from chronoscale.harness.keys.experiment import Data
from chronoscale.harness.keys.families import family_of_dataset
from chronoscale.harness.keys.graphs import GraphKeys

HORIZON = 12  # of windows where no paper names another, as for PGT-I's traffic sets


def describe(
    names: Sequence[str],
    form: str | None = None,
    options: Mapping[str, str] | None = None,
    graph: GraphKeys | None = None,
    picture: Path | None = None,
) -> Facts:
    """Describe a dataset, by catalogue name or as files, for `chronoscale data info`: what papers print of it, then what is counted in it.

    names: one name, or the files of one event stream. form, options: format and options of the files' reader. graph: of a signal, in place
    of its own; picture: file to draw its graph to. Nothing is counted where the data are not at hand. Raises UserError for an unknown name,
    and for a graph of what has no sensors.
    """
    if picture is not None:
        check_picture(picture)
    paths = [name for name in names if Path(name).exists()]
    _check_paths(names, paths)
    if paths:
        data = Data(path=tuple(paths), format=form, options=dict(options or {}))
        return _count(data, HORIZON, graph, picture)
    name = names[0]
    if form or options:
        raise UserError(f"{name}: a format and options are for files; the catalogue says how this dataset is read")
    entry = catalogue.entry(name)
    horizon = entry.horizon or HORIZON
    facts: Facts = [Fact("family", entry.family), Fact("origin", entry.origin), Fact("source", entry.source)]
    for counts in entry.published:
        printed = {key: value for key, value in counts.model_dump().items() if key not in ("paper", "table") and value is not None}
        facts.append(Fact(f"published ({counts.paper}, table {counts.table})", printed))
        if entry.family == "signals":
            facts += printed_sizes(counts, horizon)
    if entry.origin == "published":
        if graph is not None or picture is not None:
            raise UserError(f"dataset '{name}' is not at hand, so that there is no graph of its sensors to build or to draw")
        return facts
    if graph is not None or picture is not None:
        return facts + _count(Data(name=name), horizon, graph, picture)
    try:
        return facts + _count(Data(name=name), horizon)
    except UserError as error:
        return [*facts, Fact("here", str(error))]


def _check_paths(names: Sequence[str], paths: Sequence[str]) -> None:
    """Raises UserError for a name that is a path to nothing."""
    if paths and len(names) == 1:
        return
    for name in names:
        if name not in paths and (len(names) > 1 or Path(name).suffix or len(Path(name).parts) > 1):
            raise UserError(f"{name}: no such file or folder")


def _count(data: Data, horizon: int, graph: GraphKeys | None = None, picture: Path | None = None) -> Facts:
    dataset = open_data(data, 0)
    if graph is not None:
        signal = require_signal(dataset, "--graph")
        dataset = with_graph(signal, graph, Windows(len(signal), horizon, horizon).training_steps)
    if picture is not None:
        draw_graph(require_signal(dataset, "--picture"), graph, picture)
    return facts_of(dataset.account) + COUNTERS[family_of_dataset(dataset).name](dataset, horizon)
