"""Ranking of candidates by an objective, without those that do not fit; and by how much the first is first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from chronoscale.harness.advice.candidate import Candidate
from chronoscale.harness.advice.reasons import reasons
from chronoscale.harness.advice.verdict import Verdict
from chronoscale.harness.keys.advise import AdviceKeys, BudgetKeys
from chronoscale.reports.numbers import number, size
from chronoscale.reports.strategy_result import Band

SURE = 0.95  # share of draws from which one is told apart from another


@dataclass(frozen=True, slots=True)
class Choice:
    """Candidate with its figures and its rank: a row of `chronoscale advise`'s table.

    hours: of all epochs and the preparation. gpu_hours, cost: of these, on all GPUs; cost None without a price. value: of the objective:
    seconds, GPU-hours or cost for a million targets trained on, so that doing less does not rank first; or bytes. draws: the same in every
    draw of what is uncertain, none where the experiment states nothing. rank: from 1; None for a candidate that is left out, for the reason
    `why`. reason: its bottleneck, in words. behind: how much more it takes than the first, a share of that. won: share of draws in which
    the first takes less, None without draws. front: no other that ranks takes less of both time and GPU time for a target.
    """

    candidate: Candidate
    verdict: Verdict
    hours: float = 0.0
    gpu_hours: float = 0.0
    cost: float | None = None
    value: float = 0.0
    draws: tuple[float, ...] = ()
    rank: int | None = None
    why: str = ""
    reason: str = ""
    behind: float = 0.0
    won: float | None = None
    front: bool = False

    @property
    def band(self) -> Band:
        """Return the low and high end of the candidate's epoch over its draws, s."""
        return self.verdict.point.band if self.verdict.point else Band()

    @property
    def target_us(self) -> float:
        """Return the microseconds of an epoch for each target that it trains on; its seconds where their number is unknown."""
        targets = self.verdict.point.targets if self.verdict.point else 0
        return 1e6 * self.verdict.epoch_s / (targets or 1e6)

    @property
    def gpu_target_us(self) -> float:
        """Return the microseconds of GPU time for each target."""
        return self.target_us * self.candidate.gpus

    @property
    def apart(self) -> bool | None:
        """Say whether the first candidate is better than this one beyond the stated uncertainty; None where the experiment states none."""
        return None if self.won is None else self.won >= SURE


def ranking(keys: AdviceKeys, epochs: int, simulated: Mapping[int, tuple[Candidate, Verdict]]) -> list[Choice]:
    """Rank simulated candidates by an objective, for `chronoscale advise`: those that rank, then the others in their order.

    keys: of the experiment's `advise`: objective, budget, prices. epochs: of a training, where a candidate's settings do not say.
    simulated: number of a candidate -> it and its verdict.
    """
    sentences = reasons(simulated)
    unranked = [replace(_choice(keys, epochs, *simulated[i]), reason=sentences.get(i, "")) for i in sorted(simulated)]
    ranked = sorted((choice for choice in unranked if not choice.why), key=_order)
    if ranked:
        first, best = ranked[0], _front(ranked)
        ranked = [
            replace(choice, rank=i + 1, behind=_behind(choice, first), won=_won(first, choice) if i else None, front=i in best)
            for i, choice in enumerate(ranked)
        ]
    return [*ranked, *(choice for choice in unranked if choice.why)]


def _order(choice: Choice) -> tuple[float, float, int, int]:
    """Key to sort by: of equals what takes less of anything else is first."""
    return choice.value, choice.gpu_hours, choice.candidate.gpus, choice.verdict.point.peak_bytes if choice.verdict.point else 0


def _choice(keys: AdviceKeys, epochs: int, candidate: Candidate, verdict: Verdict) -> Choice:
    point = verdict.point
    if point is None:
        return Choice(candidate, verdict, why=verdict.refused)
    objective, prices = keys.objective, price(keys, candidate.cluster)
    epochs = int(candidate.settings.get("epochs", epochs))
    millions = epochs * point.targets / 1e6  # of targets, which the whole training trains on

    def taken(epoch_s: float) -> tuple[float, float]:
        """Return the hours of the training, and the objective's value."""
        hours = (epochs * epoch_s + (point.prepare_s or 0.0)) / 3600
        if objective == "memory" or not millions:
            return hours, float(point.peak_bytes)
        values = {
            "time": epoch_s * epochs / millions,
            "gpu-hours": hours * point.gpus / millions,
            "cost": hours * point.gpus * (prices or 0.0) / millions,
        }
        return hours, values[objective]

    hours, value = taken(verdict.epoch_s)
    cost = None if prices is None else hours * point.gpus * prices
    draws = () if objective == "memory" else tuple(taken(draw)[1] for draw in point.draws_s)
    choice = Choice(candidate, verdict, hours, hours * point.gpus, cost, value, draws)
    why = f"does not fit: {point.out_of_memory}" if point.out_of_memory else _over(keys.budget, choice)
    unknown = "" if point.targets or objective == "memory" else "nothing says how many targets an epoch trains on"
    return replace(choice, why=why or unknown)


def price(keys: AdviceKeys, cluster: str) -> float | None:
    """Return the price of a GPU-hour on a cluster, from `advise.prices`; None where the file has none."""
    prices = keys.prices
    return (prices.get(cluster) if isinstance(prices, dict) else prices) or None


def _over(budget: BudgetKeys, choice: Choice) -> str:
    """Name the limits of the budget that a verdict exceeds; '' for none."""
    peak = choice.verdict.point.peak_bytes if choice.verdict.point else 0
    limits: list[tuple[float, float | None, Callable[[float], str]]] = [
        (choice.hours, budget.hours, lambda value: f"{number(value, 3)} hours"),
        (choice.gpu_hours, budget.gpu_hours, lambda value: f"{number(value, 3)} GPU-hours"),
        (choice.cost or 0.0, budget.cost, lambda value: f"a cost of {number(value, 3)}"),
        (float(peak), budget.memory, lambda value: f"{size(value)} a GPU"),
    ]
    exceeded = [f"{text(amount)}, {text(float(limit))} at most" for amount, limit, text in limits if limit is not None and amount > limit]
    return f"over the budget: {' and '.join(exceeded)}" if exceeded else ""


def _behind(choice: Choice, first: Choice) -> float:
    return choice.value / first.value - 1 if first.value > 0 else float(choice.value > 0) and float("inf")


def _won(first: Choice, other: Choice) -> float | None:
    """Draws of one number have in common what is the same for both, such as who straggles; without as many draws of both there is none."""
    if not first.draws or len(first.draws) != len(other.draws):
        return None
    return sum(ours < theirs for ours, theirs in zip(first.draws, other.draws, strict=True)) / len(first.draws)


def _front(ranked: Sequence[Choice]) -> set[int]:
    """Places of those that no other beats in time or GPU time for a target without losing in the other."""
    front, least = set(), float("inf")
    for i in sorted(range(len(ranked)), key=lambda i: (ranked[i].target_us, ranked[i].gpu_target_us)):
        if ranked[i].gpu_target_us < least:
            front.add(i)
            least = ranked[i].gpu_target_us
    return front
