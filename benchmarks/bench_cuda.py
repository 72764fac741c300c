"""Kernels on graphs beyond the L2 cache beside their rivals: the part `kernels` of `make gpu`, by hand and in any size.

    python benchmarks/bench_cuda.py [--device cuda] [--nodes 4000000] [--edges 64000000] [--widths 64 128 16] [--out kernels.json]

prints a line a measurement and tables at the end; `--out` is rewritten whole as it goes. What is timed, and how: docs/gpu.md.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from gpu.kernels import Sizes, bench
from gpu.machine import machine
from gpu.record import PASSED, Record
from gpu.tables import kernels


def main() -> None:
    usual = Sizes()
    parser = argparse.ArgumentParser(description="aggregate, increment_, attention and rebuild beside their rivals")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--nodes", type=int, default=usual.nodes)
    parser.add_argument("--edges", type=int, default=usual.edges)
    parser.add_argument("--widths", type=int, nargs="+", default=usual.widths)
    parser.add_argument("--repeats", type=int, default=usual.repeats)
    parser.add_argument("--graph", choices=usual.graphs, nargs="+", default=usual.graphs)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sizes = Sizes(given.nodes, given.edges, tuple(given.widths), given.repeats, tuple(given.graph))
    with tempfile.TemporaryDirectory() as folder:
        record = Record(given.out or Path(folder) / "kernels.json", part="kernels", rehearsal=given.device == "cpu")
        record.put(machine=machine(given.device))
        bench(given.device, sizes, record)
        record.put(status=PASSED)
    print(kernels(record.data))


if __name__ == "__main__":
    main()
