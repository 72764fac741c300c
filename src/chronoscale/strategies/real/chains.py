"""Chains: snapshot groups that a GPU trains one after another in an iteration, up to three or four, by an integer program."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from chronoscale.cuda_ext.scheduling.matching import Mates
from chronoscale.errors import UserError
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.real.benefit import Benefit
from chronoscale.strategies.real.chain_bound import chain_bound
from chronoscale.strategies.real.check import check_chains
from chronoscale.strategies.real.ilp_model import IntegerProgram, seat_program
from chronoscale.strategies.real.solver import Name, Status, solve
from chronoscale.strategies.schedule import Ints

MAX_SEATS = 100_000  # chains of a program that is worth building: 39 groups in chains of up to 4
Chains = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """Chains of snapshot groups as an integer program has put them together; times in ns.

    chains: groups of each in time order, by falling load, one a GPU and iteration. makespan: by eq. 10. bound: the better of the solver's
    and the certified lower bound on any schedule's. status, seconds, solver: of the solve.
    """

    chains: Chains
    makespan: float
    bound: float
    status: Status
    seconds: float
    solver: str

    @property
    def gap(self) -> float:
        """How far the chains may be from the best, (makespan - bound) / makespan."""
        return (self.makespan - self.bound) / self.makespan if self.makespan > 0 else 0.0


def chain_load(benefits: Benefit, members: Ints) -> Floats:
    """Return the time that a GPU takes for chains of groups, float64 ns: their times less what each group saves with the one before it.

    benefits: ns that each snapshot group takes, and ns that each pair saves. members: groups in time order, int64 [chains, most], -1 after
    the last one.
    """
    load = benefits.times[members[:, 0]].copy()
    for before, after in zip(members.T[:-1], members.T[1:], strict=True):
        here = after >= 0
        load[here] = load[here] - benefits.times[before[here]] + benefits.load(before[here], after[here])
    return load


def chain_program(benefits: Benefit, gpus: int, most: int, alpha: float = 0.0, levels: int = 0) -> IntegerProgram:
    """Build the integer program of snapshot groups in chains of up to `most` a GPU and iteration; with most 2 it is `compact_program`.

    benefits: ns that each group takes, and ns that each pair saves on one GPU. alpha: ns of synchronisation an iteration. levels: of loads
    that are told apart, 0: all. It starts from every group alone; its solutions' `mates` are successors, -1 for none. Raises UserError
    where there are more than 100,000 chains, for 0 GPUs, and for chains of 0 groups.
    """
    n = len(benefits.times)
    if gpus < 1 or most < 1:
        raise UserError(f"chains: {gpus} GPUs and {most} groups a GPU; expected at least 1")
    if (count := sum(comb(n, size) for size in range(1, most + 1))) > MAX_SEATS:
        raise UserError(f"chains: {count:,} chains of up to {most} of {n} groups; at most {MAX_SEATS:,} are put into a program")
    chosen = [one for size in range(1, most + 1) for one in combinations(range(n), size)]
    members = np.array([[*one, *[-1] * (most - len(one))] for one in chosen], np.int64).reshape(-1, most)
    single = np.arange(len(chosen)) < n
    unit = check_chains([(group,) for group in range(n)], gpus, benefits, most, alpha)

    def decode(values: Floats) -> Mates:
        """Return the group that follows each in its chain, -1 for none."""
        successors = np.full(n, -1, np.int32)
        for chain in np.flatnonzero(values[: len(chosen)] > 0.5):
            for before, after in zip(chosen[chain][:-1], chosen[chain][1:], strict=True):
                successors[before] = after
        return successors

    return seat_program(members, chain_load(benefits, members), single, (gpus, alpha, unit), decode, levels)


def plan_chains(
    benefits: Benefit, gpus: int, most: int, seconds: float, alpha: float = 0.0, gap: float = 0.0, solver: Name = "auto"
) -> ChainPlan:
    """Put snapshot groups into chains of up to `most` a GPU and iteration by an integer program (REAL's problem with a capacity above 2).

    A group shares snapshots with the one before it in its chain alone: eq. 9's sum over all pairs would count what three groups share
    twice. benefits: ns that each group takes, and ns that each pair saves on one GPU. The solve ends within `gap` (relative) of the
    optimum, or after `seconds`. alpha: ns of synchronisation an iteration. Raises UserError as `chain_program` and `chain_bound`,
    MachineError where the solver fails or is not installed.
    """
    if not len(benefits.times):
        return ChainPlan((), 0.0, 0.0, "optimal", 0.0, "none")
    certified = chain_bound(benefits, gpus, most, alpha)
    model = chain_program(benefits, gpus, most, alpha)
    solution = solve(model, seconds, gap, solver)
    successors = model.mates(model.start if solution.values is None else solution.values)
    begins = np.setdiff1d(np.arange(len(successors)), successors)
    chains = []
    for group in begins.tolist():
        chain = [group]
        while successors[chain[-1]] >= 0:
            chain.append(int(successors[chain[-1]]))
        chains.append(tuple(chain))
    members = np.array([[*chain, *[-1] * (most - len(chain))] for chain in chains], np.int64)
    order = np.argsort(-chain_load(benefits, members), kind="stable")
    ordered = tuple(chains[one] for one in order)
    makespan = check_chains(ordered, gpus, benefits, most, alpha)
    proved = 0.0 if solution.status == "infeasible" else min(solution.bound * model.unit, makespan)
    return ChainPlan(ordered, makespan, max(proved, certified), solution.status, solution.seconds, solution.solver)
