"""The command line. `chronoscale --help` shows the loop: data, profile, bench, simulate, validate, report."""

from __future__ import annotations

import errno
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from chronoscale.datasets import catalogue, store
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.generate import spec
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.errors import ChronoscaleWarning, MachineError, UserError
from chronoscale.harness import demonstration, describe, execution, prepare, publish, runs, simulation
from chronoscale.harness.experiment import Experiment, load
from chronoscale.harness.reproduce import pages, registry
from chronoscale.harness.reproduce.study import KINDS, Kind
from chronoscale.harness.signals import training as signal_training
from chronoscale.harness.snapshots import control_plane as training
from chronoscale.harness.snapshots import partitions
from chronoscale.harness.snapshots.data import workload
from chronoscale.real_exec.environment import fingerprint
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import STRATEGIES, executable, strategy
from chronoscale.strategies.workload import Family

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Train dynamic graph neural networks for real; predict them on the cluster you do not have.",
)
data_app = typer.Typer(no_args_is_help=True, help="List, describe, fetch, make and convert datasets.")
app.add_typer(data_app, name="data")
err = Console(stderr=True)

File = Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)]
Root = Annotated[Path, typer.Option("--runs", help="Folder of runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Seed = Annotated[int | None, typer.Option(help="Overrides the experiment's seed.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Say what would run, and stop.")]
RUNS = Path("runs")
NAN = float("nan")


def say(frame: pd.DataFrame, title: str, as_json: bool) -> None:
    """A table on the terminal, or JSON records."""
    if as_json:
        typer.echo(frame.to_json(orient="records"))
        return
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for name in frame.columns:
        table.add_column(str(name), justify="right" if pd.api.types.is_numeric_dtype(frame[name]) else "left", no_wrap=True)
    for row in frame.itertuples(index=False):
        table.add_row(*map(_shown, frame.columns, row))
    width = Console(width=10_000).measure(table).maximum  # a row is a line: terminals wrap it, files do not
    Console(width=max(Console().width, width)).print(table)


def _shown(column: str, value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if value != value:
        return "–"
    return f"{100 * value:z.1f} %" if column == "gap" else f"{value:,.4g}"


@contextmanager
def stage(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr; the callable changes what it says."""
    try:
        with err.status(what) as status:
            yield lambda detail: status.update(f"{what}: {detail}")
    except KeyboardInterrupt:
        raise MachineError(f"interrupted while {what}; the same command takes it up again") from None


def _begin(command: str, file: Path, root: Path, seed: int | None, **changes: Any) -> tuple[Experiment, runs.Run]:
    experiment = load(file, changes if seed is None else {**changes, "seed": seed})
    run, resumed = runs.start(root, command, experiment, file.read_text(), fingerprint(prepare.this_device(experiment)))
    if resumed:
        err.print(f"taking up {run.folder}, which was left incomplete")
    return experiment, run


def _dry(command: str, file: Path, seed: int | None, ranks: Sequence[int] | None, as_json: bool) -> None:
    experiment = load(file, {} if seed is None else {"seed": seed})
    find = executable if command in ("bench", "validate") else strategy
    planners = {name: find(name) for name in experiment.strategies}
    work = workload(experiment)
    counts = list(experiment.gpus if ranks is None else experiment.ranks)
    works = partitions.simulated(experiment.model_copy(update={"gpus": tuple(counts)}), work)
    costs = DatasheetCosts(presets.cluster(experiment.cluster).device)
    signals = work.windows if work.family is Family.ST else None
    rows: list[dict[str, object]] = []
    for name, planner in planners.items():
        for count in counts:
            plan = planner.plan(works[count], count, costs)
            row: dict[str, object] = {"strategy": name, "ranks": count, "tasks": len(plan), "iterations": plan.iterations}
            row |= {"groups": work.groups} if signals is None else {"windows": len(signals), "host_bytes": plan.host}
            planned = {"planned_s": plan.planned_ns / 1e9 or NAN, "bound_s": plan.bound_ns / 1e9 or NAN, "gap": plan.gap}
            rows.append(row | planned | {"note": plan.note})
    held = f"{len(work.snapshots)} snapshots" if signals is None else f"{work.signal.steps} steps of {work.signal.sensors} sensors"
    say(pd.DataFrame(rows), f"{command}: {work.name}, {held} (planned with datasheet costs)", as_json)


def _end(run: runs.Run, frame: pd.DataFrame, title: str, as_json: bool, notes: Sequence[str] = ()) -> None:
    run.finish()
    say(frame, title, as_json)
    for note in notes:
        err.print(note, highlight=False, markup=False)
    err.print(f"run: {run.folder}")


@app.command()
def profile(file: File, root: Root = RUNS, as_json: AsJson = False, seed: Seed = None, dry_run: Dry = False) -> None:
    """Measure operations on this device, fit cost curves, report their held-out error."""
    if dry_run:
        return _dry("profile", file, seed, (1,), as_json)
    experiment, run = _begin("profile", file, root, seed)
    with stage("profiling"):
        run.piece("profile", partial(prepare.measure, experiment, run))
    _end(run, describe.profile(run), "fitted costs", as_json)


@app.command()
def bench(file: File, root: Root = RUNS, as_json: AsJson = False, seed: Seed = None, dry_run: Dry = False) -> None:
    """Train with every strategy for real, on every rank count (torchrun for several)."""
    if dry_run:
        return _dry("bench", file, seed, (), as_json)
    experiment, run = _begin("bench", file, root, seed)
    with stage("executing"):
        execution.execute(experiment, run)
    _end(run, publish.compared(run), "executed", as_json)


@app.command()
def validate(file: File, root: Root = RUNS, as_json: AsJson = False, seed: Seed = None, dry_run: Dry = False) -> None:
    """Execute and replay the same schedules; print the error per operation and in total, beside the spread of the repeats."""
    if dry_run:
        return _dry("validate", file, seed, (), as_json)
    experiment, run = _begin("validate", file, root, seed)
    with stage("executing"):
        execution.execute(experiment, run)
    with stage("replaying"):
        execution.rehearse(experiment, run)
    _end(run, publish.fidelity_table(run), "predicted against measured", as_json)


@app.command()
def simulate(file: File, root: Root = RUNS, as_json: AsJson = False, seed: Seed = None, dry_run: Dry = False) -> None:
    """Replay every strategy on every number of GPUs of the cluster."""
    if dry_run:
        return _dry("simulate", file, seed, None, as_json)
    experiment, run = _begin("simulate", file, root, seed)
    with stage("simulating") as told:
        simulation.simulate(experiment, run, told)
    _end(run, publish.compared(run), f"simulated on {experiment.cluster}", as_json, simulation.refused(run))


@app.command()
def train(
    file: File,
    epochs: Annotated[int | None, typer.Option(help="Overrides the experiment's epochs.", show_default=False)] = None,
    name: Annotated[
        str | None,
        typer.Option("--strategy", help=f"By default the file's last, or {' or '.join(training.PREFERRED.values())}.", show_default=False),
    ] = None,
    ranks: Annotated[int | None, typer.Option(help="By default the most that the experiment names.", show_default=False)] = None,
    root: Root = RUNS,
    as_json: AsJson = False,
    seed: Seed = None,
) -> None:
    """Train, resumable after any epoch. On snapshots in REAL's three stages: at once without reuse, then with difference maps, then as
    scheduled from what was measured."""
    if name is None:
        asked = load(file)
        name = asked.strategies[-1] if "strategies" in asked.model_fields_set else training.PREFERRED[asked.family]
    changes = {"epochs": epochs, "ranks": None if ranks is None else [ranks]}
    given = {key: value for key, value in changes.items() if value is not None}
    experiment, run = _begin("train", file, root, seed, **given, strategies=[name])
    with stage("training"):
        done = (signal_training if experiment.family is Family.ST else training).train(experiment, run)
    title = f"trained {len(done.epochs)} epochs on {done.ranks} rank{'s' * (done.ranks != 1)}"
    _end(run, done.table(), title, as_json, done.notes if experiment.family is Family.ST else ())  # the others have warned


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Runs.", metavar="RUN...", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("report"),
    as_json: AsJson = False,
) -> None:
    """One HTML page over runs, with the tables as CSV and Markdown and the figures as SVG and PNG."""
    with stage("drawing"):
        page = publish.page([runs.Run(folder) for folder in folders], out)
    typer.echo(json.dumps({"page": str(page)}) if as_json else str(page))


@app.command()
def trace(
    folder: Annotated[Path, typer.Argument(help="A run.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("traces"),
    form: Annotated[str, typer.Option("--format", help="perfetto: Chrome trace-event JSON.")] = "perfetto",
    as_json: AsJson = False,
) -> None:
    """Export the traces of a run for a timeline viewer."""
    if form != "perfetto":
        raise UserError(f"--format: unknown format '{form}'; valid: perfetto")
    written = publish.chrome(runs.Run(folder), out)
    typer.echo(json.dumps([str(path) for path in written]) if as_json else "\n".join(str(path) for path in written))


@app.command()
def demo(
    root: Root = RUNS, out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("report"), as_json: AsJson = False
) -> None:
    """The whole loop on generated data: profile, execute, validate, simulate, report. Minutes on two cores."""
    page = demonstration.run(root, out, err)
    typer.echo(json.dumps({"page": str(page)}) if as_json else f"\nreport: {page.resolve()}")


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="Paper: real or pgt-i.", show_default=False)],
    figure: Annotated[int | None, typer.Option(help="Number of a figure.")] = None,
    table: Annotated[int | None, typer.Option(help="Number of a table.")] = None,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("reproduced"),
    everything: Annotated[bool, typer.Option("--all", help="Every figure and table, and one document of them.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A subset, named in the notes.")] = False,
    as_json: AsJson = False,
) -> None:
    """A paper's figure or table: published beside ours, their ratio, and why they differ. Without a number: what there is."""
    asked: list[tuple[Kind, int]] = [(kind, number) for kind, number in zip(KINDS, (figure, table), strict=True) if number is not None]
    if len(asked) + everything > 1:
        raise UserError("give one of --figure, --table, --all")
    if not asked and not everything:
        return say(registry.overview(paper), f"{paper}: what can be reproduced", as_json)
    made = []
    for study in registry.of(paper) if everything else [registry.find(paper, *asked[0])]:
        with stage(f"{study.kind} {study.number}") as told:
            found = study.run(told, quick)
            page = pages.write(study, found, out)
        title = f"{study.kind} {study.number}: {study.title} ({study.way})"
        say(found.rows if as_json else pages.readable(found.rows), title, as_json)
        for note in found.notes:
            err.print(note, highlight=False, markup=False)
        err.print(f"page: {page}")
        made.append((study, found))
    if everything:
        err.print(f"document: {pages.document(paper, made, out)}")


@app.command()
def strategies(as_json: AsJson = False) -> None:
    """Strategies by name, with their source."""
    say(
        pd.DataFrame([{"name": s.name, "title": s.title, "family": s.family.value, "source": s.source} for s in STRATEGIES.values()]),
        "strategies",
        as_json,
    )


@data_app.command("list")
def data_list(as_json: AsJson = False) -> None:
    """All datasets that the catalogue knows."""
    say(describe.datasets(), "datasets", as_json)


@data_app.command("info")
def data_info(name: Annotated[str, typer.Argument(help="Name or path.", show_default=False)], as_json: AsJson = False) -> None:
    """What a dataset holds, and what the papers print of it."""
    say(describe.dataset(name), name, as_json)


@data_app.command("get")
def data_get(
    name: str,
    out: Annotated[Path, typer.Argument(show_default=False)],
    seed: Annotated[int, typer.Option(min=0, help="Of a generated dataset.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write a catalogue dataset that is local or generated to a folder of memory-mappable columns."""
    if catalogue.entry(name).origin == "generated":
        return _make(catalogue.generator(name, seed), out, as_json)
    store.save(out, catalogue.load(name, seed))
    typer.echo(json.dumps({"folder": str(out)}) if as_json else str(out))


@data_app.command("make")
def data_make(
    what: Annotated[str, typer.Argument(help="Generator (YAML), or the name of a generated dataset.", metavar="SPEC", show_default=False)],
    out: Annotated[Path, typer.Argument(show_default=False)],
    seed: Annotated[int | None, typer.Option(min=0, help="Overrides the file's seed.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Generate a dataset of any size into a folder of memory-mappable columns; only a part of it is ever in memory.

    SPEC as in {kind: traffic, sensors: 11160, steps: 105120, channels: 2}; kinds: growth, dygraph, traffic.
    """
    path = Path(what)
    if not path.is_file() and (path.suffix or len(path.parts) > 1):
        raise UserError(f"{path}: no such file")
    _make(spec.from_file(path, seed) if path.is_file() else catalogue.generator(what, seed or 0), out, as_json)


def _make(generator: spec.Generator, out: Path, as_json: bool) -> None:
    parts = f"{len(generator):,} {'steps' if isinstance(generator, TrafficSignal) else 'snapshots'}"
    try:
        with err.status(f"writing {out}") as status:
            spec.write(out, generator, lambda made: status.update(f"writing {out}: {made:,} of {parts}"))
    except KeyboardInterrupt:
        raise MachineError(f"interrupted while writing {out}; nothing was kept") from None
    typer.echo(json.dumps({"folder": str(out)}) if as_json else str(out))


@data_app.command("convert")
def data_convert(
    source: Annotated[Path, typer.Argument(show_default=False)],
    out: Annotated[Path, typer.Argument(show_default=False)],
    form: Annotated[str | None, typer.Option("--format", help="Format, where the file does not tell.")] = None,
    sort: Annotated[bool, typer.Option("--sort", help="Sort events by time.")] = False,
    option: Annotated[list[str] | None, typer.Option("--option", help="KEY=VALUE for the reader; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read any known format and write it as a folder of memory-mappable columns."""
    if not source.exists():
        raise UserError(f"{source}: no such file or folder")
    options: dict[str, Any] = {"sort": True} if sort else {}
    for entry in option or []:
        key, separator, value = entry.partition("=")
        if not separator:
            raise UserError(f"--option {entry}: expected KEY=VALUE")
        options[key] = value
    store.save(out, open_dataset(source, form, **options))
    typer.echo(json.dumps({"folder": str(out)}) if as_json else str(out))


def _warn(message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: str | None = None) -> None:
    if issubclass(category, ChronoscaleWarning):
        err.print(f"[yellow]warning:[/] {message}", highlight=False)


def main() -> None:
    """Exit code 0; 2 for a user's mistake, 1 for a failure of the machine or an interruption, each in one line."""
    warnings.showwarning = _warn
    warnings.simplefilter("always", ChronoscaleWarning)
    try:
        app()
    except UserError as error:
        sys.exit(_fail(str(error), 2))
    except MachineError as error:
        sys.exit(_fail(str(error), 1))
    except MemoryError:
        sys.exit(_fail("out of host memory", 1))
    except OSError as error:
        full = "the disk is full; free some space and give the same command again"
        sys.exit(_fail(full if error.errno == errno.ENOSPC else str(error), 1))


def _fail(line: str, code: int) -> int:
    print(f"error: {' '.join(line.split())}", file=sys.stderr)
    return code
