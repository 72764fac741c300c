"""Terms that laws of moved bytes may have, by kind of schedule and operation: products of sizes and of flags (`count_moved.py`)."""

from __future__ import annotations

from itertools import product

from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.lowering import CARRIED
from chronoscale.strategies.streams.rows.computation import gradient_law


def crossed(sizes: str, flags: str = "1") -> list[str]:
    """Terms: every size with every flag."""
    return ["*".join(part for part in pair if part != "1") or "1" for pair in product(sizes.split(), flags.split())]


GRAPH = "edges edges*width rows rows*width nodes nodes*width"
DENSE = "rows rows*width rows*hidden width*hidden hidden"
CELL = "rows*width width*width width"
GROUPS = {
    "AGGREGATE": crossed(GRAPH), "INCREMENT": crossed(GRAPH), "RECONSTRUCT": crossed("nodes edges"),
    "COPY": crossed("rows*width rows*inputs", "1 upper lowest"),
    "TRANSFORM": crossed(DENSE) + crossed("nodes*hidden nodes rows*hidden rows", "partial"),
    "TEMPORAL": crossed(CELL, "1 first later") + crossed("nodes*width nodes hidden*width hidden"), "OPTIMIZE": crossed("parameters 1"),
    "BACKWARD": crossed(
        "nodes*hidden nodes*inputs nodes hidden*hidden inputs*hidden inputs*inputs hidden", "steps links above above*steps above*links 1"
    )
    + crossed("edges*hidden edges", "above 1") + crossed("fresh nodes*own nodes*hidden*own", "1 deep") + crossed("nodes*outputs"),
    CARRIED: crossed("rows*hidden rows*inputs rows edges edges*hidden nodes*hidden nodes inputs*hidden hidden", "1 partial"),
}  # fmt: skip
SHARED = {
    "TEMPORAL": crossed("rest*width stays*width width*width width", "first later follows*first follows*later")
    + crossed("nodes*width rest*width stays*width", "last follows*last deep deep*follows"),
    "BACKWARD": GROUPS["BACKWARD"]
    + crossed("rows*hidden stays*hidden", "1 follows leads deep")
    + crossed("stays*hidden nodes*hidden", "steps follows*steps leads*steps"),
    CARRIED: GROUPS[CARRIED],
    "TRANSFORM": crossed(DENSE) + crossed("result*hidden rows*hidden rows", "into") + crossed("rows*width rows", "gathers"),
}
CELLS = "edges edges*width edges*hidden rows rows*width rows*hidden nodes nodes*width nodes*hidden width*hidden hidden*hidden width*width"
CELLS += " hidden width"
STAGES = {
    **{name: crossed(CELLS) for name in ("AGGREGATE", "TRANSFORM")}, "TEMPORAL": crossed(CELLS, "1 first later upper"),
    "FORWARD": crossed(CELLS, "1 first later upper lowest top below"),
    "BACKWARD": crossed(CELLS, "1 first later upper lowest top top*last top*later last goes below top*goes spread"),
    "BACKWARD_TRANSFORM": crossed(CELLS, "1 upper"), "OPTIMIZE": GROUPS["OPTIMIZE"],
}  # fmt: skip
BLOCKS = {
    **STAGES,
    "AGGREGATE": crossed(CELLS, "1 cuts upper") + crossed("entries vertices", "cuts 1"),
    "TEMPORAL": crossed(CELLS, "1 first later upper joins begins anew")
    + crossed("earlier*hidden after*hidden", "1 joins later joins*begins anew")
    + crossed("rows*hidden rows earlier*hidden vertices*hidden", "ongoing anew*ongoing anew*ongoing*first joins*ongoing first*ongoing"),
    "BACKWARD": crossed(CELLS, "1 first later upper top top*last top*later last goes below top*goes spread")
    + crossed(CELLS, "stays*upper narrows joins joined anew each each*top")
    + crossed("earlier*hidden after*hidden earlier*width after*width", "1 joins joined narrows anew goes later top goes*below"),
    "REMAP": crossed("entries vertices edges rows nodes nodes*inputs rows*inputs"),
}
SENSORS = "rows*hidden rows*inputs rows nodes*nodes hidden*hidden inputs*hidden edges edges*batch*hidden edges*batch*inputs rows*heads"
STEPS = "1 window horizon above hops window*above horizon*above window*hops horizon*hops window*above*hops horizon*above*hops above*hops"
WINDOWS = crossed(SENSORS, STEPS) + crossed("rows*horizon rows*window rows*hidden rows", "later") + crossed("nodes*hidden parameters 1")
DROPPED = "dropout dropout*first above*dropout above*dropout*first"
WINDOWS += crossed("rows*hidden*calendar", f"1 above {DROPPED}") + crossed("rows*hidden", DROPPED)
WINDOWS += crossed("rows*hidden*spans rows*spans edges*batch*hidden*spans", "1 hops dropout dropout*first")
WINDOWS += crossed("hidden*hidden*calendar rows*calendar", "1 above") + crossed("times*hidden", "calendar")
SIGNALS = dict.fromkeys(("FORWARD", "BACKWARD"), WINDOWS) | {"OPTIMIZE": GROUPS["OPTIMIZE"]}
SLOTS = "rows rows*hidden rows*width rows*heads*width rows*heads*time rows*heads*slot rows*time rows*heads*hidden rows*heads edges"
SLOTS += " edges*width edges*time edges*slot edges*heads edges*heads*width edges*heads*time edges*heads*slot nodes*width width*hidden"
SLOTS += " hidden*hidden time*hidden slot*hidden filled filled*width filled*time filled*slot filled*heads filled*heads*width"
SLOTS += " filled*heads*time filled*heads*slot"
LAYERS = crossed(SLOTS) + crossed(
    "edges*time edges*heads filled*heads filled*time rows*width edges*width", "log both dropout first*dropout upper"
)
LAYERS += crossed("nodes*given nodes*hidden nodes*width rows*width edges*width filled*width given*hidden", "features*lowest")
LAYERS += crossed("rows*patches*hidden rows*patches*hidden*beside rows*places rows*places*time rows*places*width rows*places*slot")
LAYERS += crossed("width*hidden*patch time*hidden*patch slot*hidden*patch")
LAYERS += crossed("edges*hidden rows*hidden", "dropout first*dropout") + crossed("edges*hidden")
UPDATE = crossed("rows rows*hidden rows*mail rows*time rows*given hidden*hidden hidden*mail hidden*time", "1")
UPDATE += crossed(
    "rows*mails*mail rows*mails*heads rows*mails*heads*mail rows*heads*mail rows*heads*hidden rows*mails", "1 dropout first*dropout"
)
ROOTS = crossed(
    "1 rows rows*hidden hidden*hidden rows*outputs rows*given hidden given*hidden rows*hidden*windows rows*heads*windows", "1 later"
)
ROOTS += crossed("rows rows*hidden hidden*hidden", "features")
ROOTS += crossed("rows*patches*hidden rows*patches*hidden*beside rows*patches*patches*heads")
ROOTS += crossed("rows*places rows*places*places rows*places*hidden")
ROOTS += crossed("rows*patches*hidden rows*patches*hidden*beside rows*patches*patches*heads", "dropout first*dropout")
ROOTS += crossed("hidden*hidden*beside hidden*hidden*patch places*hidden places*hidden*patch rows*hidden*beside")
ROOTS += crossed("rows*heads*windows*windows rows*hidden*windows", "1 dropout first*dropout")
EVENTS = {
    "AGGREGATE": LAYERS, "MEMORY_UPDATE": UPDATE, "FORWARD": ROOTS, "OPTIMIZE": GROUPS["OPTIMIZE"],
    gradient_law(Op.AGGREGATE): LAYERS, gradient_law(Op.MEMORY_UPDATE): UPDATE, gradient_law(Op.FORWARD): ROOTS,
}  # fmt: skip
TERMS = {"groups": GROUPS, "shared": SHARED, "snapshots": STAGES, "parts": STAGES, "blocks": BLOCKS, "windows": SIGNALS, "events": EVENTS}
ENDS = {
    "groups": ("BACKWARD", CARRIED),
    "shared": ("BACKWARD", CARRIED),
    "events": tuple(name for name in EVENTS if name.endswith("_GRADIENT")),
}  # laws of BACKWARD
