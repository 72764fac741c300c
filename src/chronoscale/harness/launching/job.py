"""Commands `job pack` and `job unpack`: what `bench` on several machines would send, carried there beforehand."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from chronoscale.errors import UserError
from chronoscale.harness.cli.experiment_argument import read_experiment
from chronoscale.harness.cli.options import AsJson, File, Seed
from chronoscale.harness.cli.output import err, print_rows, stage
from chronoscale.harness.launching.packer import JobPacker
from chronoscale.harness.runs.start import start
from chronoscale.real_exec.ranks import package
from chronoscale.real_exec.ranks.bundle import Cache, Content


def pack(
    file: File,
    folder: Annotated[Path, typer.Option("--into", help="Folder to write, new or empty.", show_default=False)],
    as_json: AsJson = False,
    seed: Seed = None,
) -> None:
    """Write what `bench` would send to other machines to a folder: data, partitions, schedules, your Python files. Copy it there, and `job
    unpack` it. Schedules whose plans wait for measured costs are left out, and sent when ranks start."""
    experiment = read_experiment(file, seed)
    counts = [ranks for ranks in experiment.ranks if ranks > 1]
    if not counts:
        raise UserError("ranks: nothing is sent to other machines for one rank; name more")
    with stage("packing"), TemporaryDirectory(prefix="chronoscale-packing-") as temporary:
        run, _ = start(Path(temporary), "bench", experiment, file.read_text(), {})
        packer = JobPacker(experiment, run)
        files = package.pack({f"ranks-{ranks}": packer.job(ranks) for ranks in counts}, folder)
    _print(files, f"packed into {folder}", as_json)
    if packer.unplanned:
        names = ", ".join(sorted(packer.unplanned))
        err.print(f"no schedule of {names}: plans wait for measured costs (with costs: datasheet, or a file's, they do not)")


def unpack(
    folder: Annotated[Path, typer.Argument(help="Folder that `job pack` wrote.", show_default=False)], as_json: AsJson = False
) -> None:
    """Check what `job pack` wrote, and put it where ranks of this machine look first. Says by name what is missing or damaged."""
    cache = Cache()
    _print(package.unpack(folder, cache), f"unpacked into {cache.folder}", as_json)


def _print(files: tuple[Content, ...], title: str, as_json: bool) -> None:
    print_rows([{"file": file.path, "bytes": file.size, "sha256": file.sha256} for file in files], title, as_json, left_out=["sha256"])
