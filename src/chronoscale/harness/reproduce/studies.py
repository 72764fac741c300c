"""Studies: the table of all figures and tables that can be made; what makes one is imported when it is run."""

from __future__ import annotations

from chronoscale.harness.reproduce.imported import Imported
from chronoscale.harness.reproduce.study import Study

ALL: tuple[Study, ...] = (
    # fast
    Study("figure", 1, "simulated", 90, Imported("fast.breakdown:run"), "a generated stand-in, simulated and executed", paper="fast"),
    Study(
        "figure",
        2,
        "executed",
        60,
        Imported("fast.forward:run"),
        "on a CPU, generated stand-ins; hyper-threading not reached",
        paper="fast",
    ),
    Study("table", 2, "modelled", 20, Imported("fast.kernels:before"), "an A100 modelled, generated stand-ins", paper="fast"),
    Study("table", 5, "modelled", 40, Imported("fast.kernels:after"), "an A100 modelled, generated stand-ins", paper="fast"),
    Study("figure", 11, "simulated", 200, Imported("fast.ladder:run"), "generated stand-ins, simulated and executed", paper="fast"),
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
    Study("table", 1, "counted", 15, Imported("fast.redundancy:table"), "generated stand-ins", paper="fast"),
    Study("figure", 3, "counted", 15, Imported("fast.redundancy:figure"), "generated stand-ins", paper="fast"),
    Study(
        "figure",
        10,
        "modelled",
        120,
        Imported("fast.sampling:run"),
        "generated stand-ins; what binding gains is not reached by execution",
        paper="fast",
    ),
    Study("table", 3, "counted", 1, Imported("fast.sizes:run"), paper="fast"),
    Study("table", 4, "simulated", 240, Imported("fast.speedups:run"), "speed-ups on generated stand-ins", paper="fast"),
)
