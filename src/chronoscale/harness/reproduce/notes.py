"""Notes: what a reader of simulated figures must know, read off the points themselves."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from chronoscale.harness.reproduce.grid import MODELS
from chronoscale.strategies.models import MODELS as KNOWN_MODELS
from chronoscale.strategies.registry import STRATEGIES

SIMULATED = (
    "Simulated. Durations are specified: a datasheet roofline at 60 % of peak, an alpha-beta network; no multi-GPU machine "
    "has confirmed them.",
    "Datasets are generated stand-ins whose mean counts are those of Table 3 (`reproduce real --table 3`); none of the "
    "originals is at hand.",
    "As-published maps hold the changed edges alone (REAL eq. 3-4). Exact maps also hold every edge that a changed degree re-weights.",
)


def absent(*strategies: str) -> str:
    """Why a comparison has no points."""
    missing = [name for name in strategies if name not in STRATEGIES]
    return f"not in this version: {', '.join(missing)}" if missing else "no point of the grid was reached by both"


def missing(wanted: Iterable[str]) -> tuple[str, ...]:
    """What the registry does not have."""
    names = [name for name in wanted if name not in STRATEGIES] + [name for name in MODELS if name not in KNOWN_MODELS]
    return (f"Not in this version, so left out: {', '.join(names)}.",) if names else ()


def subset(quick: bool, datasets: Iterable[str], models: Iterable[str]) -> tuple[str, ...]:
    """That this is not the whole grid, if so."""
    return (f"Quick: only {', '.join(dict.fromkeys(datasets))} with {', '.join(dict.fromkeys(models))}.",) if quick else ()


def of(frame: pd.DataFrame, wanted: Iterable[str], quick: bool, made: tuple[str, ...] = SIMULATED) -> tuple[str, ...]:
    """How the points were made, what is missing, refused or out of memory, and whether this is a subset."""
    said = [*subset(quick, frame["dataset"], frame["model"]), *made, *missing(wanted)]
    refused = frame[frame["status"] == "refused"].groupby("message", sort=False)
    for message, part in refused:
        said.append(f"Refused by {', '.join(part['strategy'].unique())}: {message}.")
    for strategy, part in frame[frame["status"] == "out of memory"].groupby("strategy", sort=False):
        where = dict.fromkeys(f"{p.dataset}, {p.model}, {p.layers}-layer, {p.gpus} GPUs" for p in part.itertuples())
        said.append(f"{strategy} runs out of memory on {'; '.join(where)}. The first: {part['message'].iloc[0]}.")
    return tuple(said)
