"""Wire: the encoding of Protocol Buffers (protobuf.dev/programming-guides/encoding), as far as messages go that hold no groups.

Written out here, because a dependency for one format would have to agree with the versions of everything else that brings it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

LONGEST = 10  # bytes of a varint of 64 bits
_SMALL = [bytes([value]) for value in range(128)]


class Wire(IntEnum):
    """Layout of a field's value in Protocol Buffers (wire type), for Chakra's trace files."""

    VARINT = 0
    FIXED64 = 1
    DELIMITED = 2
    FIXED32 = 5


_WIRES = {wire.value: wire for wire in Wire}  # a look-up is faster than the class


class Malformed(ValueError):
    """Error for bytes of a trace file that are no Protocol Buffers message: what is wrong, and at which byte (`at`)."""

    def __init__(self, at: int, problem: str) -> None:
        super().__init__(f"byte {at:,}: {problem}")
        self.at = at


class Field(NamedTuple):
    """Field of a protobuf message of a trace file: its number, its layout, its value (bytes of fixed and delimited ones), and the value's
    position."""

    number: int
    wire: Wire
    value: int | bytes
    at: int


def varint(value: int) -> bytes:
    """Encode an integer as Protocol Buffers do: seven bits a byte, the lowest first; negative ones as two's complement of 64 bits. Raises
    OverflowError beyond 64 bits."""
    if 0 <= value < 128:
        return _SMALL[value]
    if not -(1 << 63) <= value < 1 << 64:
        raise OverflowError(f"{value} has more than 64 bits")
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode the protobuf integer (varint) at byte `at`, below 2^64, and return it with where the next value begins. Raises Malformed where
    it does not end before `end`."""
    if at < end and data[at] < 128:
        return data[at], at + 1
    value, begin = 0, at
    for shift in range(0, 7 * LONGEST, 7):
        if at >= end:
            raise Malformed(begin, "the data end inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, at
    raise Malformed(begin, f"a number of more than {LONGEST} bytes")


def signed(value: int) -> int:
    """Read a decoded protobuf integer (0 to 2^64 - 1) as a signed one, two's complement of 64 bits."""
    return value - (1 << 64) if value >> 63 else value


def zigzag(value: int) -> int:
    """Map a signed integer to an unsigned one that is small near 0, as protobuf's sint32 and sint64 are stored."""
    return value << 1 if value >= 0 else -(value << 1) - 1


def unzigzag(value: int) -> int:
    """Map an unsigned protobuf integer back to the signed one that `zigzag` encoded."""
    return value >> 1 ^ -(value & 1)


def tag(number: int, wire: Wire) -> bytes:
    """Encode the number and layout with which a protobuf field begins."""
    return varint(number << 3 | wire)


def delimited(number: int, value: bytes) -> bytes:
    """Encode a protobuf field of bytes: text, packed numbers, a message. number: the field's."""
    return tag(number, Wire.DELIMITED) + varint(len(value)) + value


def fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """Yield the fields of the protobuf message in data[at:end], in order. Raises Malformed where it is none."""
    while at < end:
        begin = at
        key, at = read_varint(data, at, end)
        number, wire = key >> 3, _WIRES.get(key & 7)
        if not 0 < number < 1 << 29 or wire is None:
            raise Malformed(begin, f"no field begins with {key}")
        if wire is Wire.VARINT:
            place = at
            value, at = read_varint(data, at, end)
            yield Field(number, wire, value, place)
            continue
        size = 8 if wire is Wire.FIXED64 else 4
        if wire is Wire.DELIMITED:
            size, at = read_varint(data, at, end)
        if size > end - at:
            raise Malformed(begin, f"field {number} of {size:,} bytes, {end - at:,} are left")
        yield Field(number, wire, data[at : at + size], at)
        at += size
