"""Timer: what planners weigh, against a replay of the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from notation import NsCosts, gpus, write

from chronoscale.simulator.engine import replay
from chronoscale.strategies.costing.kernels import SINGLE
from chronoscale.strategies.planning.timer import Timer
from chronoscale.strategies.schedule import Lane, Op

LENGTHS = (40, 7, 90, 3)


@pytest.mark.parametrize("launch", [0, 5, 60])
def test_rows_end_where_they_do_in_a_replay_and_cost_their_launches_too(launch: int) -> None:
    """One kernel a row, in two lanes by turns; busy: durations, and what launching takes the host."""
    timer, end, lanes = Timer(1, NsCosts(launch), SINGLE), np.zeros(1, np.int64), (Lane.COMPUTE, Lane.COMPUTE2)
    text = []
    for i, ns in enumerate(LENGTHS):
        end = timer.add(Op.COPY, lanes[i % 2], {"flops": ns}, after=[end] if i == 3 else [])
        text.append(f"c{i}: COPY@{lanes[i % 2].name} ns={ns}{' <- c2' * (i == 3)}")
    trace = replay(write("\n".join(text)).schedule, gpus(1), NsCosts(launch))
    assert end.tolist() == [int(trace.end_ns[3])] and timer.span.tolist() == [trace.end_ns.max()]
    assert timer.busy.tolist() == [sum(LENGTHS) + len(LENGTHS) * launch]
