"""Keeping: what a schedule's windows keep of older snapshots; a schedule carries it, for whoever executes it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.snapshots.survival import EpochDraws
from chronoscale.errors import UserError
from chronoscale.strategies.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Keeping:
    """`decay`: of each age. each: every rank gives up chunks of its own in an order of its own (the published code). inherits: hidden
    states go on from window to window; else each begins with none. still: all epochs draw what the first does, so that what is timed is
    what was planned."""

    decay: Decay
    each: bool = False
    inherits: bool = True
    still: bool = False

    def __str__(self) -> str:
        return json.dumps({**asdict(self.decay), "each": self.each, "inherits": self.inherits, "still": self.still})

    @classmethod
    def of(cls, schedule: Schedule) -> Keeping:
        """What `Schedule.feeding` says. Raises UserError for what this version does not know."""
        try:
            found = json.loads(schedule.feeding)
            each, inherits, still = (bool(found.pop(name)) for name in ("each", "inherits", "still"))
            return cls(Decay(**{**found, "lags": tuple(found["lags"])}), each, inherits, still)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise UserError(f"schedule '{schedule.name}': windows '{schedule.feeding}' are unknown to this version") from None

    def epoch(self, seed: int, number: int) -> EpochDraws:
        """What an epoch draws."""
        return EpochDraws(seed, number * (not self.still), self.each)
