"""Slurm script: what `sbatch` needs to run a command on several machines, a task a rank."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chronoscale.errors import MachineError, UserError

_TEXT = """\
#!/bin/bash
{directives}

# {tasks} ranks on {nodes}. Written by `chronoscale launch slurm`, and yours to change.
#
# When a machine fails, or another job goes first, Slurm queues this job again. The script then starts from its beginning, and the
# command goes on with the run that it left incomplete. After the time limit, submit the script again: that does the same.
# Runs are written by the first machine: let this be a folder that all machines have.
set -euo pipefail
cd {folder}

# Ranks meet on the first machine, at a port that is this job's own.
machines=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR=${{machines%%$'\\n'*}}
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
echo "job $SLURM_JOB_ID, start $((1 + ${{SLURM_RESTART_COUNT:-0}})): {tasks} ranks meet at $MASTER_ADDR:$MASTER_PORT"

# A task a rank, numbered machine by machine. A task may use all cores and GPUs that the job has of its machine: a rank takes its own
# of them, by its place there. When a task fails, all end.
srun {step} \\
  --distribution=block --cpu-bind=none{unbound} --kill-on-bad-exit=1 --export=ALL \\
  {command}
"""


@dataclass(frozen=True, slots=True)
class SlurmScript:
    """Batch script of a command.

    command: words of it, of which each task executes all. folder: where. nodes: machines; on each `tasks` tasks, of `cpus` cores each.
    gpus: of each machine, 0 for none. options: more of sbatch's, name -> value.
    """

    command: Sequence[str]
    folder: str
    nodes: int
    tasks: int
    cpus: int
    gpus: int = 0
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise UserError for what a line of the script cannot hold."""
        options = [(f"--{name}", value) for name, value in self.options.items()]
        for what, value in [*options, ("folder", self.folder), *(("word", word) for word in self.command)]:
            if not value or not value.isprintable() or "\\" in value:  # sbatch reads a backslash as an escape even in quotes
                raise UserError(f"{what} {value!r}: expected characters that can be printed, on one line, without a backslash")

    def text(self) -> str:
        """Return the script, for a file or for sbatch's standard input."""
        sizes = {"nodes": self.nodes, "ntasks-per-node": self.tasks, "cpus-per-task": self.cpus}
        if self.gpus:
            sizes["gpus-per-node"] = self.gpus
        step = [f"--{name}={value}" for name, value in sizes.items()]
        more = [f"--{name}={shlex.quote(value)}" for name, value in self.options.items()]
        return _TEXT.format(
            directives="\n".join(f"#SBATCH {option}" for option in [*step, *more, "--requeue", "--open-mode=append"]),
            tasks=self.nodes * self.tasks,
            nodes=f"{self.nodes} machine{'s' * (self.nodes > 1)}",
            folder=shlex.quote(self.folder),
            step=" ".join(step),
            unbound=" --gpu-bind=none" * bool(self.gpus),
            command=shlex.join(self.command),
        )

    def submit(self) -> str:
        """Hand the script to sbatch, and return the job's number.

        Raises UserError where there is no sbatch here, MachineError, with sbatch's words, where it takes no such job.
        """
        if shutil.which("sbatch") is None:
            raise UserError(
                "--submit: there is no sbatch here; write the script with --into FILE, and type `sbatch FILE` where there is one"
            )
        done = subprocess.run(["sbatch", "--parsable"], input=self.text(), capture_output=True, text=True)
        if done.returncode:
            raise MachineError(f"sbatch: {done.stderr.strip() or f'exit code {done.returncode}'}")
        return done.stdout.strip().partition(";")[0]  # a cluster's name may follow
