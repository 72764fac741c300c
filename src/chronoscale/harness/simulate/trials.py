"""Trials: strategies simulated under the same assumptions, one changed at a time and all drawn together, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeVar

import numpy as np

from chronoscale.parent import die_with_parent
from chronoscale.simulator.uncertainty.assumptions import ASSUMPTIONS, Assumption, assumptions_of
from chronoscale.simulator.uncertainty.joint import Conclusion, JointResult, Trial, places
from chronoscale.simulator.uncertainty.scenario import Scenario
from chronoscale.strategies.costs import Floats

TIMES = 10  # that progress is told
ONE, CHUNK = 1, 4
_In = TypeVar("_In")
_Out = TypeVar("_Out")


class End(NamedTuple):
    """End of an assumption's range that an epoch is simulated at, all others as usual; value None: none is changed."""

    strategy: str
    assumption: int
    value: float | None


class Drawn(NamedTuple):
    """Joint draw that an epoch is simulated in."""

    strategy: str
    draw: int


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """Strategies to be simulated under the same assumptions: trials by name; usual: value of each assumption; places: where in their ranges
    assumptions lie in each joint draw, float64 [draws, assumptions]."""

    trials: Mapping[str, Trial]
    assumptions: tuple[Assumption, ...]
    usual: tuple[float, ...]
    places: Floats

    @classmethod
    def of(cls, scenarios: Mapping[str, Scenario], draws: int, seed: int) -> Trials:
        """Prepare strategies, by name, for joint draws of all assumptions that matter to any of them."""
        names = {each.name for scenario in scenarios.values() for each in assumptions_of(scenario)}
        assumptions = tuple(each for each in ASSUMPTIONS if each.name in names)
        values = [[each.usual(scenario) for scenario in scenarios.values()] for each in assumptions]
        usual = tuple(next(value for value in known if value is not None) for known in values)
        assumptions = tuple(each.around(value) for each, value in zip(assumptions, usual, strict=True))
        trials = {name: Trial(scenario, assumptions, seed) for name, scenario in scenarios.items()}
        return cls(trials, assumptions, usual, places(draws, len(assumptions), seed))

    def tasks(self) -> list[End | Drawn]:
        """Return all that is to be simulated."""
        usual: list[End | Drawn] = [End(name, 0, None) for name in self.trials]
        values = [(which, value) for which, each in enumerate(self.assumptions) for value in (each.low, each.high)]
        ends = dict.fromkeys(self._end(name, which, value) for which, value in values for name in self.trials)
        drawn = [Drawn(name, draw) for draw in range(len(self.places)) for name in self.trials]
        return [*dict.fromkeys([*usual, *ends]), *drawn]

    def _end(self, name: str, which: int, value: float) -> End:
        """Return the task of one end of a range; where that is the usual value, the task with none changed."""
        return End(name, 0, None) if value == self.usual[which] else End(name, which, value)

    def epoch_s(self, task: End | Drawn) -> float:
        """Simulate one task and return its epoch, s."""
        trial = self.trials[task.strategy]
        if isinstance(task, Drawn):
            return trial.drawn(self.places[task.draw], task.draw)
        return trial.usual() if task.value is None else trial.single(task.assumption, task.value)

    def result(self, epochs_s: Mapping[End | Drawn, float]) -> JointResult:
        """Return the epochs of all tasks, s, by strategy."""
        ranges = [(each.low, each.high) for each in self.assumptions]
        return JointResult(
            self.assumptions,
            {name: epochs_s[End(name, 0, None)] for name in self.trials},
            {name: np.array([epochs_s[Drawn(name, draw)] for draw in range(len(self.places))]) for name in self.trials},
            {
                name: np.array([[epochs_s[self._end(name, which, value)] for value in ends] for which, ends in enumerate(ranges)])
                for name in self.trials
            },
        )

    def conclude(self, result: JointResult, pair: tuple[str, str]) -> Conclusion:
        """Return what holds of a pair of strategies."""
        single = cache(lambda name, which, value: self.trials[name].single(which, value))
        return result.conclude(pair, single, self.usual)


def simulate_trials(
    trials: Trials, pairs: Sequence[tuple[str, str]], on_progress: Callable[[str], None]
) -> tuple[JointResult, list[Conclusion]]:
    """Simulate all tasks of trials, and return their epochs and what holds of each of the pairs of strategies.

    on_progress: called with a line of text now and then. Raises UserError as a replay.
    """
    tasks, epochs_s = trials.tasks(), dict[End | Drawn, float]()
    with mapped(trials) as over:
        for task, epoch_s in zip(tasks, over(Trials.epoch_s, tasks, CHUNK), strict=True):
            epochs_s[task] = epoch_s
            if len(epochs_s) % -(-len(tasks) // TIMES) == 0:
                on_progress(f"joint assumptions: {len(epochs_s)} of {len(tasks)} replays")
        conclusions = list(over(partial(_conclude, epochs_s=epochs_s), pairs, ONE))
    return trials.result(epochs_s), conclusions


def _conclude(trials: Trials, pair: tuple[str, str], epochs_s: Mapping[End | Drawn, float]) -> Conclusion:
    return trials.conclude(trials.result(epochs_s), pair)


_shared: list[Any] = []  # what forked processes have of their parent


@contextmanager
def mapped(common: Any) -> Iterator[Callable[..., Iterator[Any]]]:
    """Provide `over(function, items, chunk)`, which yields function(common, item) of each item in order, on as many processes as there are
    cores; they are forks, which have `common` at no cost."""
    cores = len(os.sched_getaffinity(0))
    if cores == 1:
        yield lambda function, items, _: (function(common, item) for item in items)
        return
    _shared.append(common)
    try:
        with ProcessPoolExecutor(cores, get_context("fork"), die_with_parent, (os.getpid(),)) as pool:
            yield lambda function, items, chunk: pool.map(partial(_of_shared, function), items, chunksize=chunk)
    finally:
        _shared.pop()


def _of_shared(function: Callable[[Any, _In], _Out], item: _In) -> _Out:
    return function(_shared[-1], item)
