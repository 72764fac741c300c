"""Attribute: `AttributeProto` of Chakra's execution traces, a named value of one of thirty kinds."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from chronoscale.strategies.formats.chakra.wire import (
    Malformed,
    Wire,
    delimited,
    fields,
    read_varint,
    signed,
    tag,
    unzigzag,
    varint,
    zigzag,
)

Scalar = bool | int | float | str | bytes
Value = Scalar | list[Scalar]

NAME, TEXT = 1, 2  # field numbers: name, doc_string
VALUES = 1  # of every list


class ValueType(NamedTuple):
    """Type of the values of Chakra attributes (int64, string ...): its layout in a file, and how values are encoded and decoded; varints as
    unsigned integers, others as bytes."""

    wire: Wire
    encode: Callable[[Scalar], int | bytes]
    decode: Callable[[int | bytes], Scalar]


def _packed_type(code: str) -> ValueType:
    """Return a type of fixed width, by its `struct` code."""
    layout = struct.Struct(f"<{code}")
    wire = Wire.FIXED64 if layout.size == 8 else Wire.FIXED32
    return ValueType(wire, layout.pack, lambda value: layout.unpack(value)[0])  # type: ignore[arg-type]


def _varint_type(encode: Callable[[int], int], decode: Callable[[int], Scalar]) -> ValueType:
    """Return a type that is laid out as a varint."""
    return ValueType(Wire.VARINT, encode, decode)  # type: ignore[arg-type]


def _narrow(value: int) -> int:
    """Read an int32 from a varint: parsers keep its low 32 bits."""
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


# Kinds in the order of et_def.proto of mlcommons/chakra (schema/protobuf, 6dc63e1): the value's field is 3 + 2i, its list's 4 + 2i.
KINDS = {
    "double": _packed_type("d"),
    "float": _packed_type("f"),
    "int32": _varint_type(int, _narrow),
    "int64": _varint_type(int, signed),
    "uint32": _varint_type(int, lambda value: value & 0xFFFFFFFF),
    "uint64": _varint_type(int, int),
    "sint32": _varint_type(zigzag, lambda value: _narrow(unzigzag(value & 0xFFFFFFFF))),
    "sint64": _varint_type(zigzag, unzigzag),
    "fixed32": _packed_type("I"),
    "fixed64": _packed_type("Q"),
    "sfixed32": _packed_type("i"),
    "sfixed64": _packed_type("q"),
    "bool": _varint_type(int, bool),
    "string": ValueType(Wire.DELIMITED, lambda value: str(value).encode(), lambda value: value.decode()),  # type: ignore[union-attr]
    "bytes": ValueType(Wire.DELIMITED, bytes, bytes),  # type: ignore[arg-type]
}
FIELD = {name: 3 + 2 * i for i, name in enumerate(KINDS)}
_OF = {number: name for name, number in FIELD.items()}


def attribute(name: str, kind: str, value: Value) -> bytes:
    """Encode one attribute of a Chakra node as a protobuf message. name: the attribute's; kind: the type of its value, a key of `KINDS`
    ("int64", "string" ...); a list goes into that type's list field."""
    begin = delimited(NAME, name.encode())
    if not isinstance(value, list):
        return begin + _encode_value(FIELD[kind], KINDS[kind], value)
    items = [KINDS[kind].encode(item) for item in value]
    if KINDS[kind].wire is Wire.DELIMITED:
        inner = b"".join(delimited(VALUES, item) for item in items if isinstance(item, bytes))
    else:
        packed = b"".join(varint(item) if isinstance(item, int) else item for item in items)
        inner = delimited(VALUES, packed) if packed else b""
    return begin + delimited(FIELD[kind] + 1, inner)


def _encode_value(number: int, kind: ValueType, value: Scalar) -> bytes:
    """Encode one value as a field. It is written where it is zero, too: which type of value a oneof has is part of it."""
    encoded = kind.encode(value)
    if isinstance(encoded, int):
        return tag(number, kind.wire) + varint(encoded)
    return delimited(number, encoded) if kind.wire is Wire.DELIMITED else tag(number, kind.wire) + encoded


def read_attribute(data: bytes, at: int, end: int) -> tuple[str, Value | None]:
    """Decode name and value of the attribute of a Chakra trace that lies in data[at:end]; None for a value of an unknown type. Raises
    Malformed."""
    name = ""
    value: Value | None = None
    for field in fields(data, at, end):
        if field.number == NAME:
            name = text(field.value, field.at)
        elif field.number in _OF:
            value = _decode(_OF[field.number], field.wire, field.value, field.at)
        elif field.number - 1 in _OF:
            kind, inner = _OF[field.number - 1], _require_bytes(field.value, field.at)
            value = [
                item
                for part in fields(data, field.at, field.at + len(inner))
                if part.number == VALUES
                for item in _decode_values(kind, part)
            ]
    return name, value


def _decode_values(kind: str, part: tuple[int, Wire, int | bytes, int]) -> Iterator[Scalar]:
    """Yield the values of a list's field: one, or several that are packed."""
    _, wire, value, at = part
    if wire is not Wire.DELIMITED or KINDS[kind].wire is Wire.DELIMITED:
        yield _decode(kind, wire, value, at)
        return
    data, place = _require_bytes(value, at), 0
    while place < len(data):
        begin = place
        if KINDS[kind].wire is Wire.VARINT:
            number, place = _read_inner_varint(data, place, at)
            yield _decode(kind, Wire.VARINT, number, at + begin)
        else:
            place += 8 if KINDS[kind].wire is Wire.FIXED64 else 4
            if place > len(data):
                raise Malformed(at + begin, f"a list of {kind} ends inside a value")
            yield _decode(kind, KINDS[kind].wire, data[begin:place], at + begin)


def _read_inner_varint(data: bytes, place: int, at: int) -> tuple[int, int]:
    """Read a varint of a part that begins at byte `at` of the whole, so that errors name the byte of the whole."""
    try:
        return read_varint(data, place, len(data))
    except Malformed as error:
        raise Malformed(at + error.at, str(error).partition(": ")[2]) from None


def _decode(kind: str, wire: Wire, value: int | bytes, at: int) -> Scalar:
    """Decode one value of a type. Raises Malformed for another layout."""
    if wire is not KINDS[kind].wire:
        raise Malformed(at, f"a value of {kind} is laid out as {wire.name.lower()}")
    if kind == "string":
        return text(value, at)
    return KINDS[kind].decode(value)


def text(value: int | bytes, at: int) -> str:
    """Decode a protobuf field's value as UTF-8 text. at: its byte in the file, for messages. Raises Malformed where it is none."""
    try:
        return _require_bytes(value, at).decode()
    except UnicodeDecodeError:
        raise Malformed(at, "text that is no UTF-8") from None


def _require_bytes(value: int | bytes, at: int) -> bytes:
    """Return a field's bytes. Raises Malformed for a number."""
    if isinstance(value, int):
        raise Malformed(at, "a number where bytes are expected")
    return value
