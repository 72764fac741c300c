"""Learner: a model, its optimiser, and the one flat buffer that its gradients lie in."""

from __future__ import annotations

from typing import Generic, TypeVar

import torch
from torch import nn

from chronoscale.real_exec.context import Context

Model = TypeVar("Model", bound=nn.Module)


class Learner(Generic[Model]):
    """Outlives the programs that train the model, where schedules change.

    `gradients` fp32 [P] holds the gradient of every trained parameter as a view, so that ranks add them up by one all-reduce; `sums` fp32
    are further numbers that travel with them. Both are zero before an iteration.
    """

    def __init__(self, model: Model, context: Context, sums: int = 0) -> None:
        self.model: Model = model.to(context.device)
        self.optimizer: torch.optim.Optimizer = torch.optim.Adam(self.model.parameters(), lr=context.settings.learning_rate)
        self._collective = context.collective
        trained = [p for p in self.model.parameters() if p.requires_grad]
        sizes = [p.numel() for p in trained]
        self._flat = torch.zeros(sum(sizes) + sums, device=context.device)
        self.gradients, self.sums = self._flat.split([sum(sizes), sums])
        for parameter, part in zip(trained, self.gradients.split(sizes), strict=True):
            parameter.grad = part.view_as(parameter)

    def all_reduce(self) -> None:
        """Sum gradients and `sums` over all ranks."""
        self._collective.all_reduce(self._flat)

    def step(self) -> None:
        """Update the parameters; gradients and `sums` are zero afterwards."""
        self.optimizer.step()
        self.clear()

    def clear(self) -> None:
        """Forget gradients and `sums`."""
        self._flat.zero_()
