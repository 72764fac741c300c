"""Curves that a profile has fitted, as a table."""

from __future__ import annotations

import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.display.cell import Cell
from chronoscale.harness.runs.run_folder import Run
from chronoscale.records import AGAIN
from chronoscale.strategies.costs import FittedCosts


def profile_table(run: Run) -> pd.DataFrame:
    """Return the table that `chronoscale profile` prints: the cost curves fitted in a run, with their errors, by number of busy ranks.

    Raises UserError where there is no profile, or a damaged one.
    """
    return pd.concat([fit_table(costs).assign(ranks=ranks) for ranks, costs in _fitted(run).items()], ignore_index=True)


def _fitted(run: Run) -> dict[int, FittedCosts]:
    paths = [path for path in (run.folder / "profile").glob("costs-*.json") if path.stem.split("-")[1].isdecimal()]
    if not paths:
        raise UserError(f"{run.folder / 'profile'}: no costs-<ranks>.json in it; {AGAIN}")
    return {ranks: FittedCosts.load(path) for ranks, path in sorted((int(path.stem.split("-")[1]), path) for path in paths)}


def machine_sentences(run: Run) -> list[str]:
    """Return a sentence for each number of ranks of a profile that were on several machines: the links, and how fast each machine is."""
    return [f"on {ranks} ranks: {costs.machines_in_words}" for ranks, costs in _fitted(run).items() if costs.pairs]


def fit_table(costs: FittedCosts) -> pd.DataFrame:
    """Return fitted costs as a table for `chronoscale profile` and `kineto`: a row a cost curve, and behind them what a predictor has
    learned.

    held-out error: median on samples neither fitted nor used to choose the curve's form; held-out sum: signed error of their sum; spread:
    over repeats of a row; others: errors of the forms of curve not chosen; edges: range of the samples. All errors in per cent.
    """
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
    """List the rows of a predictor, where costs have one: the median held-out error of a kind's tasks, and their 90th percentile."""
    return [
        {
            "op": held_out.kind,
            "implementation": 0,
            "width": Cell(None, "any"),
            "form": "perceptron",
            "held-out error %": round(100 * held_out.median, 1),
            "held-out sum %": float("nan"),
            "spread %": float("nan"),
            "others %": Cell({"p90": 100 * held_out.most}, f"90 % of tasks below {100 * held_out.most:.1f}"),
            "samples": held_out.tasks,
            "edges": Cell(None, ""),
        }
        for held_out in (costs.predictor.held_out if costs.predictor is not None else ())
    ]


def _others(percent: dict[str, float]) -> Cell:
    return Cell(percent, ", ".join(f"{form} {error:.1f}" for form, error in percent.items()))
