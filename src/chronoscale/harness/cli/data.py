"""Commands `data get`, `data make` and `data convert`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets import catalogue, store
from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.generate import generators
from chronoscale.errors import Interrupted, UserError
from chronoscale.harness.cli.options import AsJson, Form, Graph, Settings, Sort, Strict, settings
from chronoscale.harness.cli.output import err
from chronoscale.harness.data.description import HORIZON
from chronoscale.harness.data.graphs import require_signal, with_graph
from chronoscale.harness.display.fact import facts_of
from chronoscale.harness.keys.graphs import parse_graph


def get(
    name: str,
    out: Annotated[Path, typer.Argument(show_default=False)],
    seed: Annotated[int, typer.Option(min=0, help="Of a generated dataset.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write a catalogue dataset that is local or generated to a folder of memory-mappable columns."""
    if catalogue.entry(name).origin == "generated":
        return _make(catalogue.load_generator(name, seed), out, as_json)
    store.save(out, catalogue.load(name, seed))
    typer.echo(json.dumps({"folder": str(out)}) if as_json else str(out))


def make(
    what: Annotated[str, typer.Argument(help="Generator (YAML), or the name of a generated dataset.", metavar="SPEC", show_default=False)],
    out: Annotated[Path, typer.Argument(show_default=False)],
    seed: Annotated[int | None, typer.Option(min=0, help="Overrides the file's seed.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Generate a dataset of any size into a folder of memory-mappable columns; only a part of it is ever in memory.

    SPEC as in {kind: traffic, sensors: 11160, steps: 105120, channels: 2}.
    Kinds: growth, dygraph, communities, traffic, events, sessions.
    Or as in {like: lastfm_like, features: 128}: parameters of a generated dataset, some of them replaced.
    """
    path = Path(what)
    if not path.is_file() and (path.suffix or len(path.parts) > 1):
        raise UserError(f"{path}: no such file")
    _make(generators.read_generator(path, seed) if path.is_file() else catalogue.load_generator(what, seed or 0), out, as_json)


def _make(generator: generators.Generator, out: Path, as_json: bool) -> None:
    parts = f"{len(generator):,} {generator.unit}"
    try:
        with err.status(f"writing {out}") as status:
            generators.write_dataset(out, generator, lambda written: status.update(f"writing {out}: {written:,} of {parts}"))
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted while writing {out}; nothing was kept") from None
    typer.echo(json.dumps({"folder": str(out)}) if as_json else str(out))


def convert(
    sources: Annotated[
        list[Path], typer.Argument(help="A file or folder, or the files of one stream.", metavar="IN...", show_default=False)
    ],
    out: Annotated[Path, typer.Argument(show_default=False)],
    form: Form = None,
    sort: Sort = False,
    strict: Strict = False,
    option: Settings = None,
    graph: Graph = None,
    as_json: AsJson = False,
) -> None:
    """Read any known format and write it as a folder of memory-mappable columns, with an account of how it was understood."""
    for source in sources:
        if not source.exists():
            raise UserError(f"{source}: no such file or folder")
    keys = None if graph is None else parse_graph(graph)
    dataset = open_dataset(sources, form, **settings(option, sort, strict))
    if keys is not None:
        signal = require_signal(dataset, "--graph")
        dataset = with_graph(signal, keys, Windows(len(signal), HORIZON, HORIZON).training_steps)
    store.save(out, dataset)
    if not as_json:
        for fact in facts_of(dataset.account):
            err.print(f"{fact.what}: {fact.shown}", highlight=False, markup=False, soft_wrap=True)
    typer.echo(json.dumps({"folder": str(out), **dataset.account}) if as_json else str(out))
