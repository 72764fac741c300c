"""Notes: what a reader of simulated figures must know, read off the points themselves."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from chronoscale.simulator import presets
from chronoscale.strategies.real.ilp import GAP, UNNEEDED

SIMULATED = (
    "Simulated. Durations are specified: a datasheet roofline, each kind of work at its own share of peak (costing/roofline.yaml), "
    f"{presets.cluster('h200').device.launch_s * 1e6:g} µs of one host thread a kernel, collectives by NCCL's own model of "
    "rings and trees, rows side by side share devices and links; no multi-GPU machine has confirmed them.",
    "Datasets are generated stand-ins whose mean counts are those of Table 3 (`reproduce real --table 3`); none of the "
    "originals is at hand.",
    "As published: a map holds the changed edges alone and increments the sums (REAL eq. 3-4), though other edges' weights change, too. "
    "Exact: the cheaper of an increment over everything re-weighted and of rebuilding the adjacency on the device.",
)


ABSENT = "no point of the grid was reached by both"


def subset(quick: bool, datasets: Iterable[str], models: Iterable[str]) -> tuple[str, ...]:
    """That this is not the whole grid, if so."""
    return (f"Quick: only {', '.join(dict.fromkeys(datasets))} with {', '.join(dict.fromkeys(models))}.",) if quick else ()


def settled(why: str, plans: pd.DataFrame) -> str:
    """A row's reason, after in how many of its plans no solver ran, so that they are REAL-G+'s. plans: a column `note`."""
    idle = int(plans["note"].str.contains(UNNEEDED, regex=False).sum())
    return f"real-g+'s schedule in {idle} of {len(plans)}, no solver ran; {why}" if idle else why


def unsolved(plans: pd.DataFrame) -> tuple[str, ...]:
    """Why strategies that solve have another's schedule; nothing where they solved. plans: columns strategy, note, gap."""
    said = []
    for name, part in plans[plans["note"].str.contains(UNNEEDED, regex=False)].groupby("strategy", sort=False):
        count, gap = int((plans["strategy"] == name).sum()), float(part["gap"].max())
        said.append(
            f"{name} is real-g+'s schedule in {len(part)} of {count} plans: real-g+'s certified gap is at most {gap:.1%} there, within the "
            f"{GAP:.0%} at which the paper stops its solver, so none ran."
        )
    return tuple(said)


def of(frame: pd.DataFrame, wanted: Iterable[str], quick: bool, made: tuple[str, ...] = SIMULATED) -> tuple[str, ...]:
    """How the points were made, what was refused or out of memory, and whether this is a subset."""
    said = [*subset(quick, frame["dataset"], frame["model"]), *made, *unsolved(frame)]
    refused = frame[frame["status"] == "refused"].groupby("message", sort=False)
    for message, part in refused:
        said.append(f"Refused by {', '.join(part['strategy'].unique())}: {message}.")
    for strategy, part in frame[frame["status"] == "out of memory"].groupby("strategy", sort=False):
        where = dict.fromkeys(f"{p.dataset}, {p.model}, {p.layers}-layer, {p.gpus} GPUs" for p in part.itertuples())
        said.append(f"{strategy} runs out of memory on {'; '.join(where)}. The first: {part['message'].iloc[0]}.")
    return tuple(said)
