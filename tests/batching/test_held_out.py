"""Held: splits in time by brute force, and the groups that are left to train on."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Workload

SHARES = st.integers(0, 99).map(lambda percent: percent / 100)
COUNTS = {length: statistics_of(GrowthGraph.rmat(8, 12, length, 0.2, 1)) for length in range(2, 16)}


def nearest(share: float, count: int) -> set[int]:
    """Whole numbers that are no farther from the share than half."""
    return {n for n in range(count + 1) if abs(n - share * count) <= 0.5 + 1e-9}


@given(SHARES, SHARES, st.integers(1, 200))
@example(0.35, 0.35, 10)
def test_parts_follow_one_another_and_have_their_shares(validation, test, count):
    assume(validation + test < 1)
    try:
        parts = HeldOut(validation, test).split(count)
    except UserError as error:
        shares = {"training.validation": validation, "training.test": test}
        named = [share for key, share in shares.items() if str(error).startswith(f"{key}: a share of")]
        assert len(named) == 1 and named[0] > 0 and int(named[0] * count) == 0
        return
    assert [t for part in parts for t in part] == list(range(count))
    assert len(parts.test) in nearest(test, count) and len(parts.test) + len(parts.validation) in nearest(validation + test, count)
    assert bool(parts.validation) == (validation > 0) and bool(parts.test) == (test > 0)


@given(SHARES, SHARES, st.integers(1, 60))
def test_the_fewest_snapshots_that_train_on_so_many(validation, test, trained):
    assume(validation + test < 1)
    held = HeldOut(validation, test)
    found = held.required_snapshots(trained)
    assert held.training_count(found) == trained and all(held.training_count(fewer) < trained for fewer in range(found))


@given(st.sampled_from(sorted(COUNTS)), SHARES, SHARES, st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_no_group_is_trained_on_what_is_held_out(length, validation, test, size, stride, horizon):
    assume(validation + test < 1)
    hyper = Hyper(size, stride, horizon=horizon, held=HeldOut(validation, test))
    work = Workload("w", COUNTS[length], model_shape("t-gcn", 3, 4), hyper)
    try:
        trained = hyper.held.split(length).training
    except UserError as error:
        with pytest.raises(UserError, match=str(error).split(":")[0]):
            print(work.groups)
        return
    starts = [s for s in range(0, length, stride) if s + size - 1 + horizon in trained]
    if starts:
        assert work.group_start(np.arange(work.groups)).tolist() == starts
    else:
        with pytest.raises(UserError, match=r"has \d+ snapshots; a group|training.validation, training.test: they leave \d+ of the"):
            print(work.groups)


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ((-0.1, 0.2), r"^training\.validation: expected a share of the snapshots of at least 0, got -0\.1$"),
        ((0.1, float("nan")), r"^training\.test: expected a share .* got nan$"),
        ((0.5, 0.5), r"^training\.validation, training\.test: expected shares of the snapshots with a sum below 1, got 0\.5 and 0\.5$"),
    ],
)
def test_shares_that_cannot_be(shares, said):
    with pytest.raises(UserError, match=said):
        HeldOut(*shares)
