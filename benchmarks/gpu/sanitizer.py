"""Part sanitizer: compute-sanitizer's memcheck and racecheck on the tests of hubs. A rehearsal runs the tests without it."""

from __future__ import annotations

import re
import subprocess

from core.nvidia import tool

from gpu.build import LIBRARIES
from gpu.child import CUT_OFF, Failed, exit_code
from gpu.child import run as run_command
from gpu.contracts import PYTEST
from gpu.place import ROOT, Place, part_arguments

TOOLS = ("memcheck", "racecheck")
SECONDS = 100  # of a tool
HIT = 9  # exit code of the sanitizer where it found something
FILTERS = ("--kernel-name", "--kernel-regex", "--filter")  # one option, by its name in ever older releases
QUIET = "--report-api-errors"  # torch asks CUDA for what may not be there, and takes a no for an answer


def run(place: Place) -> None:
    """Run the tests under each tool. Raises Failed for what a tool finds, and where it did not come to its summary."""
    sanitizer = tool("compute-sanitizer")
    if sanitizer is None and not place.rehearsal:
        raise Failed("compute-sanitizer is not there")
    names = kernels((place.libraries / LIBRARIES[1]).read_bytes())
    watched = [] if sanitizer is None or place.rehearsal else [sanitizer, "--error-exitcode", str(HIT), *_options(sanitizer, names)]
    environment = {**place.environment(), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # in torch's cache nothing would be out of bounds
    tests = [*PYTEST, "tests/cuda_ext/test_hubs.py", "-k", place.device]
    wrong = []
    for check in TOOLS if watched else ["none"]:
        under = [*watched, "--tool", check] if watched else []
        code, printed = run_command([*under, *tests], environment, place.work / "sanitizer", SECONDS)
        print(f"{check}: code {code}\n\n```\n{printed[-6000:]}\n```", flush=True)
        if why := complaint(code, printed, bool(under)):
            wrong.append(f"{check}: {why}")
    if wrong:
        raise Failed("; ".join(wrong))


def kernels(library: bytes) -> list[str]:
    """Return every kernel of the sources, as it stands in mangled names: with its length before it, "13gather_kernel", which no kernel of
    torch's has.

    Raises Failed where the built library has one under another name: a filter for it would let everything pass.
    """
    sources = (ROOT / "src/chronoscale/cuda_ext/csrc/cuda").iterdir()
    kernels = {name for path in sources for name in re.findall(r"__global__\s[^;{(]*(?:\([^)]*\)\s*)?\b(\w+)\(", path.read_text())}
    names = sorted(f"{len(name)}{name}" for name in kernels)
    if absent := [name for name in names if name.encode() not in library]:
        raise Failed(f"{LIBRARIES[1]} has no kernel named {', '.join(absent)}, but the sources do")
    return names


def _options(sanitizer: str, names: list[str]) -> list[str]:
    """Return what keeps the tools to our kernels, of the options that this release has, and print which."""
    known = subprocess.run([sanitizer, "--help"], capture_output=True, text=True, check=False, timeout=30).stdout
    options = chosen(known, names)
    print(f"kept to our kernels: {len(options) > 2 * (QUIET in options)}; API errors left out: {QUIET in options}")
    return options


def chosen(known: str, names: list[str]) -> list[str]:
    """Return the options that a release has; `known`: what --help prints."""
    options = set(re.findall(r"--[\w-]+", known))
    option = next((one for one in FILTERS if one in options), None)
    quiet = [QUIET, "no"] if QUIET in options else []
    return quiet + [word for name in names if option for word in (option, f"kns={name}")]


def complaint(code: int, printed: str, watched: bool) -> str:
    """Return what is wrong with a run of the tests; '' for a sound one: every test passed, and the tool found nothing."""
    if code == CUT_OFF:
        return f"cut off after {SECONDS} seconds"
    summary = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", printed)
    if watched and (summary is None or not re.match(r"0 (errors|hazards)\b", summary[1])):
        return summary[1] if summary else f"no summary, code {code}: {printed.strip()[-300:]}"
    return "" if code == 0 and " passed" in printed else f"code {code}: {printed.strip()[-300:]}"


if __name__ == "__main__":
    raise SystemExit(exit_code(lambda: run(part_arguments()[0])))
