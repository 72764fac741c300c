"""The codec against Google's, field by field, and on bytes that are no messages."""

import struct

import pytest
from chakra_oracle import KINDS, proto
from hypothesis import example, given
from hypothesis import strategies as st

from chronoscale.strategies.formats.chakra import wire
from chronoscale.strategies.formats.chakra.attribute import attribute, read_attribute
from chronoscale.strategies.formats.chakra.wire import Malformed, Wire

SIGNED = {size: st.integers(-(1 << size - 1), (1 << size - 1) - 1) for size in (32, 64)}
UNSIGNED = {size: st.integers(0, (1 << size) - 1) for size in (32, 64)}
VALUES = {
    **{f"{kind}{size}": values for kind in ("int", "sint", "sfixed") for size, values in SIGNED.items()},
    **{f"{kind}{size}": values for kind in ("uint", "fixed") for size, values in UNSIGNED.items()},
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(),
    "bytes": st.binary(),
}
PAIRS = {kind: st.tuples(st.just(kind), st.one_of(VALUES[kind], st.lists(VALUES[kind], max_size=5))) for kind in KINDS}
ATTRIBUTES = st.sampled_from(KINDS).flatmap(PAIRS.__getitem__)


@given(st.integers(0, (1 << 64) - 1))
@example(0)
@example(127)
@example(128)
@example((1 << 64) - 1)
def test_varints_are_seven_bits_a_byte(value):
    data = wire.varint(value)
    assert wire.read_varint(data + b"\x80", 0, len(data)) == (value, len(data))
    assert sum((byte & 127) << 7 * i for i, byte in enumerate(data)) == value and len(data) == max(-(-value.bit_length() // 7), 1)
    for short in range(len(data)):
        with pytest.raises(Malformed, match="byte 0: the data end inside a number"):
            wire.read_varint(data, 0, short)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_negative_integers(value):
    assert wire.signed(wire.read_varint(wire.varint(value), 0, 10)[0]) == value == wire.unzigzag(wire.zigzag(value))
    assert 0 <= wire.zigzag(value) < 1 << 64


def test_integers_beyond_64_bits_are_refused():
    for value in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(OverflowError, match="more than 64 bits"):
            wire.varint(value)


@given(st.text(), ATTRIBUTES)
def test_attributes_are_those_that_google_reads_and_writes(name, pair):
    kind, value = pair
    data = attribute(name, kind, value)
    theirs = proto.AttributeProto.FromString(data)
    chosen = f"{kind}_list" if isinstance(value, list) else f"{kind}_val"
    assert theirs.name == name and theirs.WhichOneof("value") == chosen
    assert (list(getattr(theirs, chosen).values) if isinstance(value, list) else getattr(theirs, chosen)) == value
    again = theirs.SerializeToString()
    assert read_attribute(data, 0, len(data)) == read_attribute(again, 0, len(again)) == (name, value)


def test_lists_that_are_not_packed_and_unknown_fields_are_read():
    numbers = b"".join(wire.tag(1, Wire.VARINT) + wire.varint(value) for value in (5, 300))
    data = wire.delimited(1, b"deps") + wire.delimited(10, numbers) + wire.tag(77, Wire.FIXED32) + bytes(4)
    assert read_attribute(data, 0, len(data)) == ("deps", [5, 300])
    assert list(proto.AttributeProto.FromString(data).int64_list.values) == [5, 300]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x0a\x05ab", "byte 0: field 1 of 5 bytes, 2 are left"),
        (b"\x0a\x02\xff\xfe", "byte 2: text that is no UTF-8"),
        (b"\x00\x01", "byte 0: no field begins with 0"),
        (b"\x0b", "byte 0: no field begins with 11"),
        (b"\x48" + b"\xff" * 10, "byte 1: a number of more than 10 bytes"),
        (b"\x4d\x00\x00\x00\x00", "byte 1: a value of int64 is laid out as fixed32"),
        (b"\x19" + struct.pack("<f", 1), "byte 0: field 3 of 8 bytes, 4 are left"),
        (b"\x52\x03\x0a\x01\x80", "byte 4: the data end inside a number"),
        (b"\x22\x05\x0a\x03abc", "byte 4: a list of double ends inside a value"),
        (b"\x50\x01", "byte 1: a number where bytes are expected"),
        (b"\x08\x01", "byte 1: a number where bytes are expected"),
    ],
)
def test_what_is_no_message_is_refused_with_its_byte(data, said):
    with pytest.raises(Malformed) as found:
        read_attribute(data, 0, len(data))
    assert str(found.value) == said


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data):
    """And what both take as an attribute, both take as the same."""
    try:
        ours = read_attribute(data, 0, len(data))
    except Malformed as error:
        assert 0 <= error.at <= len(data)
        return
    try:
        theirs = proto.AttributeProto.FromString(data)
    except Exception:  # groups apart, they also refuse what an unknown field holds
        return
    chosen = theirs.WhichOneof("value")
    if chosen is not None and not chosen.endswith("_list") and ours[1] == ours[1]:
        assert ours == (theirs.name, getattr(theirs, chosen))
