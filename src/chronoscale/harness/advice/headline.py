"""Headline of advice: which candidate is first, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from chronoscale.harness.advice.ranking import Choice
from chronoscale.harness.advice.reasons import percent
from chronoscale.harness.keys.advise import Objective
from chronoscale.reports.findings import TIE
from chronoscale.reports.numbers import number, seconds, size

AMOUNTS: Mapping[Objective, Callable[[float], str]] = {
    "time": lambda value: f"{seconds(value)} for a million targets trained on",
    "memory": lambda value: f"{size(value)} on the fullest GPU",
    "gpu-hours": lambda value: f"{number(value, 3)} GPU-hours for a million targets trained on",
    "cost": lambda value: f"a cost of {number(value, 3)} for a million targets trained on",
}


def headline(choices: Sequence[Choice], objective: Objective) -> str:
    """Return `chronoscale advise`'s first sentences: which candidate is first, by how much and how surely; '' where none ranks.

    choices: as `ranking` returns them.
    """
    ranked = [choice for choice in choices if choice.rank is not None]
    if not ranked:
        return ""
    first = ranked[0]
    sentence = f"First by {objective}: {first.candidate}, {AMOUNTS[objective](first.value)}"
    if len(ranked) == 1:
        return f"{sentence}; nothing else fits and keeps to the budget."
    second = ranked[1]
    if second.behind == 0:
        return f"{sentence}, as for {second.candidate}. {_surely(ranked, objective)}"
    return f"{sentence}, {100 * (1 - first.value / second.value):.3g} % less than {second.candidate}. {_surely(ranked, objective)}"


def _surely(ranked: Sequence[Choice], objective: Objective) -> str:
    first, second = ranked[0], ranked[1]
    if objective == "memory":
        return "Memory is planned and does not vary with time."
    if second.won is None:
        close = f" {_several(ranked)} closer than {percent(TIE)}: take them for equal." if second.behind < TIE else ""
        return f"No uncertainty was stated, so that nothing says how sure this is.{close}"
    share = f"ahead in {percent(second.won)} of {len(first.draws)} draws"
    if second.apart:
        return f"Under the uncertainty it is {share}."
    more = sum(choice.apart is False for choice in ranked[2:])
    return f"Under the uncertainty it is not told apart from the second{f', nor from {more} more' * bool(more)}: it is {share}."


def _several(ranked: Sequence[Choice]) -> str:
    count = sum(choice.behind < TIE for choice in ranked[1:])
    return "The second is" if count == 1 else f"{count} others are"
