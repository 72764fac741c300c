"""The ways a command ends badly, and the warning that must never pass unseen."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """The input is wrong. One line: what, where, what was expected. Exit code 2."""


class NotFiniteError(UserError):
    """Training came to a number that is not finite: which, where and when. Ranks end with code 3, commands with 2."""


class MachineError(Exception):
    """The machine failed: a full disk, a lost worker, too little memory. Exit code 1."""


class ChronoscaleWarning(UserWarning):
    """A result stands, but not on the ground the user would assume (reference kernels, wide spread, extrapolation)."""


def unknown(kind: str, name: str, valid: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(valid)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"valid: {', '.join(names)}"
    return UserError(f"unknown {kind} '{name}'; {hint}")
