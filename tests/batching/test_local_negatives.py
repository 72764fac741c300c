"""Local negatives against the distribution that is meant, event by event, and their weights against its ratio to the uniform one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.batching.streams.ranks.local_negatives import local_training_negatives
from chronoscale.datasets.streams import negatives
from chronoscale.errors import UserError

DRAWS = 40_000
LIMIT = 6.1  # standard errors, twice a number's chance to lie beyond is 10^-9; fewer than 500 numbers are compared


def meant(own: int, among: list[int], local: list[int], remote: float) -> dict[int, float]:
    """The chance of each node: both choices enumerated."""
    every = [node for node in among if node != own] or [own]
    near = [node for node in local if node != own]
    share = remote if near else 1.0
    chance = dict.fromkeys(every, share / len(every))
    for node in near:
        chance[node] += (1 - share) / len(near)
    return chance


AMONG = [2, 3, 5, 8, 9, 12]
LOCALS = ([3, 8, 9], [5], [], AMONG)


@pytest.mark.parametrize("remote", [0.0, 0.1, 0.6, 1.0])
@pytest.mark.parametrize("local", LOCALS)
@pytest.mark.parametrize("own", [3, 5, 2, 4])  # 4 is no destination of `among`
def test_nodes_are_drawn_with_the_chance_that_is_meant(own: int, local: list[int], remote: float) -> None:
    """And weighed by what makes it uniform."""
    among = np.array(AMONG, np.int32)
    asked = np.full(DRAWS, own, np.int32), np.arange(DRAWS), among, np.array(local, np.int32), remote
    drawn, weight = local_training_negatives(*asked, seed=1, epoch=2)
    assert drawn.shape == weight.shape == (DRAWS, 1) and drawn.dtype == np.int32 and weight.dtype == np.float32
    chance = meant(own, AMONG, local, remote)
    for node in AMONG:
        p, share = chance.get(node, 0.0), (drawn == node).mean()
        assert abs(share - p) <= LIMIT * np.sqrt(p * (1 - p) / DRAWS)
        expected = 1 / len(chance) / p if p else 0.0
        np.testing.assert_allclose(weight[drawn == node], expected, rtol=1e-6)
    reached = sum(p > 0 for p in chance.values())
    mean, error = weight.mean(), weight.std() / np.sqrt(DRAWS)
    assert abs(mean - reached / len(chance)) <= LIMIT * error + 1e-6
    assert reached == len(chance) or remote == 0


@given(st.sets(st.integers(0, 12), min_size=1), st.sets(st.integers(0, 12)), st.lists(st.integers(0, 12), max_size=30), st.floats(0, 1))
def test_weights_are_exact_whatever_is_left_out(every: set[int], part: set[int], dst: list[int], remote: float) -> None:
    among, local = (np.array(sorted(nodes), np.int32) for nodes in (every, every & part))
    given_to = np.array(dst, np.int32), np.arange(len(dst)), among, local, remote
    drawn, weight = local_training_negatives(*given_to, seed=3, epoch=0)
    printed = local_training_negatives(*given_to, seed=3, epoch=0, variant="as-published")
    np.testing.assert_array_equal(printed[0], drawn)
    for own, node, w, p in zip(dst, drawn[:, 0].tolist(), weight[:, 0].tolist(), printed[1][:, 0].tolist(), strict=True):
        chance = meant(own, among.tolist(), local.tolist(), remote)
        near = set(local.tolist()) - {own}
        np.testing.assert_allclose(w, 1 / len(chance) / chance[node], rtol=1e-6)
        if not near:
            assert w == p == 1
        elif node in near:  # eq. 27
            np.testing.assert_allclose(p, len(chance) / ((1 - remote) * len(chance) + remote * len(near)), rtol=1e-6)
        else:
            np.testing.assert_allclose(p, len(chance) / (len(near) * remote), rtol=1e-6)


def test_weighted_losses_have_the_uniform_ones_as_their_expectation() -> None:
    """A loss that knows the node, z-tested against its mean over all."""
    among, dst = np.arange(20, dtype=np.int32), np.full(DRAWS, 7, np.int32)
    drawn, weight = local_training_negatives(dst, np.arange(DRAWS), among, among[4:9], 0.2, seed=5, epoch=1)
    loss = np.arange(20.0)
    terms = weight[:, 0] * loss[drawn[:, 0]]
    assert abs(terms.mean() - np.delete(loss, 7).mean()) < LIMIT * terms.std() / np.sqrt(DRAWS)
    assert loss[drawn[:, 0]].mean() < 0.8 * np.delete(loss, 7).mean()  # without weights it is another


def test_draws_are_the_event_s_in_any_batch_and_others_in_another_epoch() -> None:
    among, dst = np.arange(50, dtype=np.int32), (np.arange(400) % 50).astype(np.int32)
    order, nodes = np.random.default_rng(0).permutation(400), (among, among[::3])
    whole = local_training_negatives(dst, np.arange(400), *nodes, 0.3, seed=5, epoch=2)
    for a, b in zip(local_training_negatives(dst[order], order, *nodes, 0.3, seed=5, epoch=2), whole, strict=True):
        np.testing.assert_array_equal(a, b[order])
    for seed, epoch in ((5, 3), (6, 2)):
        assert (local_training_negatives(dst, np.arange(400), *nodes, 0.3, seed=seed, epoch=epoch)[0] != whole[0]).mean() > 0.8
    always = local_training_negatives(dst, np.arange(400), *nodes, 1.0, seed=5, epoch=2)
    np.testing.assert_array_equal(always[0], negatives.training_negatives(dst, np.arange(400), among, seed=5, epoch=2))
    assert (always[1] == 1).all()


def test_what_is_refused() -> None:
    among, dst, event = np.array([2, 3, 5], np.int32), np.zeros(4, np.int32), np.arange(4)
    for local in ([3, 2], [2, 2], [2, 4]):
        with pytest.raises(UserError, match=r"^local: expected different nodes of `among` in ascending order$"):
            local_training_negatives(dst, event, among, np.array(local, np.int32), 0.5, seed=0, epoch=0)
    for remote in (-0.1, 1.5, float("nan")):
        with pytest.raises(UserError, match=rf"^remote: expected a probability from 0 to 1, got {remote}$"):
            local_training_negatives(dst, event, among, among, remote, seed=0, epoch=0)
    with pytest.raises(UserError, match=r"^unknown variant 'as-publshed'; did you mean 'as-published'\?$"):
        local_training_negatives(dst, event, among, among, 0.5, seed=0, epoch=0, variant="as-publshed")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^local: expected an array of int32, got int64$"):
        local_training_negatives(dst, event, among, among.astype(np.int64), 0.5, seed=0, epoch=0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^among: expected different nodes"):
        local_training_negatives(dst, event, among[::-1], among, 0.5, seed=0, epoch=0)
