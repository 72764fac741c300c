"""Moment: an event of SimPy whose time can be known before it comes."""

from __future__ import annotations

import simpy


class TimedEvent(simpy.Event):
    """To be triggered `at` a time."""

    def trigger_at(self, time: int, priority: simpy.events.EventPriority = simpy.events.NORMAL) -> None:
        """Trigger at `time` (ns), not before now; of those of one time, lower priorities first."""
        self._ok, self._value = True, None
        self.env.schedule(self, priority, time - self.env.now)
