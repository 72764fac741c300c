"""Point: what a simulation says of one strategy on one number of GPUs, beside its schedule and its trace."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from chronoscale.kept import read_json

FILE = "point.json"


@dataclass(frozen=True, slots=True)
class Point:
    """`point.json` of a piece `sim-<gpus>-<strategy>`; what has a default may be absent, as in runs of earlier versions.

    peak_bytes: of the fullest rank's device. host_bytes: planned, of a rank. costs, cluster: by name; preset_gpus: that the cluster has.
    gap: of the schedule to its scheduler's bound, None where none planned. prepare_s: what happens once before the first epoch.
    out_of_memory: why it does not fit, '' where it does. idle_ranks: `Schedule.idle`. busiest_link: by name, and link_utilisation, its mean
    one, of 1; '' and None where no link was modelled.
    """

    strategy: str
    gpus: int
    peak_bytes: int
    costs: str
    cluster: str
    preset_gpus: int
    host_bytes: int = 0
    gap: float | None = None
    note: str = ""
    partition: str = ""
    prepare_s: float | None = None
    out_of_memory: str = ""
    idle_ranks: int = 0
    busiest_link: str = ""
    link_utilisation: float | None = None

    def save(self, folder: Path) -> None:
        """JSON, into the folder of the piece."""
        (folder / FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> Point:
        """Read what `save` wrote. Raises UserError for a file that is missing or damaged."""
        return read_json(folder / FILE, cls, "point")
