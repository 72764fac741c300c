"""Studies: the table of all figures and tables that can be made; what makes one is imported when it is run."""

from __future__ import annotations

from chronoscale.harness.reproduce.imported import Imported
from chronoscale.harness.reproduce.study import Study

ALL: tuple[Study, ...] = (
    # fast
    Study(
        "figure",
        2,
        "executed",
        60,
        Imported("fast.forward:run"),
        "on a CPU, generated stand-ins; hyper-threading not reached",
        paper="fast",
    ),
    Study("figure", 8, "modelled", 300, Imported("fast.memory_io:run"), "generated stand-ins beside real data", paper="fast"),
    Study("figure", 9, "executed", 60, Imported("fast.operators:run"), "on a CPU, generated stand-ins", paper="fast"),
    Study(
        "table",
        6,
        "executed",
        90,
        Imported("fast.overheads:run"),
        "counted at Bitcoin's size, measured on a part of a stand-in",
        paper="fast",
    ),
    Study(
        "figure",
        10,
        "modelled",
        120,
        Imported("fast.sampling:run"),
        "generated stand-ins; what binding gains is not reached by execution",
        paper="fast",
    ),
)
