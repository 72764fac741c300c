"""Check of a placement, or a whole schedule, against REAL eq. 9-12, by plain loops that share nothing with the planners."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.real.benefit import Benefit
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.groups import Placement


def check(placement: Placement, benefits: Benefit, alpha: float = 0.0) -> float:
    """Return the makespan of a placement of snapshot groups on GPUs, ns, by plain loops that share nothing with REAL's planners.

    What these claim is checked by it: the sum over iterations of (largest load + alpha). benefits: ns that each snapshot group takes, and
    ns that each pair saves on one GPU. alpha: ns of synchronisation an iteration.

    Raises UserError, naming the group or the GPU, unless every group of `benefits` is placed once, on a GPU that is there, with at most one
    other.
    """
    places = zip(range(len(placement.rank)), placement.iteration.tolist(), placement.rank.tolist(), strict=True)
    return _makespan(places, placement.ranks, benefits, alpha)


def check_chains(chains: Sequence[Sequence[int]], gpus: int, benefits: Benefit, most: int, alpha: float = 0.0) -> float:
    """Return the makespan of chains of up to `most` snapshot groups that GPUs train one after another, ns, by plain loops.

    chains: groups of each in time order, which share snapshots with the one before them alone (with most 2, REAL's eq. 9). Iterations take
    them `gpus` at a time by falling load. benefits: ns that each group takes, and ns that each pair saves. alpha: ns of
    synchronisation an iteration. Raises UserError unless every group is in one chain, in time order, of at most `most`.
    """
    times, reuse = benefits.times.tolist(), benefits.reuse.tolist()
    seen: set[int] = set()
    loads: list[float] = []
    for chain in chains:
        if not 1 <= len(chain) <= most:
            raise UserError(f"chains: {len(chain)} groups on a GPU at a time; expected 1 to {most}")
        load, before = 0.0, -1
        for group in chain:
            if group in seen or not 0 <= group < len(times):
                raise UserError(f"chains: group {group} trains twice, or is not among 0 to {len(times) - 1}")
            if group < before:
                raise UserError(f"chains: group {group} comes after group {before}; expected them in time order")
            load += times[group]
            if before >= 0 and group - before <= len(reuse[before]):
                load -= reuse[before][group - before - 1]
            seen.add(group)
            before = group
        loads.append(load)
    if len(seen) < len(times):
        raise UserError(f"chains: group {min(set(range(len(times))) - seen)} does not train")
    loads.sort(reverse=True)
    return sum(loads[i] + alpha for i in range(0, len(loads), gpus))


def check_schedule(schedule: Schedule, benefits: Benefit, alpha: float = 0.0) -> float:
    """Return the makespan of a planned schedule of snapshot groups (kind "groups"), ns: it checks what REAL's planners claim.

    It is the sum over iterations of (largest load + alpha), from where the backward passes are, one a group. benefits: ns that each
    snapshot group takes, and ns that each pair saves on one GPU. alpha: ns of synchronisation an iteration.

    Raises UserError unless every group is placed once, at most two a GPU and iteration, and for a group with a row in another place.
    """
    _require_one_place(schedule)
    rows = schedule.tasks(Op.BACKWARD)
    places = zip(schedule.unit[rows].tolist(), schedule.iteration[rows].tolist(), schedule.rank[rows].tolist(), strict=True)
    return _makespan(places, schedule.ranks, benefits, alpha)


def _require_one_place(schedule: Schedule) -> None:
    """Raise UserError for a group with rows in several places."""
    rows = np.flatnonzero(schedule.unit >= 0)
    unit, site = schedule.unit[rows], schedule.iteration[rows].astype(np.int64) * schedule.ranks + schedule.rank[rows]
    home = np.zeros(int(unit.max(initial=-1)) + 1, np.int64)
    home[unit] = site
    stray = np.flatnonzero(site != home[unit])
    if len(stray):
        group = int(unit[stray[0]])
        (iteration, gpu), (other_iteration, other) = divmod(int(home[group]), schedule.ranks), divmod(int(site[stray[0]]), schedule.ranks)
        raise UserError(
            f"schedule: group {group} is on GPU {gpu} in iteration {iteration} and on GPU {other} in iteration {other_iteration}"
        )


def _makespan(places: Iterable[tuple[int, int, int]], gpus: int, benefits: Benefit, alpha: float) -> float:
    """Return the makespan of groups at (group, iteration, GPU), ns. Raises UserError for a group that is missing, there twice or out of
    range."""
    times, reuse = benefits.times.tolist(), benefits.reuse.tolist()
    held: dict[tuple[int, int], list[int]] = {}
    seen: set[int] = set()
    for group, iteration, gpu in places:
        if not 0 <= group < len(times):
            raise UserError(f"schedule: there is no group {group}; expected 0 to {len(times) - 1}")
        if group in seen:
            raise UserError(f"schedule: group {group} trains twice")
        if not 0 <= gpu < gpus or iteration < 0:
            raise UserError(f"schedule: group {group} is on GPU {gpu} in iteration {iteration}; there are GPUs 0 to {gpus - 1}")
        seen.add(group)
        held.setdefault((iteration, gpu), []).append(group)
    for group in range(len(times)):
        if group not in seen:
            raise UserError(f"schedule: group {group} does not train")
    slowest: dict[int, float] = {}
    for (iteration, gpu), groups in held.items():
        if len(groups) > 2:
            raise UserError(f"schedule: GPU {gpu} holds groups {', '.join(map(str, groups))} in iteration {iteration}; at most two fit")
        load = 0.0
        for group in groups:
            load += times[group]
        if len(groups) == 2:
            early, late = sorted(groups)
            if late - early <= len(reuse[early]):
                load -= reuse[early][late - early - 1]
        slowest[iteration] = max(slowest.get(iteration, 0.0), load)
    return sum(load + alpha for load in slowest.values())
