"""Verdict of a comparison in words: who reaches the target first, and how sure that is."""

from __future__ import annotations

import numpy as np

from chronoscale.harness.compare.outcome import Comparison, listed, places
from chronoscale.harness.compare.rivals import rival_sentences
from chronoscale.harness.compare.sureness import TimesToTarget
from chronoscale.reports.numbers import number, seconds

SURE = 0.95  # share of resamples from which the first is told apart


def verdict(result: Comparison, times: TimesToTarget) -> str:
    """Return the first sentences of `chronoscale compare`: which strategies do not beat what needs no training; the target, who reaches it
    first, by how much and how surely, and whether that decides.
    """
    best = {one.label: one.best(result.score) for one in result.outcomes}
    return " ".join([*rival_sentences(result.score, result.naive, best), _first_to_target(result, times)])


def _first_to_target(result: Comparison, times: TimesToTarget) -> str:
    place = places(result.scales, result.cluster)
    target = f"Target: {result.target}, {result.target.why}."
    first, *others = times.order
    if not np.isfinite(times.median(first)):
        best = {one.label: result.score.best(one.best(result.score)) for one in result.outcomes}
        leader = result.score.best(best.values())
        name = next((name for name, value in best.items() if value == leader), "")
        epochs = f"{result.epochs} epoch{'s' * (result.epochs != 1)}"
        nearest = f"; the best is {name} with {result.score.describe(leader)}" if name else ""
        return f"{target} No strategy reaches it in half of its trainings within {epochs} {place}{nearest}."
    lead = f"{place[0].upper()}{place[1:]}, {first} reaches it first: {_with_ends(times, first)}"
    followers = [name for name in others if np.isfinite(times.median(name))]
    if not others:
        return f"{target} {lead}; there is nothing to compare with."
    if followers:
        second = followers[0]
        ratio = times.median(second) / times.median(first)
        faster = f"{number(ratio, 3)} times as fast as" if ratio > 1 else "no faster than"
        lead += f", {faster} {second} ({_with_ends(times, second)})"
    else:
        lead += "; no other strategy reaches it in half of its trainings"
    doubt = "" if _is_decided(result, times, first) else " Not decided."
    return f"{target}{doubt} {lead}. {_surely(result, times, first)}"


def _with_ends(times: TimesToTarget, name: str) -> str:
    low, high = (seconds(end) if np.isfinite(end) else "never" for end in (times.low[name], times.high[name]))
    return f"{seconds(times.median(name))} ({low} to {high})"


def _is_decided(result: Comparison, times: TimesToTarget, first: str) -> bool:
    """Say whether the first is told apart from all others, and stays first whichever seed is left out; of one seed, nothing is known."""
    stays = all(name == first for name in times.without.values())
    return len(result.seeds) > 1 and times.first_in[first] >= SURE and stays


def _surely(result: Comparison, times: TimesToTarget, first: str) -> str:
    """Say in how many resamples the first is first, whom it is not told apart from, and whether a single seed decides."""
    count = len(result.seeds)
    if count == 1:
        return "One seed says nothing of how sure this is."
    share = times.first_in[first]
    rivals = [name for name in times.order[1:] if times.first_in[name] > 1 - SURE]
    text = f"It is first in {share:.0%} of resamples of {count} seeds and their {'simulated' if result.cluster else 'timed'} epochs"
    if share < SURE and rivals:
        text += f", so it is not told apart from {listed(rivals)}"
    turning = [f"{seed}, {name} is" if name else f"{seed}, nobody is" for seed, name in times.without.items() if name != first]
    if not turning:
        return f"{text}, and first whichever seed is left out."
    return f"{text}. One seed decides: without seed {' first; without seed '.join(turning)} first."
