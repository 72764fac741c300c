"""Chains of up to four groups a GPU: bound, checker and integer program against all ways to put few groups together."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairings import KINDS, generated, optimum

from chronoscale.errors import UserError
from chronoscale.strategies.real.benefit import Benefit
from chronoscale.strategies.real.bound import lower_bound
from chronoscale.strategies.real.chain_bound import chain_bound
from chronoscale.strategies.real.chains import ChainPlan, chain_load, chain_program, plan_chains
from chronoscale.strategies.real.check import check, check_chains
from chronoscale.strategies.real.ilp_model import compact_program
from chronoscale.strategies.snapshots.groups import deal

problems = st.builds(generated, st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(1, 4), st.sampled_from(KINDS))
alphas = st.sampled_from([0.0, 0.5])


def partitions(groups: list[int], most: int) -> Iterator[list[list[int]]]:
    """All ways to part groups into chains of up to `most`, each in time order."""
    if not groups:
        yield []
        return
    *others, last = groups
    for parts in partitions(others, most):
        yield [*parts, [last]]
        for i, part in enumerate(parts):
            if len(part) < most:
                yield [*parts[:i], [*part, last], *parts[i + 1 :]]


def best(problem: Benefit, gpus: int, most: int, alpha: float = 0.0) -> float:
    """The least makespan of all of them, by sums and nothing of the project."""
    times, reuse, least = problem.times.tolist(), problem.reuse.tolist(), float("inf")
    for chains in partitions(list(range(len(times))), most):
        loads = []
        for chain in chains:
            links = pairwise(chain)
            loads.append(sum(times[i] for i in chain) - sum(reuse[i][j - i - 1] for i, j in links if j - i <= len(reuse[i])))
        loads.sort(reverse=True)
        least = min(least, sum(loads[i] + alpha for i in range(0, len(loads), gpus)))
    return least


@given(problems, st.integers(1, 3), st.integers(1, 4), alphas)
def test_the_bound_is_never_above_the_optimum(problem: Benefit, gpus: int, most: int, alpha: float) -> None:
    assert 0 < chain_bound(problem, gpus, most, alpha) <= best(problem, gpus, most, alpha)


@given(problems, st.integers(1, 3))
def test_on_one_gpu_without_a_limit_the_bound_is_the_optimum(problem: Benefit, most: int) -> None:
    """All groups in one chain or more: then the work is all there is, and the matching of successors is the best."""
    n = len(problem.times)
    assert chain_bound(problem, 1, n) == pytest.approx(best(problem, 1, n), rel=1e-6)
    assert chain_bound(problem, 1, most) <= best(problem, 1, most)


def test_with_pairs_the_other_bound_is_as_good_or_better() -> None:
    for seed in range(20):
        problem = generated(seed, 40, 3, KINDS[seed % 5])
        for gpus in (1, 3):
            assert chain_bound(problem, gpus, 2) <= lower_bound(problem, gpus) * (1 + 1e-6)


@pytest.mark.parametrize("solver", ["highs", "gurobi"])
@pytest.mark.parametrize("most", [2, 3, 4])
@pytest.mark.parametrize(("seed", "gpus", "alpha"), [(0, 1, 0.0), (1, 2, 0.0), (3, 2, 0.4)])
def test_the_program_finds_the_optimum(seed: int, gpus: int, alpha: float, most: int, solver) -> None:
    problem = generated(seed, 6, 2, KINDS[seed])
    plan = plan_chains(problem, gpus, most, 60, alpha, solver=solver)
    expected = best(problem, gpus, most, alpha)
    assert plan.status == "optimal" and plan.makespan == pytest.approx(expected, rel=1e-6) and abs(plan.gap) < 1e-5
    assert check_chains(plan.chains, gpus, problem, most, alpha) == plan.makespan
    if most == 2:
        assert expected == pytest.approx(optimum(problem, gpus, alpha))


def test_longer_chains_are_never_worse_and_save_more_on_one_gpu() -> None:
    problem = generated(2, 9, 3, "all shared")
    spans = [plan_chains(problem, 1, most, 60).makespan for most in (1, 2, 3, 4)]
    assert spans == sorted(spans, reverse=True) and spans[3] < spans[2] < spans[1] < spans[0]


def test_with_pairs_it_is_the_compact_program() -> None:
    problem = generated(4, 8, 3, "even")
    ours, theirs = chain_program(problem, 3, 2, 0.2), compact_program(problem, 3, 0.2, np.full(8, -1, np.int32))
    for name in ("cost", "lower", "upper", "integer", "row_lower", "row_upper", "start"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12)
    assert (ours.rows.value == theirs.rows.value).all() and (ours.rows.row == theirs.rows.row).all()


def test_the_checker_agrees_with_that_of_pairs_and_with_loads() -> None:
    problem = generated(7, 8, 3, "even")
    dealt = [(i, i + 1) for i in range(0, 8, 2)]
    loads = chain_load(problem, np.array(dealt))
    in_order = [dealt[i] for i in np.argsort(-loads)]
    assert check_chains(in_order, 1, problem, 2, 0.3) == pytest.approx(check(deal(8, 1, 2), problem, 0.3))
    three = chain_load(problem, np.array([[0, 1, 3], [2, 4, -1]]))
    assert three.tolist() == pytest.approx([check_chains([(0, 1, 2)], 1, head(problem, [0, 1, 3]), 3), loads_of(problem, 2, 4)])


def loads_of(problem: Benefit, i: int, j: int) -> float:
    return float(problem.load(np.array([i]), np.array([j]))[0])


def head(problem: Benefit, groups: list[int]) -> Benefit:
    """A problem of a few of its groups, neighbours in it as far apart as in the whole one."""
    reuse = np.zeros((len(groups), 1))
    for i, (a, b) in enumerate(pairwise(groups)):
        reuse[i, 0] = problem.times[a] + problem.times[b] - loads_of(problem, a, b)
    return Benefit(problem.times[groups], reuse)


def test_one_of_them_in_another_order_or_twice_is_refused() -> None:
    problem = generated(0, 4, 2, "even")
    for chains, message in (
        ([(0, 1, 2), (3,)], "3 groups on a GPU at a time; expected 1 to 2"),
        ([(1, 0), (2, 3)], "group 0 comes after group 1"),
        ([(0, 1), (1, 2)], "group 1 trains twice"),
        ([(0, 1), (2, 4)], "not among 0 to 3"),
        ([(0, 1), (3,)], "group 2 does not train"),
        ([(), (0,)], "0 groups"),
    ):
        with pytest.raises(UserError, match=message):
            check_chains(chains, 2, problem, 2)


def test_nonsense_is_refused() -> None:
    problem = generated(0, 4, 2, "even")
    for call in (lambda: chain_bound(problem, 0, 2), lambda: chain_program(problem, 1, 0)):
        with pytest.raises(UserError, match="expected at least 1"):
            call()
    with pytest.raises(UserError, match="saves more than its shorter group"):
        chain_bound(Benefit(problem.times, problem.reuse * 0 + 100), 1, 3)
    with pytest.raises(UserError, match="are put into a program"):
        chain_program(generated(0, 60, 2, "even"), 1, 4)
    empty = Benefit(np.empty(0), np.empty((0, 1)))
    assert plan_chains(empty, 1, 3, 1) == ChainPlan((), 0.0, 0.0, "optimal", 0.0, "none") and chain_bound(empty, 1, 3) == 0
