"""Chakra's messages as Google's own library makes them, from et_def.proto of mlcommons/chakra: a second reading of every byte of ours."""

from types import SimpleNamespace

import pytest

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", exc_type=ImportError)
from google.protobuf import descriptor_pool, message_factory  # noqa: E402

NUMBERS = [
    f"{sign}{kind}{size}" for sign, kind in (("", "int"), ("u", "int"), ("s", "int"), ("", "fixed"), ("s", "fixed")) for size in (32, 64)
]
KINDS = ["double", "float", *NUMBERS, "bool", "string", "bytes"]  # in the order of the file, a value and a list each
MESSAGES = {
    "GlobalMetadata": "string version = 1; repeated AttributeProto attr = 2",
    "Node": "uint64 id = 1; string name = 2; NodeType type = 3; repeated uint64 ctrl_deps = 4; repeated uint64 data_deps = 5; "
    "uint64 start_time_micros = 6; uint64 duration_micros = 7; IOInfo inputs = 8; IOInfo outputs = 9; repeated AttributeProto attr = 10",
    "IOInfo": "string values = 1; string shapes = 2; string types = 3",
    "AttributeProto": "string name = 1; string doc_string = 2; "
    + "; ".join(f"{kind} {kind}_val = {3 + 2 * i}; {kind.capitalize()}List {kind}_list = {4 + 2 * i}" for i, kind in enumerate(KINDS)),
    **{f"{kind.capitalize()}List": f"repeated {kind} values = 1" for kind in KINDS},
}
NODE_TYPES = [f"{name}_NODE" for name in ("INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL")]


def _classes() -> SimpleNamespace:
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    enum = file.enum_type.add(name="NodeType")
    for number, name in enumerate(NODE_TYPES):
        enum.value.add(name=name, number=number)
    for name, text in MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for line in text.split("; "):
            *label, kind, called, _, number = line.split()
            field = message.field.add(name=called, number=int(number))
            field.label = kinds.LABEL_REPEATED if label else kinds.LABEL_OPTIONAL
            if kind in KINDS:
                field.type = getattr(kinds, f"TYPE_{kind.upper()}")
            else:
                field.type = kinds.TYPE_ENUM if kind == "NodeType" else kinds.TYPE_MESSAGE
                field.type_name = f".ChakraProtoMsg.{kind}"
            if name == "AttributeProto" and int(number) > 2:
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message_classes = {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}")) for name in MESSAGES}
    return SimpleNamespace(**message_classes)


proto = _classes()
