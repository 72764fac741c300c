"""Averaging: parameters that ranks average during the next iteration, and numbers that travel with them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from chronoscale.real_exec.communication.collective import Collective
from chronoscale.real_exec.execution.transfers import acquire
from chronoscale.real_exec.snapshots.model import SnapshotModel


class Averaging:
    """Delayed averaging of a model's parameters over ranks while DynaHB trains.

    With x(i) the parameters that a rank's iteration i begins with, y(i) = x(i) + d(i) what its optimiser makes of them, and A(i) the mean
    of y(i) over ranks: x(i + 1) = A(i - 1) + d(i). A(i) is summed while iteration i + 1 runs, so that no rank waits for another's current
    step. Every d(i) is in the means once, in equal shares. One rank trains as any optimiser does.
    """

    def __init__(self, model: SnapshotModel, collective: Collective) -> None:
        self._model, self._collective = model, collective
        self._message = self._arrived = torch.empty(0)

    def begin(self, numbers: Tensor) -> None:
        """Begin an epoch of delayed averaging, in which all ranks have the same parameters.

        numbers: fp32, stand for those that travel with the parameters of the iteration before the first.
        """
        self._arrived = torch.cat([self._own(), numbers.to(self._own().device)])

    def step(self, optimise: Callable[[], None], next_numbers: Callable[[Tensor], Tensor]) -> None:
        """Set this rank's parameters to the last mean over ranks plus its own optimiser step (OPTIMIZE).

        optimise: takes that step. next_numbers: from the numbers that were summed with that mean to those that this rank adds to the next
        sum, fp32 [numbers] both.
        """
        before = self._own()
        optimise()
        after, count = self._own(), len(before)
        if self._collective.ranks > 1:
            vector_to_parameters(self._arrived[:count] + (after - before), self._model.parameters())
        self._message = torch.cat([after / self._collective.ranks, next_numbers(self._arrived[count:])])
        if self._collective.ranks == 1:
            self._arrived = self._message

    def all_reduce(self) -> None:
        """Sum the mean over ranks of their parameters, and the numbers that travel with them (ALLREDUCE)."""
        self._collective.all_reduce(acquire(self._message))
        self._arrived = self._message

    def take_up(self) -> None:
        """Set this rank's parameters to the last mean over ranks (COPY), after the last iteration."""
        vector_to_parameters(self._arrived[: len(self._own())], self._model.parameters())

    def _own(self) -> Tensor:
        return parameters_to_vector(self._model.parameters()).detach()
