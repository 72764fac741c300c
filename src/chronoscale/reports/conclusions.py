"""Conclusions of a report on its simulations: in what share of joint draws who is faster, by how much, and what turns it."""

from __future__ import annotations

import pandas as pd

from chronoscale.reports.section import Section
from chronoscale.simulator.uncertainty.joint import Conclusion


def conclusions_of(section: Section) -> list[Conclusion]:
    """Return the conclusions on pairs of a report's simulated strategies, the largest ratio first."""
    return sorted((each for run in section.comparable for each in run.conclusions), key=lambda each: -each.usual)


def conclusion_sentence(section: Section) -> str:
    """Return the sentences on the fastest of a report's simulated strategies under joint assumptions: against the baseline, and against the
    next; '' where nothing was drawn.
    """
    found = conclusions_of(section)
    if not found:
        return ""
    slower = {each.slower for each in found}
    leader = next((each.faster for each in found if each.faster not in slower), found[0].faster)
    of_leader = sorted((each for each in found if each.faster == leader), key=lambda each: each.usual)
    chosen = dict.fromkeys([*(each for each in of_leader if each.slower == section.baseline), *of_leader[:1]])
    ranks = max(run.ranks for run in section.comparable if run.conclusions)
    return " ".join(f"On {ranks} GPUs {each}." for each in chosen)


def conclusions(section: Section) -> pd.DataFrame:
    """Return a report's table of its simulated strategies under joint assumptions: one row a pair.

    Ratios say how many times as fast the first is; share: of the draws in which it is faster.
    """
    rows = []
    for each in conclusions_of(section):
        turns = "; ".join(f"{flip.assumption} at {flip.shown} (usually {flip.usually})" for flip in each.flips)
        nearest = f"none alone; nearest {each.near.assumption} at {each.near.shown}: {each.near.ratio:.3g}" if each.near else "none alone"
        of = {"faster": each.faster, "slower": each.slower, "share": each.share, "ratio": each.usual, "low": each.low}
        rows.append({**of, "middle": each.middle, "high": each.high, "draws": each.draws, "turned_by": turns or nearest})
    return pd.DataFrame(rows)
