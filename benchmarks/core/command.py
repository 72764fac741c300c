"""Command: a subject measured, or results compared, as the command line asks."""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from pathlib import Path

import torch

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.errors import UserError
from core import case, revisions, table
from core.compare import compare
from core.result import Result, measure

RESULTS = Path(__file__).resolve().parents[2] / "results" / "benchmarks"


def run(options: argparse.Namespace) -> int:
    """Measure a subject or compare results; the exit code: 1 where a case failed, 2 for a request that cannot be met."""
    try:
        if options.subject == "compare":
            _compare(options)
            return 0
        return _run(options)
    except UserError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    """Measure the chosen cases; the file is whole after every one. A case that fails costs no other."""
    subject, failed = case.load(options.subject), list[str]()
    cases = subject.cases_on(options.device, options.quick)
    chosen = [one for one in cases if one.matches(options.words)]
    if not chosen:
        names = "; ".join(one.name for one in cases)
        raise UserError(f"no case of '{options.subject}' matches '{' '.join(options.words)}'; there are: {names}")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise UserError("no CUDA device: torch.cuda.is_available() is false")
    repeats = options.repeats or (1 if options.quick else subject.repeats)
    torch.set_num_threads(options.threads)
    set_threads(options.threads)
    result = Result.begin(options.subject, options.threads, subject.packages, options.device)
    out = options.out or (RESULTS / f"{options.subject}-{options.device}.json" if options.save else None)
    print(", ".join(f"{key} {value}" for key, value in result.environment.items()), f"\n\n{table.head()}", flush=True)
    for one in chosen:
        try:
            with tempfile.TemporaryDirectory() as scratch:
                passes = measure(options.subject, one, case.Setting(repeats, options.threads, Path(scratch), options.device))
        except UserError:
            raise
        except Exception:
            traceback.print_exc()
            failed.append(one.name)
            continue
        print("\n".join(table.rows(result.add(one, passes))), flush=True)
        if out is not None:
            result.save(out)
    if failed:
        print(f"benchmarks: {len(failed)} of {len(chosen)} cases failed: {'; '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def _compare(options: argparse.Namespace) -> None:
    """Compare two results, or measure and compare two commits."""
    if len(options.words) < 2:
        raise UserError("compare takes two results, or two commits and a subject")
    first, second, *words = options.words
    if Path(first).is_file() and Path(second).is_file():
        results = [Result.load(Path(first)), Result.load(Path(second))]
    elif not words:
        raise UserError(f"'{first}' and '{second}' are not two files; of two commits a subject has to be named, too")
    else:
        named = [*words, "--threads", str(options.threads), *(["--quick"] if options.quick else ["--repeats", "3"])]
        results = revisions.measure([revisions.build(first), revisions.build(second)], named, options.repeats or 5)
    print("\n".join(compare(*results)))
