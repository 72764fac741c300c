"""Timed event: an event of SimPy whose time can be known before it comes."""

from __future__ import annotations

import simpy


class TimedEvent(simpy.Event):
    """Event of the SimPy simulation whose time can be known before it comes."""

    def trigger_at(self, time: int, priority: simpy.events.EventPriority = simpy.events.NORMAL) -> None:
        """Let the simulated event happen at `time` (ns), not before the present.

        priority: of events at one time, those of lower numbers come first.
        """
        self._ok, self._value = True, None
        self.env.schedule(self, priority, time - self.env.now)
