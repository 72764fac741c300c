"""Description of a dataset: what papers print of it, what its reader understood, and what is counted in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chronoscale.datasets import catalogue
from chronoscale.errors import UserError
from chronoscale.harness.data.counts import COUNTERS, printed_sizes
from chronoscale.harness.data.opening import open_data
from chronoscale.harness.display.fact import Fact, Facts, facts_of
from chronoscale.harness.keys.experiment import Data
from chronoscale.harness.keys.families import family_of_dataset

HORIZON = 12  # of windows where no paper names another, as for PGT-I's traffic sets


def describe(names: Sequence[str], form: str | None = None, options: Mapping[str, str] | None = None) -> Facts:
    """Describe a dataset, by catalogue name or as files, for `chronoscale data info`: what papers print of it, then what is counted in it.

    names: one name, or the files of one event stream. form, options: format and options of the files' reader. Nothing is counted where the
    data are not at hand. Raises UserError for an unknown name.
    """
    paths = [name for name in names if Path(name).exists()]
    _check_paths(names, paths)
    if paths:
        data = Data(path=tuple(paths), format=form, options=dict(options or {}))
        return _count(data, HORIZON)
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
        return facts
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


def _count(data: Data, horizon: int) -> Facts:
    dataset = open_data(data, 0)
    return facts_of(dataset.account) + COUNTERS[family_of_dataset(dataset).name](dataset, horizon)
