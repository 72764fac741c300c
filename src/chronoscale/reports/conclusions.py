"""Conclusions of a report on its simulations: in what share of joint draws who is faster, by how much, and what turns it."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from chronoscale.reports.section import Section
from chronoscale.simulator.uncertainty.joint import Conclusion


class RanksConclusion(NamedTuple):
    """Conclusion on two of a report's simulated strategies, and on how many ranks."""

    ranks: int
    conclusion: Conclusion


def conclusions_of(section: Section) -> list[RanksConclusion]:
    """Return the conclusions on pairs of a report's simulated strategies, most ranks first, then the largest ratio; each once."""
    known = dict.fromkeys(RanksConclusion(run.ranks, each) for run in section.comparable for each in run.conclusions)
    return sorted(known, key=lambda each: (-each.ranks, -each.conclusion.usual))


def conclusion_sentence(section: Section) -> str:
    """Return the sentences on the fastest of a report's simulated strategies on the most ranks, under joint assumptions: against the
    baseline, and against the next; '' where nothing was drawn.
    """
    known = conclusions_of(section)
    ranks = max((each.ranks for each in known), default=0)
    most = [each.conclusion for each in known if each.ranks == ranks]
    if not most:
        return ""
    slower = {each.slower for each in most}
    leader = next((each.faster for each in most if each.faster not in slower), most[0].faster)
    of_leader = sorted((each for each in most if each.faster == leader), key=lambda each: each.usual)
    chosen = dict.fromkeys([*(each for each in of_leader if each.slower == section.baseline), *of_leader[:1]])
    return " ".join(f"On {ranks} GPU{'s' * (ranks > 1)} {each}." for each in chosen)


def conclusions(section: Section) -> pd.DataFrame:
    """Return a report's table of its simulated strategies under joint assumptions: one row a pair and number of ranks.

    Ratios say how many times as fast the first is; share: of the draws in which it is faster.
    """
    rows = []
    for ranks, each in conclusions_of(section):
        turns = "; ".join(f"{flip.assumption} at {flip.shown} (usually {flip.usually})" for flip in each.flips)
        nearest = f"none; nearest {each.near.assumption} at {each.near.shown}: {each.near.ratio:.3g}" if each.near else "none"
        of = {"faster": each.faster, "slower": each.slower, "ranks": ranks, "share": each.share, "ratio": each.usual, "low": each.low}
        rows.append({**of, "middle": each.middle, "high": each.high, "draws": each.draws, "turned_by": turns or nearest})
    return pd.DataFrame(rows)
