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
    work is the planned work. apart: no window crosses an epoch's random split of the sequence (FlareDTDG, Algorithm 1).
    """

    decay: Decay
    each: bool = False
    inherits: bool = True
    still: bool = False
    apart: bool = False

    def __str__(self) -> str:
        flags = {"each": self.each, "inherits": self.inherits, "still": self.still, "apart": self.apart}
        return json.dumps({**asdict(self.decay), **flags})

    @classmethod
    def of(cls, schedule: Schedule) -> WindowRetention:
        """Return what a schedule's windows keep, read from `Schedule.feeding`. Raises UserError for text that this version does not
        know."""
        try:
            fields = {"apart": True, **json.loads(schedule.feeding)}  # of version 0.2.0 and before, which had no other way
            each, inherits, still, apart = (bool(fields.pop(name)) for name in ("each", "inherits", "still", "apart"))
            return cls(Decay(**{**fields, "lags": tuple(fields["lags"])}), each, inherits, still, apart)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise UserError(f"schedule '{schedule.name}': windows '{schedule.feeding}' are unknown to this version") from None

    def epoch(self, seed: int, number: int) -> EpochDraws:
        """Return the random choices (which chunks are dropped, in which order) of epoch `number`."""
        return EpochDraws(seed, number * (not self.still), self.each)

    def segments(self, seed: int, number: int, snapshots: int) -> list[range]:
        """Return an epoch's windows over `snapshots` snapshots, segment by segment in the order of training, as ranges of their newest
        snapshots."""
        return self.epoch(seed, number).steps(snapshots, self.decay.window, self.apart)
