"""Benchmarks: `python benchmarks SUBJECT`, `python benchmarks list`, `python benchmarks compare A B`; benchmarks/README.md."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from core import listing


def parser() -> argparse.ArgumentParser:
    """Return the only parser of the benchmarks."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("subject", help="a subject, `list`, or `compare`")
    words = "filter of cases, KEY=VALUE[,VALUE] or a part of a name; of `compare` two results, or two commits, a subject and its filter"
    parser.add_argument("words", nargs="*", help=words)
    parser.add_argument("--quick", action="store_true", help="smallest cases, one pass: whether it runs, not how fast")
    parser.add_argument("--repeats", type=int, help="passes of every case; of two commits, turns")
    parser.add_argument("--threads", type=int, default=1, help="of torch and the native kernels (default: 1)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where kernels and models run (default: cpu)")
    parser.add_argument("--save", action="store_true", help="keep the result as results/benchmarks/SUBJECT-DEVICE.json")
    parser.add_argument("--out", type=Path, help="keep the result in this file")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code: 1 where a case failed, 2 for a request that cannot be met."""
    options = parser().parse_intermixed_args(arguments)
    if options.subject == "list":
        print(*listing.lines(), sep="\n")
        return 0
    from core import command  # noqa: PLC0415 (imports torch, which a list does without)

    return command.run(options)


if __name__ == "__main__":
    raise SystemExit(main())
