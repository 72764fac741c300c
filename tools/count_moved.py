"""Count the bytes that every kind of row moves in device memory and write src/chronoscale/strategies/costing/moved.yaml:
`python tools/count_moved.py`; of one family of dynamic graphs, and the others' laws stay: `python tools/count_moved.py streams`.

Schedules of several sizes are executed on a CPU under `kernels.KernelCounter`, our own kernels emulated (tests/emulation). The counts
of each (kind of schedule, model, operation) are then expressed as a law with coefficients that are not negative, fitted by relative
errors. What a term of a law comes to for a row is asked of the planner itself, by planning with that term alone. A law that is off by
more than TOLERANCE on schedules that were held out is printed, with how far. Takes half an hour.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, get_args
from unittest import mock

import numpy as np
import torch
import yaml
from numpy.typing import ArrayLike

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.partition import VertexPartition
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.datasets.streams.protocol import Task as Kind_of_task
from chronoscale.real_exec.binding import bind_program, run_preparation
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.measurement.kernels import AbsentPeers, count_kernels
from chronoscale.real_exec.signals.forecast import walks
from chronoscale.real_exec.snapshots.cells.program import CellProgram
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.region import PartRegion, WholeRegion
from chronoscale.real_exec.snapshots.windows import remap
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.costing import kernels
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.flaredtdg.issue_order import one_by_one
from chronoscale.strategies.flaredtdg.plan import Plan
from chronoscale.strategies.flaredtdg.retention import WindowRetention
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import COLUMNS, Ints, Lane, Op, Schedule
from chronoscale.strategies.signals.forecasters import DENSE_NODES, FORECASTERS, forecaster_shape
from chronoscale.strategies.signals.kernels import model_key
from chronoscale.strategies.snapshots.forms import Forms, must_track, uniform_forms
from chronoscale.strategies.snapshots.groups import Placement, deal
from chronoscale.strategies.snapshots.kernels import structure_name
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.snapshots.shared_rows import can_share_rows
from chronoscale.strategies.snapshots.variants import Form
from chronoscale.strategies.streams.kernels import model_key as stream_name_of
from chronoscale.strategies.streams.kinds.base import PATCHES
from chronoscale.strategies.streams.models import CLOCKS, STREAM_MODELS, shape_for
from chronoscale.strategies.streams.strategy import StreamStrategy
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, ModelShape, Partition, Recency, Workload

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from count_kernels import BLOCKED, GROUPED, LATER, OTHERS, SHARING_ROWS, WAYS, learned
from counted_streams import prepared_stream, trains_on
from emulation.stand_in import emulated
from fitted_laws import Sample, errors, fitted
from moved_terms import ENDS, SHARED, TERMS

TARGET = Path(__file__).parents[1] / "src/chronoscale/strategies/costing/moved.yaml"
HEAD = "# Bytes that a schedule's rows move in device memory, as laws; see kernels.py. Made by tools/count_moved.py with torch {}.\n"
TOLERANCE = 0.05
HELD = 5  # every so many schedules, one is held out to see how far off a law is


BITS = 48  # of a term's worth


@dataclass(frozen=True, slots=True)
class Probe(kernels.Kernels):
    """A planner that asks what rows move is told what every term of `asked` comes to, side by side in one number of any length."""

    asked: tuple[tuple[str, str], ...] = ()

    def moved(self, op: Op, lane: Lane, columns: kernels.Values) -> Ints:
        return kernels.Kernels.moved(replace(self, moves={op.name: {}}), op, lane, columns)

    def bytes(self, name: str, **values: ArrayLike) -> Ints:
        given, found = {**self.sizes, **values}, np.zeros(1, object)
        known = given.keys() | {of for of, other in kernels.COMPLEMENTS.items() if other in given}
        for place, (law, term) in enumerate(self.asked):
            if law == name and all(part in known for part in term.split("*") if part != "1"):
                found = found + self._evaluate({term: 1}, values).astype(object) * (1 << BITS * place)
        return found


class Case(NamedTuple):
    """Schedules of one kind and model: how to plan one, and what executes it."""

    section: str
    name: str
    plan: Callable[[], Schedule]
    program: Callable[[Schedule], Program]


def samples(case: Case) -> Iterator[tuple[str, Sample]]:
    """Of each row that computes on the device, the operation; the first optimiser's step makes its moments and is left out."""
    terms, (schedule, sizes) = TERMS[case.section], planned(case, ())
    program = case.program(schedule)
    with emulated():
        counts = count_kernels(learned(program))
    worth = worths(case, [(law, term) for law in terms for term in terms[law]], sizes)
    seen: Counter[Any] = Counter()
    for task, count in zip(program.tasks, counts, strict=True):
        op, cell = task.op.name, (task.op, task.unit, task.step, task.layer)
        if case.section in ("parts", "blocks") and op in LATER and seen[cell]:
            op = LATER[op][seen[cell] - 1]
        seen[cell] += 1
        laws = ENDS.get(case.section, (op,)) if op == "BACKWARD" else (op,)
        if case.section == "shared" and (op not in SHARED or task.layer > 0):  # as in groups that share no rows
            continue
        if task.lane is Lane.HOST or task.op in kernels.MOVES or (op == "OPTIMIZE" and seen[op] == 0):
            seen[op] += 1
            continue
        found = {key: of[task.task] for key, of in worth.items() if key[0] in laws}
        yield op, (count.bytes, {key: value for key, value in found.items() if value})


def worths(case: Case, asked: Sequence[tuple[str, str]], sizes: Mapping[str, int]) -> dict[tuple[str, str], list[int]]:
    """What terms come to for every row. Groups add up their ends in int64: these are asked for one by one, without what all rows share."""
    ends = [key for key in asked if case.section in GROUPED and key[0] in ENDS["groups"]]
    found = told(case, [key for key in asked if key not in ends])
    alone = {name: size for name, size in sizes.items() if name != "own"}  # of each row for itself
    cut = {(law, term): "*".join(part for part in term.split("*") if part not in alone) or "1" for law, term in ends}
    each = {key: told(case, [key])[key] for key in {(law, rest) for (law, _), rest in cut.items()}}
    for (law, term), rest in cut.items():
        shared = prod(alone[part] for part in term.split("*") if part in alone)
        found[law, term] = [shared * size for size in each[law, rest]]
    return found


def told(case: Case, asked: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[int]]:
    """By one plan."""
    packed = [int(size) for size in planned(case, tuple(asked))[0].bytes]
    return {key: [size >> BITS * place & (1 << BITS) - 1 for size in packed] for place, key in enumerate(asked)}


def planned(case: Case, asked: tuple[tuple[str, str], ...]) -> tuple[Schedule, Mapping[str, int]]:
    """With bytes as `Probe` tells them; and the variables that are the same for every row."""
    shared: dict[str, int] = {}

    def probe(cls: Any, kind: str, model: str, sizes: Mapping[str, int]) -> Probe:
        shared.update({"above": 0, **sizes})
        return Probe(KERNELS[kind][model], {"above": 0, **sizes}, {"": {}}, asked)

    with (
        mock.patch.dict(COLUMNS, {"bytes": np.dtype(object)} if len(asked) > 1 else {}),
        mock.patch.object(kernels.Kernels, "of_model", classmethod(probe)),
    ):
        return case.plan(), shared


KERNELS = kernels.read_laws()
SHAPES = ((60, 240), (110, 1500), (170, 500), (280, 2800), (900, 3000), (1300, 8000))  # nodes and edges
GRAPHS = [GrowthGraph.rmat(nodes, edges, 10, 0.1, nodes).sequence().without_self_edges() for nodes, edges in SHAPES]
# of sizes for each way to plan: laws of many terms need many of them
DRAWS = {"snapshots": 20, "shared": 36, "blocks": 2, "signals": 16, "streams": 8}


def sized(draw: np.random.Generator) -> tuple[SnapshotSequence, int, int]:
    """Graphs, and widths of inputs and hidden features."""
    graphs, widths = GRAPHS[draw.integers(len(GRAPHS))], np.exp2(draw.uniform(1.6, 6.4, 2)).astype(int).tolist()
    return graphs, widths[0], min(widths[1], graphs.num_nodes // 4)  # EvolveGCN-H summarises as many nodes, of a part of the graph


def snapshots(folder: Path) -> Iterator[Case]:
    """Groups in every form of reuse, cells on one rank and as one of several."""
    reuses = [(Reuse(), None, 1), (Reuse(pipeline=True), None, 2)]
    reuses += [(Reuse(snapshots=True, groups=each == 2), form, each) for form in Form for each in (1, 2)]
    for name, number in product(MODELS, range(DRAWS["snapshots"])):
        draw, layers = np.random.default_rng([number, *name.encode()]), 1 + number % 3
        (graphs, inputs, hidden), steps = sized(draw), int(draw.integers(2, 5))
        shape, hyper = model_shape(name, inputs, hidden, layers), Hyper(group_size=steps)
        work = Workload("w", statistics_of(graphs), shape, hyper)
        material = SnapshotMaterial(graphs, inputs, hyper.variant, weighted=shape.spatial == "gcn")

        for reuse, form, each in [reuses[(2 * number + which) % len(reuses)] for which in range(2)]:
            forms = form and uniform_forms(len(work.snapshots.edges), form, form is Form.MAP or must_track(work))
            lowered = partial(_lowered, work, deal(work.groups, 1, each), reuse, forms)
            yield Case("groups", structure_name(shape), lowered, partial(_grouped, material, shape, hyper))
        for planner, ranks in ((strategy("esdg"), 1 + number % 2), (strategy("distdgl"), 1 + number // 3 % 2)):
            cut = VertexPartition((np.arange(graphs.num_nodes) % ranks).astype(np.int32), ranks)
            spread = Workload("w", statistics_of(graphs), shape, hyper, Partition(*cut.count(graphs)))
            made = partial(_celled, material, cut if planner.partitioned else None, shape, hyper, ranks)
            yield Case(planner.kind, structure_name(shape), partial(_head, planner, spread, ranks), made)


def shared(folder: Path) -> Iterator[Case]:
    """Groups that share rows, one or two on a rank, of models that can."""
    for name, number in product(MODELS, range(DRAWS["shared"])):
        draw, layers = np.random.default_rng([number, *name.encode()]), 1 + number % 3
        (graphs, inputs, hidden), steps = sized(draw), int(draw.integers(2, 5))
        shape, hyper = model_shape(name, inputs, hidden, layers), Hyper(group_size=steps)
        work = Workload("w", statistics_of(graphs), shape, hyper)
        if can_share_rows(work):
            material = SnapshotMaterial(graphs, inputs, hyper.variant, weighted=shape.spatial == "gcn")
            form = list(Form)[number % len(Form)]
            forms = uniform_forms(len(work.snapshots.edges), form, form is Form.MAP or must_track(work))
            lowered = partial(_lowered, work, deal(work.groups, 1, 1 + number // 3 % 2), SHARING_ROWS, forms)
            yield Case("shared", structure_name(shape), lowered, partial(_grouped, material, shape, hyper))


def _lowered(work: Workload, placed: Placement, reuse: Reuse, forms: Forms | None) -> Schedule:
    return lower("counted", work, placed, reuse, UNUSED, forms).head(2)


def _grouped(material: SnapshotMaterial, shape: ModelShape, hyper: Hyper, schedule: Schedule) -> Program:
    return SnapshotProgram(schedule, material, Learner(SnapshotModel(shape), Context()), hyper, Context())


def _celled(
    material: SnapshotMaterial, cut: VertexPartition | None, shape: ModelShape, hyper: Hyper, ranks: int, schedule: Schedule
) -> Program:
    context = Context(collective=AbsentPeers(ranks), exchange=AbsentPeers(ranks))
    region = WholeRegion(material) if cut is None else PartRegion(material, cut, 0, context.device)
    return CellProgram(schedule, region, Learner(SnapshotModel(shape), context), hyper, context)


def _head(planner: Any, work: Workload, ranks: int) -> Schedule:
    schedule: Schedule = planner.plan(work, ranks, UNUSED).head(2)
    return schedule


def blocks(folder: Path) -> Iterator[Case]:
    """Windows that shrink or not, that predict their newest snapshot or every one, on one rank and as one of two."""
    remap.kept_ids = remap.sorted_ids  # as on a GPU
    ways = [name for name in MODELS if MODELS[name].spatial == "gcn"]
    for name, layers, ranks, (shrinks, each), number in product(ways, (1, 2, 3), (1, 2), WAYS, range(DRAWS["blocks"])):
        graphs, inputs, hidden = sized(np.random.default_rng([layers, ranks, shrinks, each, number, *name.encode()]))
        chunks, decay = Chunks((np.arange(graphs.num_nodes) % BLOCKED).astype(np.int32), BLOCKED), Decay(2, 2, 0.5)
        shape, hyper = model_shape(name, inputs, hidden, layers), Hyper(recency=Recency(decay, BLOCKED))
        work = Workload("w", statistics_of(graphs), shape, hyper, chunking=ExactChunking(graphs, chunks))
        plan = Plan("counted", work, ranks, WindowRetention(decay, each), one_by_one, shrinks)
        made = partial(_windows, SnapshotMaterial(graphs, inputs, hyper.variant), chunks, shape, hyper, ranks)
        yield Case("blocks", structure_name(shape), partial(plan.schedule, UNUSED), made)


def _windows(material: SnapshotMaterial, chunks: Chunks, shape: ModelShape, hyper: Hyper, ranks: int, schedule: Schedule) -> Program:
    context = Context(collective=AbsentPeers(ranks), exchange=AbsentPeers(ranks))
    return WindowProgram(schedule, material, chunks, Learner(SnapshotModel(shape), context), hyper, context)


def signals(folder: Path) -> Iterator[Case]:
    """Every forecaster, dense and sparse, in both variants."""
    several = {nodes: 1 + nodes // DENSE_NODES * 2 for nodes in (12, 30, 80, DENSE_NODES + 8, DENSE_NODES + 200)}  # edges a node
    for (nodes, each), channels, calendar in product(several.items(), (2, 4), (1, 2)):
        ring = np.arange(nodes)
        edges = np.concatenate([np.stack([ring, (ring + 1 + k) % nodes]) for k in range(each)], 1).astype(np.int32)
        values = np.random.default_rng(2).uniform(0, 1, (40, nodes, channels)).astype(np.float32)
        if calendar < channels:
            weight = np.ones(edges.shape[1], np.float32)
            store.save(folder / f"{nodes}-{channels}-{calendar}", Signal(values, edges, weight, calendar=calendar))
    for name, nodes, variant, number in product(FORECASTERS, several, ("exact", "as-published"), range(DRAWS["signals"])):
        draw = np.random.default_rng([nodes, number, *name.encode(), *variant.encode()])
        (horizon, window), heads = np.sort(draw.integers(2, 9, 2)).tolist(), int(draw.integers(1, 4))
        kind = FORECASTERS[name]
        layers = kind.least_layers(window) + (int(draw.integers(0, 3)) if kind.stacks else 0)
        calendar = 1 + (kind.tables and number % 2)
        channels, hidden, batch = (
            int(draw.choice((2, 4) if calendar == 1 else (4, 4))),
            heads * int(draw.integers(3, 17)),
            int(draw.integers(1, 7)),
        )
        hyper = Hyper(batch_size=batch, window=window, horizon=horizon, variant=variant, batches=2)
        choice = ModelChoice(
            name,
            hidden,
            layers,
            hops=int(draw.integers(1, 4)),
            heads=heads,
            times=20 + 30 * number,
            dropout=0.1 * kind.drops * (number // 2 % 2),
        )
        shape = forecaster_shape(choice, nodes, channels, window, horizon, variant, calendar)
        work = Workload("w", SignalStatistics(40, nodes, channels, nodes * several[nodes], calendar=calendar), shape, hyper)
        data = folder / f"{nodes}-{channels}-{calendar}"
        yield Case("windows", model_key(work), partial(strategy("index").plan, work, 1, UNUSED), partial(_forecast, work, choice, data))


def _forecast(work: Workload, choice: ModelChoice, data: Path, schedule: Schedule) -> Program:
    before, context = data.parent / "before.parquet", Context()
    strategy("index").prepare(work, 1, UNUSED).save(before)
    item = Item("counted", "", str(data), work.hyper, prepare=str(before))
    run_preparation(item, choice, context)
    return bind_program(item, schedule, choice, context)


def streams(folder: Path) -> Iterator[Case]:
    """Every model of events and both tasks, with slots and edge by edge."""
    widths = ((0, 0), (0, 3), (0, 21), (5, 0), (17, 0), (30, 8), (4, 14))  # of features of nodes and of events
    folders = [prepared_stream(folder, 150, 700, *which, task) for which, task in product(widths, get_args(Kind_of_task))]
    for (data, name), number in product(product(folders, STREAM_MODELS), range(DRAWS["streams"])):
        draw = np.random.default_rng([number, *name.encode(), *data.parent.name.encode()])
        kind, known = STREAM_MODELS[name], stream_statistics(PreparedStream.load(data))
        if not trains_on(kind, known):
            continue
        statistics = replace(known, work=cache(known.work))
        windows, heads = int(draw.integers(2, 5)) if kind.windowed else 1, int(draw.integers(1, 4)) if kind.attends else 1
        events = EventHyper(windows=windows, duration=120.0 * (windows > 1), cache_ratio=0.5)
        hyper = Hyper(batch_size=int(draw.integers(10, 150)), fanout=(int(draw.integers(2, 9)),), events=events, batches=3)
        hidden, inputs, time, mails = (int(size) for size in (heads * draw.integers(2, 15), draw.integers(3, 40), *draw.integers(2, 30, 2)))
        more = {"dropout": float(draw.choice((0.0, 0.1))) * kind.drops, "clock": str(draw.choice(CLOCKS)) if kind.clock else CLOCKS[0]}
        layers = int(draw.integers(1, 1 + len(kind.depths))) if kind.aggregates else 1
        more["patch"] = 1 + number % 3 * (kind.spatial == PATCHES)
        choice = ModelChoice(name, hidden, layers, inputs, heads=heads, time=time, mails=2 + mails // 4, **more)  # type: ignore[arg-type]
        shape = shape_for(choice, statistics, hyper)
        work = Workload("w", statistics, shape, hyper)
        for planner in map(strategy, ("tgl-unique", *("fast-none", "fast-sc", "fast-sc-te") * (kind.spatial == "attention"))):
            assert isinstance(planner, StreamStrategy)
            program = partial(_bound, Item("counted", "", str(data), hyper), choice)
            yield Case("events", stream_name_of(shape, planner.feeding), partial(planner.plan, work, 1, UNUSED), program)


def _bound(item: Item, choice: ModelChoice, schedule: Schedule) -> Program:
    return bind_program(item, schedule, choice, Context())


FAMILIES: Mapping[str, Callable[[Path], Iterator[Case]]] = {
    "snapshots": snapshots,
    "shared": shared,
    "blocks": blocks,
    "signals": signals,
    "streams": streams,
}


Table = Mapping[tuple[str, str, str], Mapping[int, Sequence[Sample]]]  # of a kind of schedule, a model and an operation: by schedule


def gathered(families: Sequence[str]) -> Table:
    """Samples of all schedules of some families."""
    found: defaultdict[tuple[str, str, str], defaultdict[int, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(case for family in families for case in FAMILIES[family](Path(folder))):
            for op, sample in samples(case):
                found[case.section, case.name, op][number].append(sample)
            if number % 50 == 0:
                print(f"{number} schedules, {case.section} {case.name}", flush=True)
    return found


def laws(table: Table) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """As they are written: by kind of schedule, model and operation."""
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for (section, name, op), cases in sorted(table.items()):
        law = fitted([sample for of in cases.values() for sample in of])
        held = set(list(cases)[::HELD])
        rest = fitted([sample for case in cases.keys() - held for sample in cases[case]])
        error = errors(rest, [sample for case in held for sample in cases[case]])
        if np.abs(error).max() > TOLERANCE:
            print(f"{section} {name} {op}: {error.min():+.1%} to {error.max():+.1%} held out,", end=" ")
            print(f"typically {np.abs(error).mean():.1%}, {len(cases)} schedules, {len(law)} terms")
        into = found.setdefault(section, {}).setdefault(name, {})
        for part in ENDS.get(section, (op,)) if op == "BACKWARD" else (op,):
            into[part] = {term: factor for (of, term), factor in law.items() if of == part}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the bytes that rows move and write their laws.")
    parser.add_argument("family", nargs="*", help=f"count these again, and keep the others: {', '.join(FAMILIES)} (default: all)")
    families = parser.parse_args().family or list(FAMILIES)
    if unknown := set(families) - set(FAMILIES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; families are {', '.join(FAMILIES)}")
    torch.set_num_threads(1)
    walks.SPARSE = 0  # graphs have the form that they have on a GPU
    MODELS.update(OTHERS)  # type: ignore[attr-defined]
    known = yaml.safe_load(TARGET.read_text(encoding="utf-8")) if TARGET.exists() else {}
    found = {**known, **laws(gathered(families))}
    TARGET.write_text(HEAD.format(torch.__version__) + yaml.safe_dump(found, default_flow_style=None, width=200, sort_keys=True))


if __name__ == "__main__":
    main()
