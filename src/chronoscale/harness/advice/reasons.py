"""Reasons: what a candidate's epoch waits for, in a sentence, read off its critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chronoscale.harness.advice.candidates import Candidate
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
    """Why an epoch is no shorter. kind: "compute", "launches", "host", or what is moved, in words; most: its largest operation."""

    kind: str
    share: float
    most: str

    def __str__(self) -> str:
        if self.kind == "compute":
            return f"the compute lanes {percent(self.share)}"
        return f"{'host launches' if self.kind == 'launches' else self.kind} {percent(self.share)}"


def percent(share: float) -> str:
    """For people."""
    return f"{100 * share:.0f} %"


def bounds(blames: Sequence[PathShare]) -> list[Bound]:
    """Of a critical path, the largest first."""
    shares: dict[str, list[PathShare]] = {}
    for one in blames:
        shares.setdefault(_kind(one), []).append(one)
    found = [Bound(kind, sum(one.share for one in ones), max(ones, key=lambda one: one.share).op.lower()) for kind, ones in shares.items()]
    return sorted(found, key=lambda bound: -bound.share)


def _kind(one: PathShare) -> str:
    if not one.op:
        return "launches"
    if Op[one.op] in COLLECTIVES:
        return f"{WORDS[one.op]} {one.link}"
    if one.lane in COMPUTING:
        return "compute"
    return "the host" if one.lane == Lane.HOST.name else WORDS.get(one.op, one.op.lower())


def reasons(found: Mapping[int, tuple[Candidate, Verdict]]) -> dict[int, str]:
    """By number, of those that were simulated. Where the larger ones of a strategy's numbers of GPUs are all bound by the same, and the
    smaller ones are not, that is said."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for number, (candidate, verdict) in found.items():
        if verdict.point is not None:
            groups.setdefault(candidate.group, []).append(number)
    said = {}
    for numbers in groups.values():
        numbers.sort(key=lambda number: found[number][0].gpus)
        kinds = [next((bound.kind for bound in bounds(found[number][1].blames)), "") for number in numbers]
        first = next((i for i in range(len(kinds)) if len(set(kinds[i:])) == 1), 0)
        for place, number in enumerate(numbers):
            since = found[numbers[first]][0].gpus if first and place >= first else None
            said[number] = reason(found[number][1], since)
    return said


def reason(verdict: Verdict, since: int | None = None) -> str:
    """A sentence without its full stop; since: the number of GPUs from which on the bound is the same."""
    found, idle = bounds(verdict.blames), verdict.point.idle_ranks if verdict.point else 0
    said = []
    if idle and verdict.point is not None:
        said.append(f"idle ranks: {idle:,} of {verdict.point.gpus:,} GPUs have nothing to train")
    if found:
        said.append(_bound(found, f" from {since:,} GPUs on" if since else ""))
    if verdict.waits >= ALSO and not idle:
        said.append(f"imbalance: GPUs wait for the busiest {percent(verdict.waits)} of the epoch")
    return "; ".join(said) or "nothing to do"


def _bound(found: Sequence[Bound], since: str) -> str:
    first, *others = found
    share = f"{percent(first.share)} of the epoch"
    if first.kind == "compute":
        said = f"compute-bound{since}: {share} on the compute lanes, most of it {first.most}"
    elif first.kind == "launches":
        said = f"bound by host launches{since}: kernels wait for the host {share}"
    elif first.kind == "the host":
        said = f"bound by the host{since}: {share} in its lane, most of it {first.most}"
    else:
        said = f"bound by {first.kind}{since}: {share}"
    return said + (f", then {others[0]}" if others and others[0].share >= ALSO else "")
