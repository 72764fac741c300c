"""Messages of Chakra execution traces (MLCommons): a file a rank, of metadata and nodes, each with its length in front.

Messages, field numbers and values of enumerations: et_def.proto of mlcommons/chakra (schema/protobuf, 6dc63e1). Names and kinds of the
attributes that simulators read: its et_feeder_node.cpp (src/feeder, 02da5d0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from chronoscale.datasets.unpacking import GZIP, gunzip
from chronoscale.strategies.formats.chakra.attribute import Value, attribute, read_attribute, text
from chronoscale.strategies.formats.chakra.wire import Field, Malformed, Wire, delimited, fields, read_varint, tag, varint

VERSION = "0.0.4"  # of the schema, as its generator writes it (src/generator/generator.py)


class NodeType(IntEnum):
    """Types of nodes in Chakra execution traces, `NodeType` of et_def.proto."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7
    STORAGE = 8
    BATCH = 9
    CHECKPOINT = 10


class CommType(IntEnum):
    """Types of collectives in Chakra execution traces, `CollectiveCommType` of et_def.proto."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


@dataclass(frozen=True, slots=True)
class Node:
    """Node of a Chakra execution trace (one operation of a rank), as far as it is read: times in µs, attributes by name. Inputs, outputs
    and storage operations are left out."""

    id: int
    name: str = ""
    type: int = NodeType.COMP
    ctrl_deps: tuple[int, ...] = ()
    data_deps: tuple[int, ...] = ()
    start_us: int = 0
    duration_us: int = 0
    attributes: Mapping[str, Value] = field(default_factory=dict)

    @property
    def deps(self) -> tuple[int, ...]:
        """The ids of the nodes that this one waits for, by data and by control."""
        return (*self.data_deps, *self.ctrl_deps)


def encode_metadata(attributes: Iterable[bytes]) -> bytes:
    """Encode the first message of a Chakra trace file (`GlobalMetadata`), with attributes that are encoded already."""
    return delimited(1, VERSION.encode()) + b"".join(delimited(2, encoded) for encoded in attributes)


def encode_node(node: Node, attributes: Iterable[bytes]) -> bytes:
    """Encode a node of a Chakra trace as a message. attributes: encoded ones, written in place of `node.attributes`."""
    parts = [tag(1, Wire.VARINT), varint(node.id), delimited(2, node.name.encode()), tag(3, Wire.VARINT), varint(node.type)]
    for number, deps in ((4, node.ctrl_deps), (5, node.data_deps)):
        if deps:
            parts.append(delimited(number, b"".join(map(varint, deps))))
    parts += [tag(6, Wire.VARINT), varint(node.start_us), tag(7, Wire.VARINT), varint(node.duration_us)]
    return b"".join([*parts, *(delimited(10, encoded) for encoded in attributes)])


def write(path: Path, messages: Iterable[bytes]) -> None:
    """Write a Chakra trace file of one rank: encoded messages, of which the metadata is the first, each with its length in front."""
    with path.open("wb") as file:
        file.writelines(varint(len(message)) + message for message in messages)


def read(path: Path) -> tuple[dict[str, Value], list[Node]]:
    """Read one rank's Chakra trace file, which may be compressed by gzip: the metadata's attributes, and the nodes in their order.

    Raises Malformed, which names the byte, for what is no trace, and for one that is cut off.
    """
    data = path.read_bytes()
    if data.startswith(GZIP):
        data = gunzip(path, data)
    spans = _spans(data)
    first = next(spans, None)
    if first is None:
        raise Malformed(0, "no messages, a trace begins with its metadata")
    attributes = dict(_decode_attributes(data, [part for part in fields(data, *first) if part.number == 2]))
    return attributes, [_decode_node(data, at, end) for at, end in spans]


def _spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of every message. Raises Malformed."""
    at = 0
    while at < len(data):
        begin = at
        size, at = read_varint(data, at, len(data))
        if size > len(data) - at:
            raise Malformed(begin, f"a message of {size:,} bytes, {len(data) - at:,} are left")
        yield at, at + size
        at += size


def _decode_node(data: bytes, begin: int, end: int) -> Node:
    """Decode the node in data[begin:end]. Raises Malformed."""
    numbers = {1: 0, 3: 0, 6: 0, 7: 0}
    deps: dict[int, list[int]] = {4: [], 5: []}
    name, attributes = "", []
    for part in fields(data, begin, end):
        if part.number in numbers:
            numbers[part.number] = _decode_number(part)
        elif part.number in deps:
            deps[part.number] += _decode_numbers(part)
        elif part.number == 2:
            name = text(part.value, part.at)
        elif part.number == 10:
            attributes.append(part)
    values = dict(_decode_attributes(data, attributes))
    return Node(numbers[1], name, numbers[3], tuple(deps[4]), tuple(deps[5]), numbers[6], numbers[7], values)


def _decode_attributes(data: bytes, parts: Sequence[Field]) -> Iterator[tuple[str, Value]]:
    """Yield name and value of the attributes in fields, those of unknown types left out. Raises Malformed."""
    for part in parts:
        if isinstance(part.value, int):
            raise Malformed(part.at, "a number where an attribute is expected")
        name, value = read_attribute(data, part.at, part.at + len(part.value))
        if value is not None:
            yield name, value


def _decode_number(part: Field) -> int:
    """Return a field's number. Raises Malformed where it is none."""
    if not isinstance(part.value, int):
        raise Malformed(part.at, f"field {part.number} of a node is a number")
    return part.value


def _decode_numbers(part: Field) -> list[int]:
    """Decode a repeated number, packed or not. Raises Malformed."""
    if isinstance(part.value, int):
        return [part.value]
    if part.wire is not Wire.DELIMITED:
        raise Malformed(part.at, f"field {part.number} of a node holds numbers of varying length")
    at, numbers = 0, []
    while at < len(part.value):
        try:
            value, at = read_varint(part.value, at, len(part.value))
        except Malformed as error:
            raise Malformed(part.at + error.at, "the data end inside a number") from None
        numbers.append(value)
    return numbers


__all__ = ["CommType", "Malformed", "Node", "NodeType", "attribute", "encode_metadata", "encode_node", "read", "write"]
