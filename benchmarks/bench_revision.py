"""The CPU kernels beside those of an earlier revision: two processes that take turns, in one run.

    python benchmarks/bench_revision.py REVISION [--scripts bench_aggregate bench_attention] [--graphs dense] [--repeats 11] [--threads 1 2]

checks the revision out into `build/revisions`, builds its CPU library there, and prints, for each call that both revisions of a script
time, the median over turns of the ratio of both times (earlier / now), with half of its interquartile range: above 1, now is quicker.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def built(revision: str) -> Path:
    """The revision's tree, its library in it."""
    name = subprocess.run(["git", "rev-parse", "--short", f"{revision}^{{commit}}"], cwd=ROOT, check=True, capture_output=True, text=True)
    tree = ROOT / "build" / "revisions" / name.stdout.strip()
    if not (tree / "lib" / "libchronoscale_cpu.so").exists():
        tree.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x"], cwd=tree, input=archive.stdout, check=True)
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DCHRONOSCALE_CUDA=OFF", f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={tree / 'lib'}"]
        subprocess.run(["cmake", "-S", tree, "-B", tree / "made", *options], check=True, stdout=sys.stderr)
        subprocess.run(["cmake", "--build", tree / "made", "-j", "2"], check=True, stdout=sys.stderr)
    return tree


@contextmanager
def worker(tree: Path) -> Iterator[subprocess.Popen[str]]:
    """A worker on that tree. An editable install's import hook comes before every path: without `site` (-S) there is none,
    nor is this script's own folder among the paths (-P)."""
    paths = [str(tree / "src"), str(tree / "benchmarks"), *(path for path in sys.path if Path(path).name == "site-packages")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "CHRONOSCALE_LIBRARY_DIR": str(tree / "lib")}
    command = [sys.executable, "-S", "-P", str(ROOT / "benchmarks" / "revision_worker.py")]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ask(process: subprocess.Popen[str], case: tuple[str, str, Any, int]) -> dict[str, float]:
    print(json.dumps(case), file=process.stdin, flush=True)
    return json.loads(process.stdout.readline())  # type: ignore[no-any-return, union-attr]


def in_turn(
    first: subprocess.Popen[str], second: subprocess.Popen[str], case: tuple[str, str, Any, int], swapped: bool
) -> tuple[dict[str, float], dict[str, float]]:
    if swapped:
        later = ask(second, case)
        return ask(first, case), later
    return ask(first, case), ask(second, case)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("revision")
    parser.add_argument("--scripts", nargs="*", default=["bench_aggregate", "bench_attention"])
    parser.add_argument("--graphs", nargs="*", help="all of a script's by default")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    options = parser.parse_args()
    before, now = built(options.revision), built("HEAD")
    print(f"{now.name} beside {before.name}; earlier / now, median of {options.repeats} turns (half of the interquartile range)\n")
    print("| script | graph | F | threads | call | now, ms | earlier / now |\n|---|---|---|---|---|---|---|")
    with worker(before) as first, worker(now) as second:
        for script in options.scripts:
            module = importlib.import_module(script)
            cases = [(script, g, w, t) for g in options.graphs or module.GRAPHS for w in module.WIDTHS for t in options.threads]
            for case in cases:
                ask(first, case), ask(second, case)  # the first call makes the operands
                turns = [in_turn(first, second, case, turn % 2 == 1) for turn in range(options.repeats)]
                for call in sorted(turns[0][0].keys() & turns[0][1].keys()):
                    low, middle, high = statistics.quantiles([earlier[call] / later[call] for earlier, later in turns], n=4)
                    spent = statistics.median(later[call] for _, later in turns) * 1e3
                    print(
                        "|", *(f"{cell} |" for cell in (*case, call, f"{spent:.3f}", f"{middle:.2f} (±{(high - low) / 2:.2f})")), flush=True
                    )


if __name__ == "__main__":
    main()
