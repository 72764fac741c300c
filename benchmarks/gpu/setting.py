"""Setting: what is profiled, and then validated and replayed with the profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph


class Setting(NamedTuple):
    """A model's hidden width, and the generated snapshots that it is trained on: nodes, edges that ever exist, snapshots, repeats."""

    hidden: int
    nodes: int
    edges: int
    snapshots: int
    repeats: int

    @property
    def name(self) -> str:
        """Of the dataset."""
        return f"growth-{self.nodes // 1000}k" if self.nodes >= 1000 else f"growth-{self.nodes}"

    @classmethod
    def of(cls, data: dict[str, Any]) -> Setting:
        """Of a result."""
        return cls(**data["setting"])

    def stored(self, folder: Path) -> Path:
        """The dataset's folder; made where it is not there."""
        path = folder / f"{self.name}-{self.edges}-{self.snapshots}"
        if not path.exists():
            store.save(path, GrowthGraph.rmat(self.nodes, self.edges, self.snapshots, 0.05, 0).sequence())
        return path

    def experiment(self, data: Path, device: str) -> dict[str, Any]:
        """As of a file."""
        model = {"name": "wd-gcn", "hidden": self.hidden, "inputs": self.hidden}
        planned = {"strategies": ["psg", "real-type1", "real-reuse", "real-g+"], "ranks": [1], "repeats": self.repeats}
        return {"dataset": {"path": str(data)}, "model": model, **planned, "device": device}


# The first is done in a minute. The second has the width of REAL's Figure 15 and a third of the graph that `figure15` replays (300,000
# nodes, 1.9 M edges a snapshot), for want of minutes.
SETTINGS = (Setting(64, 2_000, 20_000, 16, 5), Setting(64, 100_000, 1_300_000, 12, 3))
REHEARSED = (Setting(16, 200, 1_200, 12, 2),)
