"""Describe: a dataset, and a profile's curves, as tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from chronoscale.datasets import catalogue
from chronoscale.errors import UserError
from chronoscale.harness.cell import Cell
from chronoscale.harness.experiment import Data
from chronoscale.harness.families import FAMILIES, holding
from chronoscale.harness.open import opened
from chronoscale.harness.runs import Run
from chronoscale.strategies.costs import FittedCosts

HORIZON = 12  # of windows where no paper names another, as for PGT-I's traffic sets


def dataset(name: str) -> pd.DataFrame:
    """Key and value: what the papers print, and what is counted where the dataset is at hand. Raises UserError for an unknown name."""
    rows: list[tuple[str, str]] = []
    path, horizon = Path(name), HORIZON
    if not path.exists():
        if path.suffix or len(path.parts) > 1:
            raise UserError(f"{name}: no such file or folder")
        entry = catalogue.entry(name)
        horizon = entry.horizon or HORIZON
        rows += [("family", entry.family), ("origin", entry.origin), ("source", entry.source)]
        for counts in entry.published:
            printed = {key: value for key, value in counts.model_dump().items() if key not in ("paper", "table") and value is not None}
            rows.append(
                (f"published ({counts.paper}, table {counts.table})", ", ".join(f"{key} {value:,}" for key, value in printed.items()))
            )
            rows += FAMILIES[entry.family].printed(counts, horizon)
        if entry.origin == "published":
            return pd.DataFrame(rows, columns=["what", "value"])
    try:
        found = opened(Data(path=name) if path.exists() else Data(name=name), 0)
    except UserError as error:
        if path.exists():
            raise
        rows.append(("here", str(error)))
    else:
        rows += holding(found).describe(found, horizon)
    return pd.DataFrame(rows, columns=["what", "value"])


def profile(run: Run) -> pd.DataFrame:
    """The curves of a run's profile, by number of busy ranks."""
    files = sorted((run.folder / "profile").glob("costs-*.json"), key=lambda path: int(path.stem.split("-")[1]))
    return pd.concat([fits(FittedCosts.load(path)).assign(ranks=int(path.stem.split("-")[1])) for path in files], ignore_index=True)


def fits(costs: FittedCosts) -> pd.DataFrame:
    """One row a fitted curve: form, held-out error of it and of the forms not chosen, samples, the range of edges seen."""
    return pd.DataFrame(
        [
            {
                "op": fit.op,
                "width": fit.width,
                "form": fit.form,
                "held-out error %": round(100 * fit.held_out_error, 1),
                "others %": _others({form: 100 * error for form, error in fit.alternatives.items()}),
                "samples": fit.samples,
                "edges": Cell([fit.low["edges"], fit.high["edges"]], f"{fit.low['edges']:,}..{fit.high['edges']:,}"),
            }
            for fit in costs.fits
        ]
    )


def _others(percent: dict[str, float]) -> Cell:
    return Cell(percent, ", ".join(f"{form} {error:.1f}" for form, error in percent.items()))
