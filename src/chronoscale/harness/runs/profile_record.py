"""Record of a profile: what it was made for, and when."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chronoscale.records import read_json

PROFILED = "profiled.json"  # the record's file in a profile's folder


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """Record, in a run's folder, of the profile that its costs are fitted from.

    strategies: whose rows it can predict. run: in which it was measured. at: when (ISO 8601). load: processes that ran or waited in the
    minute before.
    """

    strategies: list[str]
    run: str
    at: str
    load: float

    @classmethod
    def load_from(cls, folder: Path) -> ProfileRecord:
        """Read the record in a profile's folder. Raises UserError for a file that is missing or damaged."""
        return read_json(folder / PROFILED, cls, "record of a profile")

    @property
    def sentence(self) -> str:
        """Clause, for warnings and reports, that says which run measured the costs, and how long ago."""
        when = datetime.fromisoformat(self.at)
        return (
            f"costs are those that {self.run} fitted {_age(datetime.now(UTC) - when)} ({when:%Y-%m-%d %H:%M} UTC), when {self.load:.1f} "
            f"processes were busy on {len(os.sched_getaffinity(0))} cores; `chronoscale profile` measures anew"
        )


def _age(age: timedelta) -> str:
    for seconds, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if (count := int(age.total_seconds() // seconds)) > 0:
            return f"{count} {unit}{'s' * (count > 1)} ago"
    return "less than a minute ago"
