"""Which faults to judge, and in what order."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from anchor import Unfit
from fault import Fault, read

PACKAGE, FAULTS = "src/chronoscale/", "tests/mutants/faults/"


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    if done.returncode:
        raise Unfit(f"git {words[0]}: {done.stderr.strip() or 'no such thing'}")
    return done.stdout


def base_of(root: Path) -> str:
    """The merge base with main; HEAD where there is no such branch."""
    try:
        return _git(root, "merge-base", "HEAD", "main").strip()
    except Unfit:
        return "HEAD"


def changed(faults: list[Fault], root: Path, revision: str) -> list[Fault]:
    """Those whose file, tests or own words the working tree changes against a revision."""
    files = {*_git(root, "diff", "--name-only", revision).split("\n"), *_git(root, "ls-files", "-o", "--exclude-standard").split("\n")}
    before = {}
    for path in (name for name in files if name.startswith(FAULTS)):
        try:
            text = _git(root, "show", f"{revision}:{path}")
        except Unfit:
            continue
        try:
            before.update({fault.name: fault for fault in read(text)})
        except TypeError:
            continue  # written in another form by then
    own = {fault.name for path in files if path.startswith(FAULTS) and (root / path).exists() for fault in read((root / path).read_text())}

    def touched(fault: Fault) -> bool:
        tests = any(
            any(file == (at := test.partition("::")[0]) or file.startswith(f"{at}/") for file in files) for test in fault.tests.split()
        )
        return PACKAGE + fault.file in files or tests or (fault.name in own and before.get(fault.name) != fault)

    return [fault for fault in faults if touched(fault)]


def drawn(faults: list[Fault], seed: str) -> list[Fault]:
    """The faults in an order that a text draws, the same on every machine."""
    return sorted(faults, key=lambda fault: hashlib.sha256(f"{seed} {fault.name}".encode()).digest())
