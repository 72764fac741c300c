"""A lower bound on the makespan of snapshot groups that GPUs train in chains of more than two at a time."""

from __future__ import annotations

import numpy as np
from scipy import optimize, sparse

from chronoscale.errors import MachineError, UserError
from chronoscale.strategies.real.benefit import Benefit


def chain_bound(benefits: Benefit, gpus: int, most: int, alpha: float = 0.0) -> float:
    """Return a time, ns, that no schedule of chains of up to `most` groups a GPU and iteration can beat; `lower_bound` is better for 2.

    A chain's load is its groups' times less what each saves with the one before it. benefits: ns that each snapshot group takes, and ns
    that each pair saves on one GPU. alpha: ns of synchronisation an iteration. Rounded down by 1e-9 of itself.

    Proof. There are at least I = ceil(n / (D most)) iterations on D GPUs. They last at least the mean load of their GPUs, and all loads
    are the times less what the links of chains save: a matching of groups to their successors, of at most n - ceil(n / most) links, whose
    best is the optimum of a linear program (its matrix is totally unimodular; a link goes forward, so there are no circles). And where no
    pair saves more than its shorter group takes, no chain is shorter than its longest group: of the groups by falling time an iteration
    has at most D most, so that the (i D most + 1)-th longest bounds the (i + 1)-th longest iteration.

    Raises UserError for 0 GPUs or groups, or where a pair saves more than its shorter group takes.
    """
    if gpus < 1 or most < 1:
        raise UserError(f"chain_bound: {gpus} GPUs and {most} groups a GPU; expected at least 1")
    n = len(benefits.times)
    if n == 0:
        return 0.0
    work = (float(benefits.times.sum()) - _most_saved(benefits, n - -(-n // most))) / gpus
    longest = float(np.sort(benefits.times)[::-1][:: gpus * most].sum())
    return float((max(work, longest) + alpha * -(-n // (gpus * most))) * (1 - 1e-9))


def _most_saved(benefits: Benefit, links: int) -> float:
    """Return the most that `links` links can save, ns, where each group has at most one successor and is that of at most one."""
    n = len(benefits.times)
    near, apart = np.nonzero(benefits.reuse > 0)
    far = near + apart + 1
    near, apart, far = near[far < n], apart[far < n], far[far < n]
    saved = benefits.reuse[near, apart]
    if (saved > np.minimum(benefits.times[near], benefits.times[far]) * (1 + 1e-12)).any():
        raise UserError("chain_bound: a pair saves more than its shorter group takes")
    if links < 1 or not len(saved):
        return 0.0
    each = np.arange(len(saved))
    limits = sparse.csr_array(
        (np.ones(3 * len(saved)), (np.concatenate([near, n + far, np.full(len(saved), 2 * n)]), np.tile(each, 3))), (2 * n + 1, len(saved))
    )
    unit = float(saved.max())
    answer = optimize.linprog(-saved / unit, A_ub=limits, b_ub=np.append(np.ones(2 * n), links), bounds=(0, 1), method="highs")
    if answer.status != 0:
        raise MachineError(f"chain_bound: the linear program was not solved ({answer.message})")
    return float(-answer.fun * unit)
