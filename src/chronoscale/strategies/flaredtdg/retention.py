"""WindowRetention: what sliding windows keep of older snapshots, as `Schedule.feeding` carries it to whoever executes a schedule."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.snapshots.survival import EpochDraws
from chronoscale.errors import UserError
from chronoscale.strategies.schedule import Schedule


@dataclass(frozen=True, slots=True)
class WindowRetention:
    """What FlareDTDG's sliding windows keep of older snapshots; a schedule carries it as text (`Schedule.feeding`) to the ranks that
    execute it.

    decay: the share retained at each age. each: every rank drops chunks of its own in an order of its own (the published code). inherits:
    hidden states go on from window to window; else each begins with none. still: all epochs draw what the first does, so that the timed
    work is the planned work.
    """

    decay: Decay
    each: bool = False
    inherits: bool = True
    still: bool = False

    def __str__(self) -> str:
        return json.dumps({**asdict(self.decay), "each": self.each, "inherits": self.inherits, "still": self.still})

    @classmethod
    def of(cls, schedule: Schedule) -> WindowRetention:
        """Return what a schedule's windows keep, read from `Schedule.feeding`. Raises UserError for text that this version does not
        know."""
        try:
            fields = json.loads(schedule.feeding)
            each, inherits, still = (bool(fields.pop(name)) for name in ("each", "inherits", "still"))
            return cls(Decay(**{**fields, "lags": tuple(fields["lags"])}), each, inherits, still)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise UserError(f"schedule '{schedule.name}': windows '{schedule.feeding}' are unknown to this version") from None

    def epoch(self, seed: int, number: int) -> EpochDraws:
        """Return the random choices (which chunks are dropped, in which order) of epoch `number`."""
        return EpochDraws(seed, number * (not self.still), self.each)
