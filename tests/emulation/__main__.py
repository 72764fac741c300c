"""The contract suite on emulated kernels under the address and undefined-behaviour sanitizers: `python tests/emulation [ARGUMENT OF
PYTEST …]`. Ends as pytest does; a sanitizer's finding ends it at once, with the line of the kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)  # tests/, as pytest has it

from emulation import sanitizer  # noqa: E402 (after the path)

CHOSEN = "emulated and not thousand or cases or no_order"  # the long runs call no kernel that others do not

WITHOUT = ("-p", "no:faulthandler", "-p", "no:budget")  # all is dear under a sanitizer


def main() -> int:
    if not sanitizer.libraries():
        print("no C++ compiler with libasan", file=sys.stderr)
        return 2
    # -s: what a sanitizer says would otherwise end with pytest, which keeps it.
    command = [sys.executable, "-m", "pytest", "-s", "-x", *WITHOUT, str(HERE.parent / "cuda_ext"), "-k", CHOSEN, *sys.argv[1:]]
    return subprocess.run(command, env=sanitizer.environment(), cwd=HERE.parents[1]).returncode


if __name__ == "__main__":
    sys.exit(main())
