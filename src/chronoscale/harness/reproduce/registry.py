"""Registry: studies by paper, kind and number."""

from __future__ import annotations

from importlib import import_module

import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.cell import Cell
from chronoscale.harness.reproduce.study import Kind, Study
from chronoscale.reports.published import published

MODULES = (
    "real.ablation", "real.attributes", "real.degree", "real.dimensions", "real.flops", "real.footprint", "real.overlap", "real.prediction",
    "real.preprocessing", "real.scalability", "real.speedups", "real.training", "real.transfers", "real.utilisation",
    "pgti.accuracy", "pgti.attention", "pgti.blocks", "pgti.case_study", "pgti.global_batch", "pgti.resident",
    "pgti.scaling", "pgti.shuffling", "pgti.sizes", "pgti.stages", "pgti.tokens",
    "fast.breakdown", "fast.forward", "fast.kernels", "fast.ladder", "fast.memory_io", "fast.operators", "fast.overheads",
    "fast.redundancy", "fast.sampling", "fast.sizes", "fast.speedups",
    "flaredtdg.breakdown", "flaredtdg.errors", "flaredtdg.memory", "flaredtdg.reductions", "flaredtdg.scaling", "flaredtdg.sensitivity",
    "flaredtdg.systems",
    "memshare.accuracy", "memshare.alphas", "memshare.cuts", "memshare.cutters", "memshare.increments", "memshare.ladder",
    "memshare.neighbours",
    "memshare.shares", "memshare.sizes", "memshare.speedups", "memshare.stages", "memshare.thetas", "memshare.volumes",
)  # fmt: skip
_ALL: tuple[Study, ...] = tuple(study for name in MODULES for study in import_module(f"chronoscale.harness.reproduce.{name}").STUDIES)
STUDIES: dict[tuple[str, Kind, int], Study] = {
    (study.paper, study.kind, study.number): study for study in sorted(_ALL, key=lambda s: (s.kind, s.number))
}


def find(paper: str, kind: Kind, number: int) -> Study:
    """The study of a figure or table. Raises UserError for an unknown paper or number, with the nearest one."""
    published(paper)
    if (paper, kind, number) not in STUDIES:
        known = [n for p, k, n in STUDIES if (p, k) == (paper, kind)]
        if not known:
            raise UserError(f"{paper}: no {kind} to reproduce; `chronoscale reproduce {paper}` lists what there is")
        near = min(known, key=lambda n: abs(n - number))
        raise UserError(f"{paper}: no {kind} {number} to reproduce; nearest: {near}; all: {', '.join(map(str, known))}")
    return STUDIES[paper, kind, number]


def of(paper: str) -> list[Study]:
    """All studies of a paper. Raises UserError for an unknown one."""
    published(paper)
    return [study for (name, _, _), study in STUDIES.items() if name == paper]


def overview(paper: str) -> pd.DataFrame:
    """One row a study: what it shows, whether it is executed, simulated or counted, and about how long it takes on one core."""
    rows = [
        (f"--{s.kind} {s.number}", s.title, s.printed.section, s.way, Cell(s.lasts_s, f"{s.lasts_s:.0f} s", "about_s")) for s in of(paper)
    ]
    return pd.DataFrame(rows, columns=["what", "shows", "section", "how", "about"])
