"""Starter: what torchrun, srun or mpirun, which started this command, says of its processes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from chronoscale.errors import UserError
from chronoscale.real_exec.ranks.membership import FOLDER

# By starter: variables of rank, ranks, local rank, ranks of this machine.
_VARIABLES = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
    "mpirun": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
}


@dataclass(frozen=True, slots=True)
class Starter:
    """Another launcher that has started this command in several processes: `name`, and which of them this one is.

    rank of `ranks`; local_rank of `local_ranks` on this machine. host, port: where they meet. hosts_store: rank 0 has to listen there; else
    the launcher does. run: tells runs that meet at one place apart.
    """

    name: str
    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    host: str
    port: int
    hosts_store: bool
    run: str

    @classmethod
    def here(cls) -> Starter | None:
        """Return the launcher that has started this process in several; None where the command was started alone. Raises as `of`."""
        return cls.of(os.environ)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Starter | None:
        """Read the launcher from environment variables; None for a command started alone, and for a rank of our own launcher.

        Raises UserError, one line, for values that are missing or malformed.
        """
        if environment.get(FOLDER):
            return None
        for name, variables in _VARIABLES.items():
            if variables[0] in environment and environment.get(variables[1], "1") != "1":
                rank, ranks, local_rank, local_ranks = (_number(environment, variable, name) for variable in variables)
                if not (0 <= rank < ranks and 0 <= local_rank < local_ranks <= ranks):
                    raise UserError(f"{name}: rank {rank} of {ranks}, on this machine {local_rank} of {local_ranks}, cannot be")
                if not environment.get("MASTER_ADDR"):
                    raise UserError(f"{name}: MASTER_ADDR is not set; set it, and MASTER_PORT, to where the first machine listens")
                run = f"{environment.get('TORCHELASTIC_RUN_ID', '')}/{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}"
                hosts = rank == 0 and environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
                port = _number(environment, "MASTER_PORT", name)
                return cls(name, rank, ranks, local_rank, local_ranks, environment["MASTER_ADDR"], port, hosts, run)
        return None

    def local_of(self, ranks: int) -> int:
        """Return how many of the first `ranks` processes are on this machine, where a launcher numbers them machine by machine."""
        return max(0, min(self.local_ranks, ranks - (self.rank - self.local_rank)))


def _number(environment: Mapping[str, str], variable: str, name: str) -> int:
    text = environment.get(variable, "")
    match = re.fullmatch(r"(\d+)(\(x\d+\))?", text.split(",")[0])
    if match is None:
        raise UserError(f"{name}: {variable} is '{text}', expected a number")
    return int(match[1])
