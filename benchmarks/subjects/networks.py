"""Clusters fitted to published tables of their networks, and how far the model is off on what was held out: every other size, or a table.

networks/ has a folder a system: tables as nccl-tests printed them, each with its address and date, and base.yaml, the cluster as built.

half    links fitted to every other size of a system's tables. `held out, %`: the median over the other sizes of |predicted / measured - 1|;
        `fitted, %`: over those that were fitted to; `most, %`: the largest of all. Rival: the cluster as built, with NCCL's own constants
        and what links of its kind reach (`simulator/cluster_file.py`)
table   one of a system's tables held out whole: links fitted to the others
point   a single published time, which nothing is fitted to: 64 H800 on 8 nodes, an all-to-all of 8 MiB a rank, by a cluster like `h100`
        with 200 GB/s of NVLink
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from core.case import Case, Figures, Passes, Setting, Subject

from chronoscale.simulator import presets
from chronoscale.simulator.network.measured.comparison import fit_and_compare
from chronoscale.simulator.network.measured.fit import TableError, predicted
from chronoscale.simulator.network.measured.table import MeasuredTable, Setup
from chronoscale.strategies.schedule import Op

FOLDER = Path(__file__).parents[1] / "networks"
H800_S = 0.34e-3  # all-to-all of 8 MiB a rank, 64 H800 on 8 nodes


def tables_of(system: str) -> list[Path]:
    """Return the tables of a system."""
    return sorted((FOLDER / system).glob("*.txt"))


def _percent(errors: Sequence[TableError], fitted: bool) -> float:
    sizes = np.concatenate([np.abs(error.errors[error.fitted == fitted]) for error in errors])
    return 100 * float(np.median(sizes)) if len(sizes) else float("nan")


def _figures(errors: Sequence[TableError], seconds: float) -> Figures:
    most = max(float(np.abs(error.errors).max()) for error in errors)
    known = {"held out, %": _percent(errors, False), "fitted, %": _percent(errors, True), "most, %": 100 * most}
    return {"seconds": seconds, **{name: value for name, value in known.items() if value == value}}


def half(system: str, setting: Setting) -> Passes:
    """Fit to every other size of all tables."""
    begin, base = time.perf_counter(), presets.cluster(str(FOLDER / system / "base.yaml"))
    fitting = fit_and_compare(str(FOLDER / system / "base.yaml"), tables_of(system))
    spent = time.perf_counter() - begin
    built = [replace(error, errors=predicted(base, error.table) / error.table.seconds - 1) for error in fitting.errors]
    return {"fitted": [_figures(fitting.errors, spent)], "as built": [_figures(built, 0.0)]}


def whole_table(system: str, held_out: Path, setting: Setting) -> Passes:
    """Fit to all tables but one."""
    begin = time.perf_counter()
    fitting = fit_and_compare(str(FOLDER / system / "base.yaml"), [path for path in tables_of(system) if path != held_out], [held_out])
    return {"fitted": [_figures(fitting.errors[-1:], time.perf_counter() - begin)]}


def point(setting: Setting) -> Passes:
    """Predict the published time of one all-to-all."""
    cluster = presets.cluster("h100")
    h800 = replace(cluster, intra=replace(cluster.intra, bandwidth=200e9))
    sent = np.array([8 * 2**20 * 63 // 64])
    table = MeasuredTable(Path("H800"), Op.ALLTOALL, Setup(8, 8), np.zeros(1, np.int64), sent, np.array([H800_S]))
    took = float(predicted(h800, table)[0])
    return {"preset": [{"seconds": took, "published, s": H800_S, "held out, %": 100 * abs(took / H800_S - 1)}]}


def cases(quick: bool) -> Iterator[Case]:
    """Yield systems, and tables of those that have several."""
    systems = sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())
    for system in systems[:1] if quick else systems:
        yield Case({"what": "half", "system": system}, partial(half, system))
    for system in [] if quick else systems:
        if len(several := tables_of(system)) > 1:
            for path in several:
                yield Case({"what": "table", "system": system, "held": path.stem}, partial(whole_table, system, path))
    yield Case({"what": "point", "system": "h800"}, point)


SUBJECT = Subject(cases, 1)
