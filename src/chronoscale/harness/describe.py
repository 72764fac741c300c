"""Describe: a dataset, and a profile's curves, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from chronoscale.datasets import catalogue
from chronoscale.errors import UserError
from chronoscale.harness.cell import Cell
from chronoscale.harness.experiment import Data
from chronoscale.harness.fact import Fact, Facts, understood
from chronoscale.harness.families import FAMILIES, holding
from chronoscale.harness.open import opened
from chronoscale.harness.runs import Run
from chronoscale.kept import AGAIN
from chronoscale.strategies.costs import FittedCosts

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


def profile(run: Run) -> pd.DataFrame:
    """The curves of a run's profile, by number of busy ranks. Raises UserError where there is none, or a damaged one."""
    found = [path for path in (run.folder / "profile").glob("costs-*.json") if path.stem.split("-")[1].isdecimal()]
    files = sorted(found, key=lambda path: int(path.stem.split("-")[1]))
    if not files:
        raise UserError(f"{run.folder / 'profile'}: no costs-<ranks>.json in it; {AGAIN}")
    return pd.concat([fits(FittedCosts.load(path)).assign(ranks=int(path.stem.split("-")[1])) for path in files], ignore_index=True)


def fits(costs: FittedCosts) -> pd.DataFrame:
    """One row a fitted curve: form, error on samples neither fitted nor chosen by (median size, and of their sum, signed), a row's spread
    over repeats, the error of the forms not chosen on the samples chosen by, samples, the range of edges seen; behind them those of what
    a predictor has learned, by operation and lane."""
    return pd.DataFrame(
        [
            *(
                {
                    "op": fit.op,
                    "implementation": fit.variant,
                    "width": fit.width,
                    "form": fit.form,
                    "held-out error %": round(100 * fit.held_out_error, 1),
                    "held-out sum %": round(100 * fit.bias, 1) if fit.bias is not None else float("nan"),
                    "spread %": round(100 * fit.spread, 1),
                    "others %": _others({form: 100 * error for form, error in fit.alternatives.items()}),
                    "samples": fit.samples,
                    "edges": Cell([fit.low["edges"], fit.high["edges"]], f"{fit.low['edges']:,}..{fit.high['edges']:,}"),
                }
                for fit in costs.fits
            ),
            *_learned(costs),
        ]
    )


def _learned(costs: FittedCosts) -> list[dict[str, object]]:
    """Of a predictor, where costs have one: the median held-out error of a kind's tasks, and what nine tenths stay below."""
    return [
        {
            "op": one.kind,
            "implementation": 0,
            "width": Cell(None, "any"),
            "form": "perceptron",
            "held-out error %": round(100 * one.median, 1),
            "held-out sum %": float("nan"),
            "spread %": float("nan"),
            "others %": Cell({"p90": 100 * one.most}, f"90 % of tasks below {100 * one.most:.1f}"),
            "samples": one.tasks,
            "edges": Cell(None, ""),
        }
        for one in (costs.predictor.held_out if costs.predictor is not None else ())
    ]


def _others(percent: dict[str, float]) -> Cell:
    return Cell(percent, ", ".join(f"{form} {error:.1f}" for form, error in percent.items()))
