"""Notes: what a reader of simulated figures must know, read off the points themselves."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

SIMULATED = (
    "Simulated. Durations are specified: a datasheet roofline at 60 % of peak, an alpha-beta network; no multi-GPU machine "
    "has confirmed them.",
    "Datasets are generated stand-ins whose mean counts are those of Table 3 (`reproduce real --table 3`); none of the "
    "originals is at hand.",
    "As published: a map holds the changed edges alone and increments the sums (REAL eq. 3-4), though other edges' weights change, too. "
    "Exact: the cheaper of an increment over everything re-weighted and of rebuilding the adjacency on the device.",
)


ABSENT = "no point of the grid was reached by both"


def subset(quick: bool, datasets: Iterable[str], models: Iterable[str]) -> tuple[str, ...]:
    """That this is not the whole grid, if so."""
    return (f"Quick: only {', '.join(dict.fromkeys(datasets))} with {', '.join(dict.fromkeys(models))}.",) if quick else ()


def of(frame: pd.DataFrame, wanted: Iterable[str], quick: bool, made: tuple[str, ...] = SIMULATED) -> tuple[str, ...]:
    """How the points were made, what was refused or out of memory, and whether this is a subset."""
    said = [*subset(quick, frame["dataset"], frame["model"]), *made]
    refused = frame[frame["status"] == "refused"].groupby("message", sort=False)
    for message, part in refused:
        said.append(f"Refused by {', '.join(part['strategy'].unique())}: {message}.")
    for strategy, part in frame[frame["status"] == "out of memory"].groupby("strategy", sort=False):
        where = dict.fromkeys(f"{p.dataset}, {p.model}, {p.layers}-layer, {p.gpus} GPUs" for p in part.itertuples())
        said.append(f"{strategy} runs out of memory on {'; '.join(where)}. The first: {part['message'].iloc[0]}.")
    return tuple(said)
