"""Keys under `assumptions`: how often what a simulation assumes is drawn."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from chronoscale.harness.keys.types import MOST_DRAWS, Part, Steps


class AssumptionKeys(Part):
    """Keys of an experiment file under `assumptions`: what a simulation assumes of a cluster, drawn together."""

    draws: Annotated[Steps, Field(le=MOST_DRAWS)] = Field(
        64,
        description="replays of every strategy on the most GPUs, each with other values of all assumptions, the same for all strategies; "
        "0: none",
    )
