"""Tuning: theta and alpha, adapted to measured times (MemShare §4.1, eqs. 22 and 23)."""

from __future__ import annotations

from collections import defaultdict
from math import log

from chronoscale.real_exec.execution.task import Task
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.streams.spread.phase import ROWS, SYNCHRONISED_ROWS

EARLY = 2  # epochs in which it goes on
THETA = (0.01, 0.8)
ALPHA = (0.0, 1.0)
KEPT = 0.9  # of what earlier batches took
PARTS = {Op.AGGREGATE: "embedding", Op.FORWARD: "embedding", Op.MEMORY_UPDATE: "update", Op.ALLGATHER: "synchronisation"}
EXCHANGED = {ROWS: "fetching", SYNCHRONISED_ROWS: "synchronisation"}


def next_theta(theta: float, embedding: float, fetching: float) -> float:
    """Return the share of remote neighbours that ranks sample (theta) after a batch, from average seconds of its layers and of fetching
    (MemShare eq. 22).
    """
    return min(max(theta * embedding / fetching, THETA[0]), THETA[1])


def next_alpha(alpha: float, updating: float, synchronising: float) -> float:
    """Return how much shared memory must change to be synchronised (alpha) after a batch, from average seconds of its update and
    synchronisation (MemShare eq. 23).
    """
    return min(max(alpha - log(updating) + log(synchronising), ALPHA[0]), ALPHA[1])


class Tuning:
    """Measured seconds of a rank's rows by what they do, mostly of recent batches, from which MemShare tunes theta and alpha (§4.1).

    Sums are kept; averages have the same ratios.
    """

    def __init__(self) -> None:
        self._spent: defaultdict[str, float] = defaultdict(float)

    def add(self, task: Task, seconds: float) -> None:
        """Add the measured seconds of a row of training on this rank; rows that tune nothing are ignored."""
        part = EXCHANGED.get(task.layer) if task.op is Op.ALLTOALL else PARTS.get(task.op)
        if part:
            self._spent[part] += seconds

    def decay(self) -> None:
        """Lower the weight of earlier batches' seconds, at the end of a batch: they would outweigh those of the present theta."""
        for part in list(self._spent):
            self._spent[part] *= KEPT

    def theta(self, theta: float) -> float:
        """Return the share of remote neighbours to sample after a batch, from the measured seconds; unchanged where nothing was fetched."""
        embedding, fetching = self._spent["embedding"], self._spent["fetching"]
        return next_theta(theta, embedding, fetching) if embedding and fetching else theta

    def alpha(self, alpha: float) -> float:
        """Return how much shared memory must change to be synchronised, from the measured seconds; unchanged where nothing was
        synchronised.
        """
        updating, synchronising = self._spent["update"], self._spent["synchronisation"]
        return next_alpha(alpha, updating, synchronising) if updating and synchronising else alpha
