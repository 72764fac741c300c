"""Timed event: an event of SimPy whose time can be known before it comes."""

from __future__ import annotations

import simpy


class TimedEvent(simpy.Event):
    """SimPy event that is triggered at a stated time."""

    def trigger_at(self, time: int, priority: simpy.events.EventPriority = simpy.events.NORMAL) -> None:
        """Trigger at `time` (ns), not before the present; of events at one time, those of lower priority numbers come first."""
        self._ok, self._value = True, None
        self.env.schedule(self, priority, time - self.env.now)
