"""Studies: the table of all figures and tables that can be made; what makes one is imported when it is run."""

from __future__ import annotations

from chronoscale.harness.reproduce.imported import Imported
from chronoscale.harness.reproduce.study import Study

ALL: tuple[Study, ...] = (
    # pgt-i
    Study("table", 3, "executed", 300, Imported("pgti.accuracy:table"), "scaled down", paper="pgt-i"),
    Study("figure", 5, "executed", 240, Imported("pgti.accuracy:curves"), "scaled down", paper="pgt-i"),
    Study("table", 6, "executed", 90, Imported("pgti.attention:run"), "scaled down", paper="pgt-i"),
    Study(
        "figure",
        9,
        "simulated",
        5,
        Imported("pgti.blocks:run"),
        "shape not reached (no limit of the engine as a whole is modelled)",
        paper="pgt-i",
    ),
    Study("table", 2, "simulated", 1, Imported("pgti.case_study:run"), paper="pgt-i"),
    Study("figure", 8, "executed", 400, Imported("pgti.global_batch:run"), "scaled down, ranks emulated by the batch", paper="pgt-i"),
    Study("table", 4, "simulated", 1, Imported("pgti.resident:run"), paper="pgt-i"),
    Study("figure", 7, "simulated", 5, Imported("pgti.scaling:run"), paper="pgt-i"),
    Study("table", 5, "executed", 200, Imported("pgti.shuffling:run"), "scaled down, up to 4 ranks", paper="pgt-i"),
    Study("table", 1, "counted", 1, Imported("pgti.sizes:table"), paper="pgt-i"),
    Study("figure", 3, "counted", 1, Imported("pgti.sizes:growth"), paper="pgt-i"),
    Study("figure", 2, "counted", 1, Imported("pgti.stages:case_study"), paper="pgt-i"),
    Study("figure", 6, "counted", 1, Imported("pgti.stages:single_gpu"), paper="pgt-i"),
    Study("figure", 10, "simulated", 2, Imported("pgti.tokens:run"), paper="pgt-i"),
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
