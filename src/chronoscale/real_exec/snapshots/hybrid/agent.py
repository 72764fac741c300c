"""Agent: chooses the sizes of the next hybrid batches while training (DynaHB's scheduler: tabular Q-learning)."""

from __future__ import annotations

from itertools import product

import numpy as np

from chronoscale.strategies.baselines.snapshots.dynahb import BatchSize

EVERY = 4  # iterations to an action
EXPLORES, LEAST, DECAY = 1.0, 0.1, 0.98  # share of actions that are drawn, and how it falls from action to action
RATE, DISCOUNT = 0.1, 0.9
FLAT = 0.01  # relative change of the loss that counts as none
ACTIONS = tuple(product((-1, 0, 1), repeat=2))  # halve, keep or double the window; the nodes


def state_of(before: float, loss: float) -> int:
    """Return the state of training that DynaHB's agent acts on: 0 where the loss falls, 1 where it hardly changes, 2 where it rises.

    before: the loss before the last action.
    """
    change = (loss - before) / max(abs(before), 1e-12)
    return 0 if change < -FLAT else 2 if change > FLAT else 1


class Agent:
    """Q-learner (tabular) on rank 0 that chooses batch sizes while DynaHB trains.

    timed: saved time is rewarded, too, so that choices depend on the machine.
    """

    def __init__(self, first: BatchSize, limit: BatchSize, seed: int, timed: bool = False) -> None:
        self.choice = first
        self._limit = limit
        self._timed = timed
        self.values = np.zeros((3, len(ACTIONS)))
        self.explores = EXPLORES
        self._draw = np.random.default_rng((seed, EVERY))
        self._losses: list[float] = []
        self._ns = 0
        self._last: tuple[int, int, float, int] | None = None  # state, action, and what loss and time were then

    def next_choice(self, loss: float, ns: int) -> BatchSize:
        """Return the sizes (snapshots, nodes) of DynaHB's batch to come, after an iteration with this loss (mean over ranks) that took
        `ns`.
        """
        self._losses.append(loss)
        self._ns += ns
        if len(self._losses) == EVERY:
            self._act(float(np.mean(self._losses)), self._ns)
            self._losses, self._ns = [], 0
        return self.choice

    def _act(self, loss: float, ns: int) -> None:
        """Learn from the last action, and choose the next."""
        state = 1
        if self._last is not None:
            before, action, last_loss, last_ns = self._last
            state = state_of(last_loss, loss)
            reward = (last_loss - loss) / max(abs(last_loss), 1e-12) + (self._timed * (last_ns - ns) / max(last_ns, 1))
            gain = reward + DISCOUNT * self.values[state].max() - self.values[before, action]
            self.values[before, action] += RATE * gain
        explores = self._draw.random() < self.explores
        action = int(self._draw.integers(len(ACTIONS))) if explores else int(self.values[state].argmax())
        self.explores = max(self.explores * DECAY, LEAST)
        window, vertices = ACTIONS[action]
        self.choice = BatchSize(
            _scale(self.choice.window, window, self._limit.window), _scale(self.choice.vertices, vertices, self._limit.vertices)
        )
        self._last = state, action, loss, ns


def _scale(size: int, power: int, limit: int) -> int:
    """Return a size halved, unchanged or doubled, between 1 and the limit."""
    return min(max(size * 2 if power > 0 else size >> -power, 1), limit)
