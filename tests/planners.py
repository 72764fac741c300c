"""Planners that do not plan, for processes of their own to import quickly."""

import os
import time

from chronoscale.errors import UserError
from chronoscale.strategies.workload import Family


class Slow:
    """Never done within the time it gets."""

    name, title, source, family = "slow", "Slow", "a test", Family.DTDG

    def plan(self, workload, ranks, costs):
        time.sleep(60)


class Wrong(Slow):
    name = "wrong"

    def plan(self, workload, ranks, costs):
        raise UserError("no such thing")


class Dead(Slow):
    name = "dead"

    def plan(self, workload, ranks, costs):
        os._exit(3)
