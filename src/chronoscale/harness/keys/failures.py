"""Keys under `failures`: how devices of a simulated training fail, and what is done about it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from chronoscale.errors import UserError
from chronoscale.harness.keys.types import LISTED, MOST_DRAWS, Part, Size, Steps
from chronoscale.simulator.failures.fault_plan import FaultPlan, TaskFailure

Seconds = Annotated[NonNegativeFloat, Field(le=1e9)]


class FailingTaskKeys(Part):
    """Keys of an experiment file under `failures.tasks`: a task of a simulated training during which its rank fails."""

    epoch: Steps = Field(description="of the training, from 0")
    task: Steps = Field(description="its row of the schedule, from 0")


class FailureKeys(Part):
    """Keys of an experiment file under `failures`: how GPUs fail in a simulated training, its checkpoints and its recovery."""

    policy: Literal["restart", "shrink", "stop"] = Field(
        "restart", description="go on from the last checkpoint on as many GPUs, on one less, or not at all"
    )
    mtbf_s: Annotated[PositiveFloat, Field(le=1e12)] | None = Field(
        None, description="mean seconds until a GPU fails; none fails at random without"
    )
    times_s: Annotated[tuple[Seconds, ...], LISTED] = Field((), description="failures at these seconds of the training")
    tasks: Annotated[tuple[FailingTaskKeys, ...], LISTED] = Field(
        (),
        description="failures while tasks run, as `[{epoch: 0, task: 118}]`, in every schedule",
        json_schema_extra={"shown": "list of mappings"},
    )
    checkpoint_every: Size | None = Field(None, description="iterations from checkpoint to checkpoint; default: an epoch")
    checkpoint_s: Seconds = Field(0.0, description="that writing one takes")
    detect_s: Seconds = Field(0.0, description="until others notice that a GPU has failed")
    restart_s: Seconds = Field(0.0, description="from then until training goes on")
    draws: Annotated[Size, Field(le=MOST_DRAWS)] = Field(
        30, description="trainings of `epochs` epochs, each with other times of failures, if any are random"
    )

    @model_validator(mode="after")
    def _some(self) -> FailureKeys:
        if self.mtbf_s is None and not self.times_s and not self.tasks:
            raise UserError("failures: nothing fails; give mtbf_s, times_s or tasks")
        return self

    def plan(self, iterations: int) -> FaultPlan:
        """Return the failures as the simulator takes them. iterations: of an epoch, after which a checkpoint is made where no key says
        otherwise.
        """
        return FaultPlan(
            self.policy,
            self.checkpoint_every or iterations,
            self.checkpoint_s,
            self.detect_s,
            self.restart_s,
            self.mtbf_s,
            self.times_s,
            tuple(TaskFailure(task.epoch, task.task) for task in self.tasks),
        )
