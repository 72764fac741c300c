"""Membership: which rank of its job a process is, and where ranks meet, read from environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = "CHRONOSCALE_RANKS"
MEETING = "CHRONOSCALE_MEETING"
STORE = "store"


@dataclass(frozen=True, slots=True)
class Membership:
    """Membership of a process in its job: `rank` of `ranks`; `local_rank` of the `local_ranks` on this machine.

    folder: the private folder of our own launcher (`real_exec.ranks.launch`), where its ranks meet and leave records. '': another launcher,
    for instance torchrun, has set the variables that torch.distributed documents, and ranks meet where these say.
    store: of ranks on several machines (`ranks.attached`), which have a folder a rank: tcp://HOST:PORT/PREFIX of the keys by which they
    meet; '' otherwise.
    """

    rank: int = 0
    ranks: int = 1
    local_rank: int = 0
    local_ranks: int = 1
    folder: str = ""
    store: str = ""

    @classmethod
    def here(cls) -> Membership:
        """Return which rank of which job this process is; a single rank where no launcher says otherwise."""
        return cls.of(os.environ)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Membership:
        """Read a rank's membership from RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE (by default as if there were one machine)."""
        rank, ranks = int(environment.get("RANK", "0")), int(environment.get("WORLD_SIZE", "1"))
        local = int(environment.get("LOCAL_RANK", rank)), int(environment.get("LOCAL_WORLD_SIZE", ranks))
        return cls(rank, ranks, *local, environment.get(FOLDER, ""), environment.get(MEETING, ""))

    def variables(self) -> dict[str, str]:
        """Return the environment variables that tell a rank its membership."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.ranks),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_ranks),
            FOLDER: self.folder,
            MEETING: self.store,
        }

    @property
    def seat(self) -> int:
        """Return the rank's place among those that its launcher watches: of several machines, a launcher watches one rank."""
        return 0 if self.store else self.rank

    @property
    def meeting(self) -> str:
        """Return the `init_method` by which a job's ranks form torch.distributed's process group: a file that only this user can open, or
        what another launcher has set.
        """
        return f"file://{Path(self.folder) / STORE}" if self.folder else "env://"
