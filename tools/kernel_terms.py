"""Terms that laws of kernels may have, by kind of schedule: products of sizes and of flags (`count_kernels.py`)."""

from __future__ import annotations

from itertools import product

ROWS = ["1", "upper", "later", "partial", "spread"]
CELLS = ["1", "upper", "later", "last", "top", "spread", "upper*spread", "top*last", "upper*top", "last*spread", "later*spread"]
CELLS += ["top*later"]
BLOCKS = [*CELLS, "joins", "cuts", "routed", "joined", "narrows", "begins", "anew", "each", "joins*begins", "later*begins", "cuts*spread"]
BLOCKS += ["anew*later", "anew*begins", "anew*joins", "anew*later*begins", "each*top", "each*top*last", "joins*top", "joins*last"]
BLOCKS += ["joined*top", "narrows*top", "stays*upper*top", "joins*top*last", "top*begins", "top*later*begins", "anew*joins*begins"]
BACKWARD = ["1", "above", "steps", "own", "steps*above", "own*deep", "above*deep"]  # of a group
SHARING = [*BACKWARD, "deep", "steps*deep", "follows", "leads", "follows*deep", "leads*deep", "follows*steps", "leads*steps"]  # groups
SHARING += ["follows*steps*deep", "leads*steps*deep", "leads*own", "leads*own*deep", "above*follows", "above*leads"]
SHARED_ROWS = ["1", "later", "follows", "last", "deep", "follows*later", "follows*last", "follows*deep", "last*deep", "follows*last*deep"]
SHARED_ROWS += ["into"]
LOADED = ["carried", "changed", "brought", "carried*deep", "changed*deep"]  # and of the snapshots that it ends
WINDOWS = ["1", "later", "spread", "window", "horizon", "layers", "hops", "window*layers", "horizon*layers", "window*hops", "horizon*hops"]
WINDOWS += [
    "layers*hops",
    "window*layers*hops",
    "horizon*layers*hops",
    "dropout",
    "layers*dropout",
    "later*dropout",
    "layers*later*dropout",
]
SLOTS = ("1", "beside", "edges", "log", "gaps", "both", "edges*both", "parted")  # of a tree's levels
SLOTS += ("dropout", "later*dropout", "beside*dropout", "beside*later*dropout", "parted*dropout", "parted*later*dropout")
TREES = product(("1", "above", "upper"), ("1", "windows"), SLOTS)
HOW = ("1", "cached", "compressed", "cached*compressed", "changing", "named")
FROM = product(("1", "above"), ("1", "windows"), ("1", "features", "edges", "features*edges"), HOW)
LOADED_EVENTS = ["*".join(part for part in term if part != "1") or "1" for term in FROM]
EVENTS = ["*".join(part for part in term if part != "1") or "1" for term in TREES]
EVENTS += ["later", "spread", "present", "features", "features*edges", "upper*features", "named"]
