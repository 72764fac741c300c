"""Rank end: how the rank of one process of several machines ended, as it is told to the first one."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from chronoscale.errors import MachineError, UserError


@dataclass(frozen=True, slots=True)
class AttachedEnd:
    """The end of a rank: well, or by a failure. order: the lower, the nearer to the cause of all others (`root_cause`).

    message: one line for the user, '' where the rank ended well. user: it is the user's mistake. certain: no other rank can have caused it.
    """

    message: str = ""
    user: bool = False
    order: int = 0
    certain: bool = False

    @classmethod
    def of(cls, error: UserError | MachineError, order: int = 1, certain: bool = True) -> AttachedEnd:
        """Return the end of a rank by an error."""
        return cls(str(error), isinstance(error, UserError), order, certain)

    @classmethod
    def lost(cls, words: str) -> AttachedEnd:
        """Return the end of a rank whose process is not heard of any more. words: which, where, for how long."""
        return cls(words, False, 0, True)

    @property
    def failed(self) -> bool:
        """Return whether the rank ended by a failure."""
        return bool(self.message)

    def error(self, host: str) -> UserError | MachineError:
        """Return the error that rank 0's command raises. host: the machine on which the rank was."""
        if self.user:
            return UserError(self.message)
        return MachineError(self.message if f" on {host} " in self.message else f"{self.message} (on {host})")

    def to_json(self) -> str:
        """Return the end as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> AttachedEnd:
        """Read an end of `to_json`."""
        return cls(**json.loads(text))
