"""Describe: a dataset as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from chronoscale.datasets import catalogue
from chronoscale.errors import UserError
from chronoscale.harness.fact import Fact, Facts, understood
from chronoscale.harness.families import FAMILIES, holding
from chronoscale.harness.keys.experiment import Data
from chronoscale.harness.open import opened

HORIZON = 12  # of windows where no paper names another, as for PGT-I's traffic sets


def dataset(names: Sequence[str], form: str | None = None, options: Mapping[str, str] | None = None) -> Facts:
    """What the papers print, what was understood of the files, and what is counted where the dataset is at hand. Several names are files of
    one stream; `form` and `options` are for a path's reader. Raises UserError for an unknown name."""
    rows: Facts = []
    name, horizon = names[0], HORIZON
    paths = [name for name in names if Path(name).exists()]
    if not paths or len(names) > 1:
        for one in names:
            if one not in paths and (len(names) > 1 or Path(one).suffix or len(Path(one).parts) > 1):
                raise UserError(f"{one}: no such file or folder")
    if not paths:
        if form or options:
            raise UserError(f"{name}: a format and options are for files; the catalogue says how this dataset is read")
        entry = catalogue.entry(name)
        horizon = entry.horizon or HORIZON
        rows += [Fact("family", entry.family), Fact("origin", entry.origin), Fact("source", entry.source)]
        for counts in entry.published:
            printed = {key: value for key, value in counts.model_dump().items() if key not in ("paper", "table") and value is not None}
            rows.append(Fact(f"published ({counts.paper}, table {counts.table})", printed))
            rows += FAMILIES[entry.family].printed(counts, horizon)
        if entry.origin == "published":
            return rows
    try:
        found = opened(Data(path=tuple(paths), format=form, options=dict(options or {})) if paths else Data(name=name), 0)
    except UserError as error:
        if paths:
            raise
        rows.append(Fact("here", str(error)))
    else:
        rows += understood(found.account) + holding(found).describe(found, horizon)
    return rows
