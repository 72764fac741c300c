"""Recast: the same blocks again, with other work."""

import numpy as np
import pytest

from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.planning.recast import Recast
from chronoscale.strategies.schedule import WORK, Lane, Op

SITES = {"rank": np.array([0, 1, 0, 1]), "order": np.array([0, 0, 1, 1]), "unit": np.array([0, 0, 1, 1])}


def lay(sink, nodes, width, nbytes):
    """Two iterations of two ranks: a copy, and what waits for it."""
    copied = sink.add(Op.H2D, Lane.H2D, SITES, {"bytes": nbytes})
    sink.add(Op.AGGREGATE, Lane.COMPUTE, SITES, {"nodes": nodes, "width": width}, after=[copied])
    return sink.finish()


def test_a_schedule_is_cast_again():
    numbers = np.random.default_rng(0)
    builder = Builder("x", 2)
    recast = Recast(builder, lay(builder, np.arange(4), 7, np.arange(4)))
    made = []
    for _ in range(3):
        work = numbers.integers(0, 99, 4), 7, numbers.integers(0, 99, 4)
        made.append(recast_one := lay(recast, *work))
        fresh = lay(Builder("x", 2), *work)
        for name in ("op", "rank", "lane", "unit", "iteration", "collective", "dep_ptr", "dep", *WORK):
            assert np.array_equal(getattr(recast_one, name), getattr(fresh, name)), name
    assert made[0].op is made[2].op and made[0].dep is made[2].dep
    assert made[0].width is made[2].width and made[0].nodes is not made[2].nodes  # what is the same is kept once


def test_blocks_with_one_value_may_have_another_one():
    builder = Builder("x", 2)
    recast = Recast(builder, lay(builder, 1, 1, 1))
    widths = [lay(recast, 1, width, 1).width.max() for width in (1, 2, 2, 3)]
    assert widths == [1, 2, 2, 3]
    lay(recast, 1, np.arange(4), 1)
    assert lay(recast, 1, 3, 1).width.max() == 3


def test_other_blocks_are_refused():
    builder = Builder("x", 2)
    recast = Recast(builder, lay(builder, 1, 1, 1))
    with pytest.raises(ValueError, match="schedule 'x': 0 of 2 blocks"):
        recast.finish()
    with pytest.raises(ValueError, match="block 0, D2H of 4 sites, was not built"):
        recast.add(Op.D2H, Lane.H2D, SITES)
    with pytest.raises(ValueError, match="block 0, H2D of 1 sites, was not built"):
        recast.add(Op.H2D, Lane.H2D, {"rank": 0, "order": 0})
    recast.add(Op.H2D, Lane.H2D, SITES)
    recast.add(Op.AGGREGATE, Lane.COMPUTE, SITES)
    with pytest.raises(ValueError, match="block 2, OPTIMIZE of 4 sites, was not built"):
        recast.add(Op.OPTIMIZE, Lane.COMPUTE, SITES)


def test_negative_work_is_refused():
    builder = Builder("x", 2)
    recast = Recast(builder, lay(builder, 1, 1, 1))
    with pytest.raises(ValueError, match="negative bytes"):
        lay(recast, 1, 1, -np.arange(4))
