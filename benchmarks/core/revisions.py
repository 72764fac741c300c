"""Two commits side by side: each measures with its own sources, native library and benchmarks, in processes that take turns."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from chronoscale.errors import UserError
from core.result import Entry, Result

ROOT = Path(__file__).parents[2]
LIBRARY = "libchronoscale_cpu.so"


def build(revision: str) -> Path:
    """Return the tree of a commit under build/revisions, its CPU library compiled. Raises UserError for what has no such benchmarks."""
    named = subprocess.run(["git", "rev-parse", "--short", f"{revision}^{{commit}}"], cwd=ROOT, capture_output=True, text=True)
    if named.returncode:
        raise UserError(f"'{revision}' is neither a result nor a commit")
    tree = ROOT / "build" / "revisions" / named.stdout.strip()
    if not (tree / "lib" / LIBRARY).exists():
        tree.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x"], cwd=tree, input=archive.stdout, check=True)
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DCHRONOSCALE_CUDA=OFF", f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={tree / 'lib'}"]
        subprocess.run(["cmake", "-S", tree, "-B", tree / "made", *options], check=True, stdout=sys.stderr)
        subprocess.run(["cmake", "--build", tree / "made", "-j", "2"], check=True, stdout=sys.stderr)
    if not (tree / "benchmarks" / "core").exists():
        raise UserError(f"{revision} is older than benchmarks/core: it has no subjects")
    return tree


def measure(trees: Sequence[Path], words: Sequence[str], turns: int) -> list[Result]:
    """Run a subject in both trees by turns, who begins by turns too, and return a result each, with the passes of all turns."""
    found: list[list[Result]] = [[] for _ in trees]
    for turn in range(turns):
        for place in range(len(trees)) if turn % 2 == 0 else reversed(range(len(trees))):
            found[place].append(_once(trees[place], words))
    return [_joined(results) for results in found]


def _once(tree: Path, words: Sequence[str]) -> Result:
    """Run in a process of its own. An editable install's import hook comes before every path; without `site` (-S) there is none."""
    paths = [str(tree / "src"), str(tree / "benchmarks"), *(path for path in sys.path if Path(path).name == "site-packages")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "CHRONOSCALE_LIBRARY_DIR": str(tree / "lib")}
    out = tree / "result.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, "-S", "-P", str(tree / "benchmarks"), *words, "--out", str(out)]
    subprocess.run(command, env=environment, check=True, stdout=sys.stderr)
    result = Result.load(out)
    result.environment = {**result.environment, "commit": tree.name}  # git would name that of the folder above
    return result


def _joined(results: Sequence[Result]) -> Result:
    """Return the last result with the passes of all of them."""
    for number, entry in enumerate(results[-1].entries):
        several = [result.entries[number].figures for result in results]
        figures = {key: [value for figures in several for value in figures[key]] for key in entry.figures}
        results[-1].entries[number] = Entry(entry.case, entry.parameters, entry.contestant, figures)
    return results[-1]
