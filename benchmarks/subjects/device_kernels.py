"""The kernels on graphs beyond the L2 cache beside their rivals and a copy of the same size: the part `kernels` of `make gpu`, by hand.

On a GPU where there is one. What is timed, and how: docs/gpu.md. A pass is the median of the part's own interleaved repeats.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch
from core.case import Case, Passes, Setting, Subject
from gpu.kernels import REHEARSED, Sizes, bench
from gpu.record import Record

KEYS = ("whole", "changes", "attention", "rebuild")


def measure(device: str, sizes: Sizes, setting: Setting) -> Passes:
    """Run the part, and return each kernel of each row as a contestant."""
    record = Record(setting.scratch / "kernels.json", part="kernels", rehearsal=device == "cpu")
    bench(device, sizes, record)
    passes: dict[str, list[dict[str, float]]] = {}
    for key in KEYS:
        for row in record.data.get(key, []):
            share = f", {row['share']:.1%} changed" if "share" in row else ""
            for who, one in row["times"].items():
                if "ms" in one:
                    of_copy = {"of a copy": row["of_copy"][who]} if who in row.get("of_copy", {}) else {}
                    passes[f"{key}{share}: {who}"] = [{"seconds": one["ms"] / 1e3, "spread": one["spread"], **of_copy}]
    return passes


def cases(quick: bool) -> Iterator[Case]:
    """Yield graphs by widths; the first width has crossovers and rebuilding, too."""
    device = "cuda" if torch.cuda.is_available() and not quick else "cpu"
    usual = Sizes(nodes=60, edges=300, widths=(8,), repeats=2, graphs=("uniform",)) if quick else Sizes() if device == "cuda" else REHEARSED
    for graph, width in product(usual.graphs, usual.widths):
        sizes = Sizes(usual.nodes, usual.edges, (width,), usual.repeats, (graph,))
        yield Case({"device": device, "graph": graph, "width": width}, partial(measure, device, sizes))


SUBJECT = Subject(cases, 1, ("triton", "torch_geometric", "dgl"))
