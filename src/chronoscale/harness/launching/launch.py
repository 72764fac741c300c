"""Commands `launch …`. The command is read first, so that a job that cannot run is not queued."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.cli.options import File
from chronoscale.harness.cli.output import err
from chronoscale.harness.launching.launched_command import LaunchedCommand
from chronoscale.harness.launching.slurm_script import SlurmScript


def slurm(
    file: File,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND OPTIONS",
            help="What to run on it, with options of its own, such as -- train --epochs 5; by default bench.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Machines.")] = 1,
    gpus: Annotated[
        int | None, typer.Option("--gpus-per-node", min=1, help="GPUs of a machine, and ranks on it.", show_default=False)
    ] = None,
    tasks: Annotated[
        int | None, typer.Option("--tasks-per-node", min=1, help="Ranks on a machine, where they have no GPUs.", show_default=False)
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option("--cpus-per-task", min=1, help="Cores of a rank; by default its threads, and one more.", show_default=False),
    ] = None,
    time: Annotated[str | None, typer.Option(help="Time limit, such as 2:00:00.", show_default=False)] = None,
    partition: Annotated[str | None, typer.Option(help="Slurm's name of the machines to take.", show_default=False)] = None,
    account: Annotated[str | None, typer.Option(help="Who pays.", show_default=False)] = None,
    job_name: Annotated[str | None, typer.Option(help="By default the experiment's.", show_default=False)] = None,
    into: Annotated[Path | None, typer.Option(help="File for the script; by default it is printed.", show_default=False)] = None,
    submit: Annotated[bool, typer.Option("--submit", help="Hand it to sbatch, and say the job's number.")] = False,
) -> None:
    """Write the sbatch script that runs a command on several machines under Slurm, a rank a task. The command and its options come last,
    after --."""
    if (gpus is None) == (tasks is None):
        raise UserError("expected --gpus-per-node, a rank for each GPU, or --tasks-per-node, ranks on the CPU; one of them")
    command = LaunchedCommand.read(file, words or ())
    experiment, on_node = command.experiment, gpus or tasks or 1
    ranks = nodes * on_node
    size = f"{nodes} node{'s' * (nodes > 1)} of {on_node} are {ranks} rank{'s' * (ranks > 1)}"
    if idle := command.check_size(ranks, size):
        warnings.warn(idle, ChronoscaleWarning, stacklevel=2)
    if experiment.device == "cuda" and gpus is None:
        raise UserError("device: cuda, and no GPUs; give --gpus-per-node instead of --tasks-per-node")
    given = {"job-name": experiment.name if job_name is None else job_name, "time": time, "partition": partition, "account": account}
    options = {name: value for name, value in given.items() if value is not None}
    script = SlurmScript(
        [sys.executable, "-m", "chronoscale", *command.words],
        str(Path.cwd()),
        nodes,
        on_node,
        cpus or experiment.threads + 1,
        gpus or 0,
        options,
    )
    if into is not None:
        _write(into, script.text())
        err.print(f"written: {into}", highlight=False, markup=False)
    elif not submit:
        typer.echo(script.text(), nl=False)
    if submit:
        number = script.submit()
        typer.echo(f"job {number}; its output: slurm-{number}.out")


def _write(file: Path, text: str) -> None:
    if file.exists() and file.read_text() != text:
        raise UserError(f"--into {file}: is there already, and differs; remove it, or give another name")
    file.write_text(text)
