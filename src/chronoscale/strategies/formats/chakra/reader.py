"""Reader of Chakra execution traces, a file a rank, as a schedule and a trace; those that `writer` wrote come back as they were."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.costing.recorded import Recording
from chronoscale.strategies.formats.chakra import messages
from chronoscale.strategies.formats.chakra.foreign import foreign
from chronoscale.strategies.formats.chakra.messages import Malformed, Node
from chronoscale.strategies.formats.chakra.writer import ABOUT, FORMAT, KEPT, MADE_BY, NOWHERE, RENAMED
from chronoscale.strategies.schedule import COLLECTIVES, COLUMNS, Lane, Op, Schedule
from chronoscale.strategies.trace import Source, Trace

TAKEN = ("deps", "prior", "start_ns", "duration_ns", "source")  # of a node beyond its columns
NUMBER = re.compile(r"(\d+)(?=\.\w+$)")  # of the rank, in front of a file's ending
TYPES: Mapping[str, type] = dict.fromkeys(ABOUT, int) | dict.fromkeys(("name", "kind", "note", "feeding", "mathematics"), str)


class _File(NamedTuple):
    """A file that was read: the metadata's attributes, and its nodes."""

    path: Path
    about: Mapping[str, Any]  # the metadata's attributes
    nodes: Sequence[Node]


def read(paths: Sequence[Path]) -> Recording:
    """Read Chakra execution traces, the files of all ranks of one job, as a schedule and a trace, to be replayed.

    Of a trace that this package wrote schedule and trace come back as they were; another tool's becomes a schedule of kind "modelled"
    (`foreign.foreign`), and a file's rank is the number before its ending, `model.3.et`.

    Raises UserError naming the file, and the byte or the node, for what is no trace, for one that is cut off, and for ranks that do not fit
    together.
    """
    files = [_read_file(path) for path in paths]
    if not files:
        raise UserError("a Chakra trace needs a file for every rank, got none")
    ours = [file for file in files if MADE_BY in file.about]
    if not ours:
        return foreign({rank: (file.path, file.nodes) for rank, file in _by_rank(files).items()})
    if len(ours) < len(files):
        other = next(file for file in files if file not in ours)
        raise UserError(f"{other.path}: not written by chronoscale, as {ours[0].path} is; name the files of one job")
    return _rebuild(files)


def _read_file(path: Path) -> _File:
    """Read one file. Raises UserError that names it."""
    try:
        return _File(path, *messages.read(path))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file, a Chakra trace is expected") from None
    except Malformed as error:
        raise UserError(f"{path}: no Chakra trace, or cut off: {error}") from None
    except (OSError, EOFError) as error:  # gzip's, too
        raise UserError(f"{path}: not readable: {error}") from None


def _by_rank(files: Sequence[_File]) -> dict[int, _File]:
    """Return the files by the numbers in their names. Raises UserError unless these are 0 to n - 1."""
    numbers = [NUMBER.search(file.path.name) for file in files]
    if len(files) == 1 and numbers[0] is None:
        return {0: files[0]}
    by_rank: dict[int, _File] = {}
    for number, file in zip(numbers, files, strict=True):
        if number is None:
            raise UserError(f"{file.path}: which rank's? A trace of several ranks is named for them, as model.3.et")
        if int(number[1]) in by_rank:
            raise UserError(f"{file.path}: rank {number[1]} is {by_rank[int(number[1])].path}, too")
        by_rank[int(number[1])] = file
    if missing := sorted(set(range(max(by_rank) + 1)) - set(by_rank)):
        raise UserError(f"{files[0].path.parent}: no file of rank {missing[0]}, and one of rank {max(by_rank)}")
    return dict(sorted(by_rank.items()))


def _rebuild(files: Sequence[_File]) -> Recording:
    """Rebuild schedule and trace from files that `writer.write` wrote. Raises UserError for files of several jobs or of another version."""
    for file in files:
        with _naming_file(file):
            if file.about[MADE_BY] != FORMAT:
                raise ValueError(f"written by another version, format {file.about[MADE_BY]}, here {FORMAT}")
            if len({other.about["rank"] for other in files}) < len(files):
                raise ValueError("two files are of one rank")
            if any(file.about[name] != files[0].about[name] for name in (*ABOUT, "tasks", "device")):
                raise ValueError(f"of another job than {files[0].path}")
            if len(files) != file.about["ranks"]:
                raise ValueError(f"one of {file.about['ranks']} ranks of '{file.about['name']}', and {len(files)} files are named")
    about, columns = files[0].about, _columns(files)
    with _naming_file(files[0]):
        named = {name: TYPES[name](about[name]) for name in ABOUT}
        deps, prior = columns.pop("deps"), columns.pop("prior")
        times = {name: columns.pop(name) for name in ("start_ns", "duration_ns", "source")}
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(other) for other in deps], dtype=np.int64)])
        arrays: dict[str, Any] = {name: np.array(columns[name], COLUMNS[name]) for name in COLUMNS}
        schedule = Schedule(**named, **arrays, dep_ptr=ptr, dep=np.array([dep for other in deps for dep in other], np.int64))
        start, duration = (np.array(times[name], np.int64) for name in ("start_ns", "duration_ns"))
        trace = Trace.of(schedule, start, start + duration, np.array(times["source"], np.uint8), str(about["device"]))
        return Recording(schedule, trace, np.array(prior, np.int64))


def _columns(files: Sequence[_File]) -> dict[str, list[Any]]:
    """Return the columns of all ranks' rows, in the order of their numbers. Raises UserError for a row that is missing or there twice."""
    rows: list[dict[str, Any] | None] = [None] * files[0].about["tasks"]
    for file in files:
        rank = file.about["rank"]
        for node in file.nodes:
            with _naming_file(file, node):
                if node.id >= len(rows) or rows[node.id] is not None:
                    raise ValueError(f"a row there is once, of 0..{len(rows) - 1}")
                rows[node.id] = _row(node, rank)
    if None in rows:
        raise UserError(f"{files[0].path.parent}: no file holds row {rows.index(None)} of {len(rows)}")
    present = [row for row in rows if row is not None]
    return {name: [row[name] for row in present] for name in (*COLUMNS, *TAKEN)}


def _row(node: Node, rank: int) -> dict[str, Any]:
    """Return the columns of a row from a node's attributes."""
    attributes, op = node.attributes, Op[node.name]
    row: dict[str, Any] = {name: attributes.get(RENAMED.get(name, name), NOWHERE.get(name, 0)) for name in KEPT}
    row |= {"op": op, "rank": rank, "lane": Lane[str(attributes["lane"])], "source": Source[str(attributes["source"]).upper()]}
    row |= {"bytes": attributes.get("comm_size" if op in COLLECTIVES and row["collective"] >= 0 else "tensor_size", 0)}
    row |= {"prior": node.ctrl_deps[0] if node.ctrl_deps else -1}
    return row | {
        "start_ns": attributes["start_ns"],
        "duration_ns": attributes["duration_ns"],
        "deps": attributes.get("deps", list(node.data_deps)),
    }


@contextmanager
def _naming_file(file: _File, node: Node | None = None) -> Iterator[None]:
    """Turn errors inside into a UserError that names the file, and the node."""
    where = f"{file.path}{'' if node is None else f', node {node.id}'}"
    try:
        yield
    except KeyError as error:
        raise UserError(f"{where}: a trace of chronoscale has {error}") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise UserError(f"{where}: {error}") from None
