"""Plug-ins: strategies from files and from installed packages, accepted only if they are complete."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Collection
from importlib import metadata
from pathlib import Path

from chronoscale import modules
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.strategies.strategy import Strategy

SUFFIX = ".py:"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9.+_-]*")
PREPARE = "-prepare"  # what happens once before a strategy's first epoch goes by its name and this


def names_file(name: str) -> bool:
    """Return whether an experiment names its strategy or model by file and class, as `my_lab.py:Mine`, and not by a registered name."""
    return SUFFIX in name


def anchor_file(name: str, folder: Path) -> str:
    """Return the name of a strategy or model with its file's path made absolute, a relative one from `folder`; names without a file as they
    are."""
    return change_file(name, lambda file: str((folder / file).absolute()))


def change_file(name: str, change: Callable[[str], str]) -> str:
    """Return the name of a strategy or model with its file's path changed; names without a file as they are."""
    return f"{change(file_of(name))}:{title_of(name)}" if names_file(name) else name


def title_of(name: str) -> str:
    """Return what people read for the name of a strategy or model: the class alone, where it is named by its file."""
    return name.rpartition(":")[2] if names_file(name) else name


def file_of(name: str) -> str:
    """Return the path part of a strategy or model that is named by its file: `my_lab.py` of `my_lab.py:Mine`."""
    return name.rpartition(":")[0]


def load_file(name: str, names_in_use: Collection[str]) -> Strategy:
    """Load the user's strategy `FILE.py:NAME`: a class that needs no arguments, or an instance. The file is run once a process.

    names_in_use: names of other strategies, which it must not have. Raises UserError in one line: the file, and what is missing or wrong.
    """
    file, attribute = file_of(name), name.rpartition(":")[2]
    module = modules.load(file)
    if not hasattr(module, attribute):
        names = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__ and _is_strategy(value)]
        raise UserError(f"{file}: no '{attribute}' in it; strategies there: {', '.join(names) or 'none'}")
    loaded = require_complete(getattr(module, attribute), name)
    if loaded.name in names_in_use:
        raise UserError(f"{file}: '{attribute}' is called '{loaded.name}', and that name is taken")
    if loaded.solves:
        raise UserError(f"{file}: '{attribute}' sets `solves`, which needs a process of its own: install it as a package")
    return loaded


def _is_strategy(value: object) -> bool:
    """Return whether an object is a strategy, or a class of strategies."""
    return isinstance(value, Strategy) or (inspect.isclass(value) and issubclass(value, Strategy))


def load_entry_point(entry: metadata.EntryPoint) -> Strategy:
    """Load a strategy that an installed package offers as an entry point. Raises UserError in one line: the entry point, and what is
    missing or wrong."""
    where = f"strategy '{entry.name}' ({entry.value})"
    try:
        loaded = entry.load()
    except (Exception, SystemExit) as error:  # whatever the package raises
        raise UserError(f"{where}: not importable ({type(error).__name__}: {error})") from error
    planner = require_complete(loaded, where)
    if planner.name != entry.name:
        raise UserError(f"{where}: its name is '{planner.name}', not the entry point's")
    return planner


def require_complete(loaded: object, where: str) -> Strategy:
    """Check that an object loaded from a user's file or package is a strategy with all that one needs, and return it, an instance where a
    class was loaded. where: what messages call it. Raises UserError naming what it lacks."""
    try:
        return _require_complete(loaded() if inspect.isclass(loaded) and not _missing_methods(loaded) else loaded, where)
    except UserError:
        raise
    except Exception as error:  # of the user's class: how it is made, or what it says of itself
        raise UserError(
            f"{where}: a strategy is an instance, or a class that needs no arguments ({type(error).__name__}: {error})"
        ) from error


def _missing_methods(kind: type) -> list[str]:
    """Return the abstract methods that a class has not defined."""
    return sorted(getattr(kind, "__abstractmethods__", ())) if issubclass(kind, Strategy) else []


def _require_complete(loaded: object, where: str) -> Strategy:
    """Return a loaded object as a strategy. Raises UserError naming what it lacks, and warns of names that have changed."""
    absent = _missing_methods(loaded) if inspect.isclass(loaded) else []
    if not isinstance(loaded, Strategy) and not absent:
        raise UserError(f"{where}: not a Strategy but {type(loaded).__name__}; derive it from `chronoscale.strategies.strategy.Strategy`")
    if isinstance(loaded, Strategy):
        annotated = {name for kind in type(loaded).__mro__ for name in vars(kind).get("__annotations__", ())}
        absent = [name for name in sorted(annotated) if getattr(loaded, name, None) is None]
        if loaded.prepares and type(loaded).prepare is Strategy.prepare:
            absent.append("prepare")
    if absent:
        raise UserError(f"{where}: has no {', '.join(f'`{name}`' for name in absent)}")
    assert isinstance(loaded, Strategy)
    if (incremental := getattr(loaded, "streams", None)) is not None:
        warnings.warn(f"{where}: `streams` has become `plans_incrementally`; write that", ChronoscaleWarning, stacklevel=2)
        type(loaded).plans_incrementally = incremental
    if not NAME.fullmatch(loaded.name) or loaded.name.endswith(PREPARE):
        raise UserError(
            f"{where}: its name '{loaded.name}' becomes that of files: letters, digits and .+-_ alone, and no '{PREPARE}' at its end"
        )
    return loaded
