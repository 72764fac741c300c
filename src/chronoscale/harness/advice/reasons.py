"""Reasons why a candidate's epoch takes as long as it does, in a sentence, read off its critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chronoscale.harness.advice.candidate import Candidate
from chronoscale.harness.advice.verdict import Verdict
from chronoscale.simulator.critical_path import PathShare
from chronoscale.strategies.schedule import COLLECTIVES, Lane, Op

ALSO = 0.2  # share of the epoch from which a second bound, or waiting, is told
COMPUTING = (Lane.COMPUTE.name, Lane.COMPUTE2.name)
WORDS: Mapping[str, str] = {
    Op.ALLREDUCE.name: "all-reduce",
    Op.ALLGATHER.name: "all-gather",
    Op.ALLTOALL.name: "all-to-all",
    Op.SEND.name: "messages",
    Op.RECV.name: "messages",
    Op.H2D.name: "H2D copies",
    Op.D2H.name: "D2H copies",
    Op.FETCH.name: "fetches through the data engine",
}


class Bound(NamedTuple):
    """Bottleneck of a candidate's epoch, for the reason that `chronoscale advise` gives.

    kind: "compute", "launches", "the host", or what is moved, in words. share: of the critical path, 0 to 1. most: its largest operation.
    """

    kind: str
    share: float
    most: str

    def __str__(self) -> str:
        if self.kind == "compute":
            return f"the compute lanes {percent(self.share)}"
        return f"{'host launches' if self.kind == 'launches' else self.kind} {percent(self.share)}"


def percent(share: float) -> str:
    """Return a share (0 to 1) as text for `chronoscale advise`, such as '12 %'."""
    return f"{100 * share:.0f} %"


def bounds(blames: Sequence[PathShare]) -> list[Bound]:
    """Return the bottlenecks of a candidate's epoch, the largest first, for `chronoscale advise`. blames: parts of its critical path."""
    shares: dict[str, list[PathShare]] = {}
    for blame in blames:
        shares.setdefault(_kind(blame), []).append(blame)
    limits = []
    for kind, alike in shares.items():
        largest = max(alike, key=lambda blame: blame.share)
        limits.append(Bound(kind, sum(blame.share for blame in alike), largest.op.lower()))
    return sorted(limits, key=lambda bound: -bound.share)


def _kind(blame: PathShare) -> str:
    if not blame.op:
        return "launches"
    if Op[blame.op] in COLLECTIVES:
        return f"{WORDS[blame.op]} {blame.link}"
    if blame.lane in COMPUTING:
        return "compute"
    return "the host" if blame.lane == Lane.HOST.name else WORDS.get(blame.op, blame.op.lower())


def reasons(simulated: Mapping[int, tuple[Candidate, Verdict]]) -> dict[int, str]:
    """Return a sentence on each simulated candidate's bottleneck, by its number, for `chronoscale advise`'s table.

    It says from which number of GPUs on the bottleneck is the same, where that is another one for fewer. simulated: number of a candidate
    -> it and its verdict.
    """
    groups: dict[tuple[str, str, str], list[int]] = {}
    for number, (candidate, verdict) in simulated.items():
        if verdict.point is not None:
            groups.setdefault(candidate.group, []).append(number)
    sentences = {}
    for numbers in groups.values():
        numbers.sort(key=lambda number: simulated[number][0].gpus)
        kinds = [next((bound.kind for bound in bounds(simulated[number][1].blames)), "") for number in numbers]
        first = next((i for i in range(len(kinds)) if len(set(kinds[i:])) == 1), 0)
        for place, number in enumerate(numbers):
            since = simulated[numbers[first]][0].gpus if first and place >= first else None
            sentences[number] = reason(simulated[number][1], since)
    return sentences


def reason(verdict: Verdict, since: int | None = None) -> str:
    """Describe the bottleneck of a candidate's epoch in a sentence without its full stop, for `chronoscale advise`'s table.

    since: number of GPUs from which on it is the same, None: not said.
    """
    limits, idle = bounds(verdict.blames), verdict.point.idle_ranks if verdict.point else 0
    parts = []
    if idle and verdict.point is not None:
        parts.append(f"idle ranks: {idle:,} of {verdict.point.gpus:,} GPUs have nothing to train")
    if limits:
        parts.append(_bound(limits, f" from {since:,} GPUs on" if since else ""))
    if verdict.waits >= ALSO and not idle:
        parts.append(f"imbalance: GPUs wait for the busiest {percent(verdict.waits)} of the epoch")
    return "; ".join(parts) or "nothing to do"


def _bound(limits: Sequence[Bound], since: str) -> str:
    first, *others = limits
    share = f"{percent(first.share)} of the epoch"
    if first.kind == "compute":
        sentence = f"compute-bound{since}: {share} on the compute lanes, most of it {first.most}"
    elif first.kind == "launches":
        sentence = f"bound by host launches{since}: kernels wait for the host {share}"
    elif first.kind == "the host":
        sentence = f"bound by the host{since}: {share} in its lane, most of it {first.most}"
    else:
        sentence = f"bound by {first.kind}{since}: {share}"
    return sentence + (f", then {others[0]}" if others and others[0].share >= ALSO else "")
