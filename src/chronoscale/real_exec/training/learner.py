"""Learner: a model, its optimiser, and one flat buffer for all gradients."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.nonfinite import NonFiniteValue
from chronoscale.real_exec.job import Settings

Model = TypeVar("Model", bound=nn.Module)


def adam(parameters: Iterable[nn.Parameter], settings: Settings, rate: float, fused: bool = False) -> torch.optim.Optimizer:
    """Return Adam as a job's settings have it, with a learning rate."""
    return torch.optim.Adam(parameters, lr=rate, weight_decay=settings.weight_decay, fused=fused)


def rate_at(settings: Settings, epoch: int) -> float:
    """Return the learning rate of an epoch: the settings', times their factor for each milestone that is no later."""
    passed = sum(milestone <= epoch for milestone in settings.milestones)
    return float(settings.learning_rate * settings.factor**passed)


def clipping(gradients: Tensor, most: float) -> Tensor:
    """Return what gradients, all in one tensor, are multiplied by so that their norm is at most `most`, a scalar."""
    return torch.clamp(most / gradients.norm().clamp(min=1e-12), max=1)


class Learner(Generic[Model]):
    """Model in training on one rank, with its gradients and optimiser. It outlives the programs that train it, where schedules change.

    gradients, fp32 [P], holds the gradient of every trained parameter as a view, so that ranks sum them by one all-reduce; sums, fp32, are
    further numbers that travel with them. Both are zero before an iteration.

    Every step checks that the sum of its gradients is finite: on a CPU at once; on a GPU, where that would make the host wait, sums of all
    parameters stay on the device and are read when the pass has ended (`later`).
    """

    def __init__(self, model: Model, context: Context, sums: int = 0, fused: bool = False) -> None:
        """Set up Adam and the buffer, with room for `sums` further numbers.

        fused: the optimiser updates all parameters by one kernel, which matters where steps are short; on a CPU they also lie in one flat
        buffer, and are one parameter to it.
        """
        self.model: Model = model.to(context.device)
        settings, self.later = context.settings, context.device.type == "cuda"
        self._settings, self._rate = settings, settings.learning_rate
        self._collective = context.collective
        trained = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        sizes = [p.numel() for p in trained.values()]
        self._names = [*trained, "the sum of errors"]
        self._sizes = torch.tensor([*sizes, sums], device=context.device)  # once: a copy to a GPU is waited for
        self._flat = torch.zeros(sum(sizes) + sums, device=context.device)
        self.gradients, self.sums = self._flat.split([sum(sizes), sums])
        for parameter, part in zip(trained.values(), self.gradients.split(sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        self._joint = list(trained.values()) if fused and context.device.type == "cpu" else []
        optimised = self._flatten(self._joint) if self._joint else self.model.parameters()
        self.optimizer = adam(optimised, settings, settings.learning_rate, fused)
        self._own: Tensor | None = None  # of this rank's gradients, before ranks have added theirs up
        self._rates: list[float] = []
        self._steps: list[tuple[int, Tensor, Tensor]] = []

    def _flatten(self, parameters: list[nn.Parameter]) -> list[nn.Parameter]:
        """Return one parameter, fp32 [P], that all of these are views of."""
        whole = nn.Parameter(torch.cat([parameter.detach().flatten() for parameter in parameters]))
        whole.grad = self.gradients
        for parameter, part in zip(parameters, whole.detach().split([parameter.numel() for parameter in parameters]), strict=True):
            parameter.data = part.view_as(parameter)
        return [whole]

    def begin(self, epoch: int) -> None:
        """Take the learning rate of an epoch: the settings', times their factor for each milestone that is no later."""
        self._rate = rate_at(self._settings, epoch)

    def all_reduce(self) -> None:
        """Sum the gradients, and the further numbers in `sums`, over all ranks, in place."""
        self._own = self._look()
        self._collective.all_reduce(self._flat)

    def step(self, iteration: int, groups: int = 1) -> None:
        """Update the model's parameters on this rank by the summed gradients; gradients and `sums` are zero afterwards.

        groups: factor of the learning rate, where it is to be scaled (REAL §7.4). Raises NonFiniteValue where a gradient is not finite: on
        all ranks, as all have the same sum.
        """
        together = self._look()
        self._steps.append((iteration, together if self._own is None else self._own, together))
        self._own = None
        if not self.later:
            self._check()
        if self._settings.clip:
            self.gradients.mul_(clipping(self.gradients, self._settings.clip))
        for part in self.optimizer.param_groups:
            if self._settings.scale_learning_rate or self._settings.milestones:
                part["lr"] = self._rate * (groups if self._settings.scale_learning_rate else 1)
            self._rates.append(part["lr"])
        self.optimizer.step()
        if self._joint:
            torch.autograd.graph.increment_version(self._joint)  # so that a graph over what they were is refused
        self.clear()

    def rates(self) -> tuple[float, float]:
        """Return the lowest and the highest learning rate of the optimiser's steps since the last call; NaN for no steps."""
        taken, self._rates = self._rates or [float("nan")], []
        return min(taken), max(taken)

    def clear(self) -> None:
        """Set the gradients, and the further numbers in `sums`, to zero."""
        self._flat.zero_()

    def check(self) -> None:
        """Check, after a pass, the gradients of its steps and the model's parameters. Raises NonFiniteValue where one is not finite."""
        self._check()
        for name, parameter in self.model.named_parameters():
            if not parameter.detach().isfinite().all():
                raise NonFiniteValue(None, f"parameter {name} after the last step")

    def _check(self) -> None:
        """Raise NonFiniteValue for the first step whose gradients were not finite."""
        steps, self._steps = self._steps, []
        for iteration, own, together in steps:
            if not isfinite(float(together.sum())):
                parts = together if self.later else self._parts()
                name = self._names[int((~parts.isfinite()).nonzero()[0])] if not parts.isfinite().all() else "all parameters together"
                raise NonFiniteValue(iteration, f"the gradient of {name}", not bool(own.sum().isfinite()))

    def _look(self) -> Tensor:
        """Return sums that are finite only where all gradients are."""
        return self._parts() if self.later else self._flat.sum()

    def _parts(self) -> Tensor:
        """Return the sum of each parameter's gradient, and last that of `sums`, fp32 [parameters + 1]."""
        return torch.segment_reduce(self._flat, "sum", lengths=self._sizes, unsafe=True)
