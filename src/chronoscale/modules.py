"""Modules: the user's Python files, run once a process."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from hashlib import sha256
from importlib import util
from pathlib import Path
from types import ModuleType

from chronoscale.errors import UserError

_executed = list[str]()


def executed() -> tuple[str, ...]:
    """Return the files that this process has begun to run."""
    return tuple(_executed)


def load(file: str | Path) -> ModuleType:
    """Run the file, unless this process has. Raises UserError in one line: the file, and what went wrong."""
    path = Path(file)
    if not path.is_file():
        raise UserError(f"{file}: no such file")
    name = f"chronoscale_outside_{sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = util.spec_from_file_location(name, path)
        if spec is None:
            raise UserError(f"{file}: not a Python file")
        sys.modules[name] = module = util.module_from_spec(spec)  # known by its name while it runs, as dataclasses want
        _executed.append(str(file))
        try:
            exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)  # not as an import: Ctrl-C is heard
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            del sys.modules[name]
            raise UserError(f"{file}: not importable ({type(error).__name__}: {error})") from error
    return sys.modules[name]


def fingerprints(files: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each file."""
    return {file: sha256(Path(file).read_bytes()).hexdigest() for file in files}
