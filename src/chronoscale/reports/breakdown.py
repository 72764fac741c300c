"""Breakdown of an epoch into parts, as papers on sampling name them, and the time that a rank spends in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from chronoscale.strategies.evaluation.metrics import time_by_op
from chronoscale.strategies.schedule import COLLECTIVES, Op
from chronoscale.strategies.trace import Trace

PARTS: Mapping[str, tuple[Op, ...]] = {
    "sample": (Op.SAMPLE,),
    "gather": (Op.GATHER, Op.FETCH, Op.MATERIALISE, Op.REMAP),
    "transfer": (Op.H2D, Op.D2H, Op.COPY),
    "memory": (Op.MEMORY_READ, Op.MEMORY_UPDATE, Op.MEMORY_WRITE),
    "layers": (Op.AGGREGATE, Op.INCREMENT, Op.RECONSTRUCT, Op.TRANSFORM, Op.TEMPORAL, Op.FORWARD, Op.COMPUTE),
    "backward": (Op.BACKWARD,),
    "optimiser": (Op.OPTIMIZE,),
    "graphs": (Op.GRAPH,),
    "communication": tuple(sorted(COLLECTIVES)),
}  # in the order of an iteration; every operation belongs to one


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Breakdown of an epoch's time for a report: seconds in sampling, transfers, layers, communication and so on, the mean over ranks.

    seconds: by part (of `PARTS`), of the parts that occur. Streams of a rank overlap and ranks wait, so parts do not add up to `epoch_s`.
    Communication includes waiting for the last rank.
    """

    epoch_s: float
    seconds: Mapping[str, float]

    @classmethod
    def of(cls, op_seconds: pd.Series[float], ranks: int, epoch_s: float) -> Breakdown:
        """Return the breakdown of an epoch of `epoch_s` seconds.

        op_seconds: seconds in each operation, summed over ranks, by the operation's name.
        """
        seconds_by_part = {part: [float(op_seconds[op.name]) for op in ops if op.name in op_seconds.index] for part, ops in PARTS.items()}
        return cls(epoch_s, {part: sum(times) / ranks for part, times in seconds_by_part.items() if times})

    @classmethod
    def middle(cls, traces: Sequence[Trace]) -> Breakdown:
        """Return the breakdown of the epoch of median length among several of one schedule. traces: one an epoch."""
        trace = traces[int(np.argsort([trace_.span_ns for trace_ in traces], kind="stable")[(len(traces) - 1) // 2])]
        return cls.of(time_by_op(trace), trace.ranks, trace.span_ns / 1e9)

    def share(self, part: str) -> float:
        """Return the share of the epoch, 0 to 1, that a part takes; 0 for a part that does not occur, NaN for an epoch of no length.

        part: name of one of `PARTS`, such as 'sample'.
        """
        return self.seconds.get(part, 0.0) / self.epoch_s if self.epoch_s > 0 else float("nan")
