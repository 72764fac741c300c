"""Verdict on a model beside its rivals, predictions that train no network: whether it beats them, and by which scores not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.datasets.scores import Score, scores_present

NAN = float("nan")


def rival_verdict(model: str, scores: Mapping[str, float], rivals: Sequence[RivalScores]) -> list[str]:
    """Say of which rivals a model's scores are no better, and by how much: first by its first score, which names the best rival and what
    it does, then by its others; and last, where it beats all by the first score, which rival comes nearest. [] where nothing is known.

    model: its name for people. scores: its own, by key; one that is undefined is left out.
    """
    shown = [score for score in scores_present([scores]) if scores[score.key] == scores[score.key]]
    lost, won = [], []
    for score in shown:
        known = {rival.name: rival.scores[score.key] for rival in rivals if _has(rival, score)}
        if not known:
            continue
        value, best = scores[score.key], score.best(known.values())
        name = next(name for name, one in known.items() if one == best)
        first, against = score is shown[0], _beside(score, value, best)
        if score.beats(value, best):
            won += [f"By {score.title} {model} beats all that needs no training, of which the {name} is the best: {against}."] * first
            continue
        meaning = next(rival.meaning for rival in rivals if rival.name == name)
        lost.append(f"{model} does not beat the {name}: {against}.")
        lost += [f"That predicts {meaning}."] * (first and bool(meaning))
        others = [other for other, one in known.items() if other != name and not score.beats(value, one)]
        lost += [f"Nor does {model} beat the {', the '.join(others)}."] * (first and bool(others))
    return [*lost, *won]


def _beside(score: Score, value: float, best: float) -> str:
    """Return two values of a score for people, as in "MAE 3.1 against 2.9", with so many digits that they differ."""
    if value == best:
        return f"{score.describe(value)} both"
    shown = [score.describe(one).removeprefix(score.title).strip() for one in (value, best)]
    shown = shown if shown[0] != shown[1] else [f"{one:.9g}" for one in (value, best)]
    return f"{score.title} {shown[0]} against {shown[1]}"


def _has(rival: RivalScores, score: Score) -> bool:
    """Whether a rival has this score, and it is defined."""
    value = rival.scores.get(score.key, NAN)
    return value == value
