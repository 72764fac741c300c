"""Outside: strategies from files and from installed packages, taken only if they are whole."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from importlib import metadata
from pathlib import Path

from chronoscale import modules
from chronoscale.errors import UserError
from chronoscale.strategies.strategy import Strategy

SUFFIX = ".py:"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9.+_-]*")
NEEDED = ("name", "title", "source", "family", "kind")


def is_file(name: str) -> bool:
    """Whether a strategy is named by its file, as in `my_lab.py:Mine`."""
    return SUFFIX in name


def anchored(name: str, folder: Path) -> str:
    """The same, its file absolute; a relative one is relative to `folder`."""
    return f"{(folder / file_of(name)).absolute()}:{name.rpartition(':')[2]}" if is_file(name) else name


def file_of(name: str) -> str:
    """Of a strategy that is named by its file."""
    return name.rpartition(":")[0]


def of_file(name: str, taken: Collection[str]) -> Strategy:
    """The strategy `FILE.py:NAME`, a class that needs no arguments or an instance. The file is run, once a process.

    Raises UserError in one line: the file, and what is missing or wrong.
    """
    file, attribute = file_of(name), name.rpartition(":")[2]
    module = modules.load(file)
    if not hasattr(module, attribute):
        there = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__ and _is_strategy(value)]
        raise UserError(f"{file}: no '{attribute}' in it; strategies there: {', '.join(there) or 'none'}")
    found = whole(getattr(module, attribute), name)
    if found.name in taken:
        raise UserError(f"{file}: '{attribute}' is called '{found.name}', and that name is taken")
    if found.solves:
        raise UserError(f"{file}: '{attribute}' sets `solves`, which needs a process of its own: install it as a package")
    return found


def _is_strategy(value: object) -> bool:
    return isinstance(value, Strategy) or (inspect.isclass(value) and issubclass(value, Strategy))


def of_package(entry: metadata.EntryPoint) -> Strategy:
    """The strategy of an entry point. Raises UserError in one line: the entry point, and what is missing or wrong."""
    where = f"strategy '{entry.name}' ({entry.value})"
    try:
        loaded = entry.load()
    except Exception as error:  # whatever the package raises
        raise UserError(f"{where}: not importable ({type(error).__name__}: {error})") from error
    found = whole(loaded, where)
    if found.name != entry.name:
        raise UserError(f"{where}: its name is '{found.name}', not the entry point's")
    return found


def whole(found: object, where: str) -> Strategy:
    """What was found, as a strategy. Raises UserError naming what it lacks."""
    if inspect.isclass(found):
        if issubclass(found, Strategy) and (absent := sorted(found.__abstractmethods__)):
            raise UserError(f"{where}: has no {', '.join(f'`{name}`' for name in absent)}")
        try:
            found = found()
        except TypeError as error:
            raise UserError(f"{where}: a strategy is an instance, or a class that needs no arguments ({error})") from error
    if not isinstance(found, Strategy):
        raise UserError(f"{where}: not a Strategy but {type(found).__name__}; derive it from `chronoscale.strategies.strategy.Strategy`")
    if lacking := [name for name in NEEDED if not isinstance(getattr(found, name, None), str)]:
        raise UserError(f"{where}: has no {', '.join(f'`{name}`' for name in lacking)}")
    if not NAME.fullmatch(found.name):
        raise UserError(f"{where}: its name '{found.name}' becomes that of files: letters, digits and .+-_ alone")
    return found
